"""A path in virtual time: others, a bottleneck whose shares follow known rules, and a steered transfer.

Shares are those of ``steering.shares`` bent by factors that the steering does not know, and windows come to
them with a time constant. It is no TCP; it is what the steering can be held to for any ear and any such path.
"""

from collections.abc import Callable
from typing import NamedTuple

from stepped import Stepped

from howdah.steering.arbiter import ChangeArbiter, Command
from howdah.steering.moves import decide
from howdah.steering.path_state import PathState
from howdah.steering.policy import Policy, Situation
from howdah.steering.shares import Background, Belief, Choice, Shares, background, shares, value, without_us
from howdah.steering.throughput import Look

TICK_S = 0.2
VERDICT_S = 1.0
DEFAULT = Choice("cubic", 8)
CAPACITY_BPS = 200e6
ONE = Choice("cubic", 1)
BBR = Choice("bbr", 1)
SHARE_BPS = round(CAPACITY_BPS / 2 / DEFAULT.streams)
EQUAL = DEFAULT._replace(pacing_bps=SHARE_BPS)
"""The default, paced to an equal share beside one other."""
OWN = DEFAULT._replace(pacing_bps=round(0.98 * SHARE_BPS))
"""The same, by the most that arrives on a path of its own."""
PATH = PathState(0.04, 1.0)

Recognition = Callable[[float, Choice], Belief | None]
"""What is heard at an instant while we send so."""


class Simulated(NamedTuple):
    """A path."""

    others: Callable[[float], str]
    """Who is there, by time."""
    ear: Recognition
    bent: Callable[[Choice, Background], float] = lambda choice, who: 1.0
    """Our true share beside the expected one."""
    queue_bdp: float = 1.0
    base_rtt_s: float = 0.04
    comes_s: float = 1.0
    """Time constant with which a rate comes to its share."""
    queue_of: Callable[[Choice], float] = lambda choice: 0.8
    """How full the queue is while we send so."""


class Ran(NamedTuple):
    """What came of it."""

    arbiter: Stepped
    times_s: list[float]
    choices: list[Choice]
    rates_bps: list[float]
    default_bps: list[float]
    """What the fair default would have had."""
    fair_bps: list[float]
    """An equal share."""
    values: list[float]

    def mean(self, of: list[float], from_s: float = 0.0) -> float:
        """From an instant on."""
        kept = [each for t_s, each in zip(self.times_s, of, strict=True) if t_s >= from_s]
        return sum(kept) / len(kept)

    def share_of(self, wanted: Callable[[Choice], bool], from_s: float, until_s: float) -> float:
        """Of that time."""
        kept = [c for t_s, c in zip(self.times_s, self.choices, strict=True) if from_s <= t_s < until_s]
        return sum(map(wanted, kept)) / len(kept)


def true_shares(path: Simulated, choice: Choice, who: Background) -> Shares:
    """As the path has them."""
    expected = shares(choice, who, path.queue_bdp, CAPACITY_BPS)
    return expected.with_ours(min(0.98, expected.ours * path.bent(choice, who)))


class Steered(Stepped):
    """An arbiter that looks at its path and decides at once."""

    def look(self, look: Look, path: PathState) -> Command | None:
        """What is to be changed by this look at a path that is known so."""
        self.value, command = decide(self.value.add(look, path), look)
        return command


def arbiter_of(policy: Policy, now: Situation) -> Steered:
    """The state of a transfer that sends as ``now`` says."""
    return Steered(ChangeArbiter.begin(policy, now))


def run(
    path: Simulated,
    policy: Policy,
    length_s: float,
    fairness: float = 0.5,
    began: Choice = DEFAULT,
    *,
    gauged: Callable[[float], float] | None = None,
) -> Ran:
    """A transfer of so long, begun so; ``gauged`` is what the path is measured to carry, of what it does."""
    now = Situation(began, DEFAULT, ("cubic", "bbr"), stream_most_bps=1e9)
    arbiter = arbiter_of(policy, now)
    ran = Ran(arbiter, [], [], [], [], [], [])
    rate_bps, bytes_done, heard_s = 0.0, 0.0, 2.0
    for tick in range(1, round(length_s / TICK_S) + 1):
        t_s = tick * TICK_S
        who = background(path.others(t_s))
        # Held streams have what others leave, and nobody leaves all.
        ours = arbiter.has_fair_pace and not (who.streams or who.udp)
        sent = arbiter.current._replace(pacing_bps=None) if ours else arbiter.current
        found = true_shares(path, sent, who)
        rate_bps += (found.ours * CAPACITY_BPS - rate_bps) * min(1.0, TICK_S / path.comes_s)
        bytes_done += rate_bps * TICK_S / 8
        if t_s - heard_s >= VERDICT_S:
            heard_s = t_s
            if arbiter.can_recognise and (belief := path.ear(t_s, arbiter.current)) is not None:
                arbiter.update_belief(belief)
        rtt_s = path.base_rtt_s * (1 + path.queue_of(arbiter.current) * path.queue_bdp)
        look = Look(t_s, round(bytes_done), 0, rtt_s, length_s - t_s)
        if gauged is not None and arbiter.needs_capacity(t_s):
            arbiter.capacity_probed(gauged(t_s) * CAPACITY_BPS)
        if arbiter.needs_exclusivity(t_s):
            arbiter.found(t_s, exclusive=not (who.streams or who.udp))
        if (command := arbiter.look(look, PathState(path.base_rtt_s, path.queue_bdp))) is not None:
            arbiter.made(command, t_s, None)
        ran.times_s.append(t_s)
        ran.choices.append(arbiter.current)
        ran.rates_bps.append(rate_bps)
        ran.default_bps.append(true_shares(path, DEFAULT, who).ours * CAPACITY_BPS)
        ran.fair_bps.append(CAPACITY_BPS / (who.streams + 1))
        ran.values.append(value(found, without_us(who, path.queue_bdp), who, fairness))
    return ran


def right(others: Callable[[float], str], late_s: float = 3.0, sure: float = 0.94) -> Recognition:
    """Who is right, some seconds late."""
    return lambda t_s, choice: Belief({others(max(0.0, t_s - late_s)): sure})


def always(label: str) -> Simulated:
    """A path with the same others all the time, who are recognised."""
    return Simulated(lambda t_s: label, right(lambda t_s: label))
