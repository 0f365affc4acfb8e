"""A path in virtual time: others, a bottleneck whose shares follow known rules, and a steered transfer.

Shares are those of ``steering.shares`` bent by factors that the steering does not know, and windows come to
them with a time constant. It is no TCP; it is what the steering can be held to for any ear and any such path.
All that the path shows goes to the machine as observations, and each command comes into force at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from howdah.probing.series import Floats
from howdah.steering.arbiter import Command
from howdah.steering.machine import Observation, Recognised, RouteChanged, Settled, State, Tick, step
from howdah.steering.path_state import PathState
from howdah.steering.policy import Policy, Situation
from howdah.steering.shares import Background, Belief, Choice, Shares, background, shares, value, without_us
from howdah.steering.states import Phase
from howdah.steering.throughput import Look
from howdah.values.outcome import Change

TICK_S = 0.2
VERDICT_S = 1.0
_ECHOES = 20
"""Round trips in a tick."""
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

    arbiter: "Steered"
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


class Steered:
    """A machine; its attributes are those of its arbiter."""

    def __init__(self, state: State) -> None:
        self.state = state

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401, the arbiter's
        return getattr(self.state.arbiter, name)

    def observe(self, observation: Observation) -> Command | None:
        """What is to be changed after this."""
        self.state, command = step(self.state, observation)
        return command

    def look(self, look: Look, path: PathState) -> Command | None:
        """What is to be changed by this look at a path of which nothing else is known: no probe begins."""
        return self.observe(Tick(look, path, None, look.rtt_s, None, None))

    def made(self, command: Command, t_s: float, refused: str | None, had_bps: float = 0.0) -> None:
        """The command is in force, or was refused."""
        control, streams, pacing_bps = command.choice
        change = Change(
            t_s=t_s,
            congestion_control=control,
            streams=streams,
            pacing_bps=pacing_bps,
            why=command.why.words,
            refused=refused,
        )
        self.observe(Settled(change, t_s, t_s + 1.0, had_bps, PATH.base_rtt_s))

    def update_belief(self, verdict: Belief) -> None:
        self.observe(Recognised(verdict))

    def on_new_route(self) -> None:
        self.observe(RouteChanged())

    def found(self, t_s: float, *, exclusive: bool) -> None:
        """As if a probe had found it."""
        self.state = replace(self.state, arbiter=self.state.arbiter.found(t_s, exclusive))

    def capacity_probed(self, capacity_bps: float) -> None:
        """As if dips had told it."""
        self.state = replace(self.state, arbiter=self.state.arbiter.capacity_probed(capacity_bps))


def arbiter_of(policy: Policy, now: Situation) -> Steered:
    """A transfer that sends as ``now`` says, where a model could tell who is there beside few streams."""
    state = State.begin(policy, now, None, reno_starts=True)
    return Steered(replace(state, arbiter=replace(state.arbiter, able=True)))


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
    rate_bps, bytes_done, heard_s, probe = 0.0, 0.0, 2.0, began
    rtts: list[float] = []
    for tick in range(1, round(length_s / TICK_S) + 1):
        t_s = tick * TICK_S
        who = background(path.others(t_s))
        nobody = not (who.streams or who.udp)
        # Held streams have what others leave, and nobody leaves all.
        ours = arbiter.has_fair_pace and nobody
        sent = arbiter.current._replace(pacing_bps=None) if ours else arbiter.current
        found = true_shares(path, sent, who)
        rate_bps += (found.ours * CAPACITY_BPS - rate_bps) * min(1.0, TICK_S / path.comes_s)
        # Windows are what they were after a moment of less.
        less_bps = probe.pacing_bps and probe.pacing_bps * probe.streams if arbiter.state.probes else None
        bytes_done += min(rate_bps, less_bps or rate_bps) * TICK_S / 8
        if t_s - heard_s >= VERDICT_S and not arbiter.state.probes:
            heard_s = t_s
            # Behind many streams it is only asked whether it could tell.
            able = arbiter.can_recognise
            if (belief := path.ear(t_s, arbiter.current) if able else Belief({})) is not None:
                arbiter.update_belief(belief)
        rtt_s = path.base_rtt_s * (1 + path.queue_of(arbiter.current) * path.queue_bdp)
        if arbiter.state.phase is Phase.PROBING_CAPACITY and gauged is not None and less_bps is not None:
            # Little's law, by what the path is measured to carry.
            carries_bps, dip = gauged(t_s) * CAPACITY_BPS, arbiter.state.capacity
            rtt_s *= (carries_bps - dip.rate_bps) / (carries_bps - dip.bound_bps)
            rtt_s = max(path.base_rtt_s, rtt_s)
        elif arbiter.state.phase is Phase.PROBING_EXCLUSIVITY and less_bps is not None and nobody:
            rtt_s = path.base_rtt_s
        rtts.append(rtt_s)
        known = PathState(path.base_rtt_s, path.queue_bdp)
        look = Look(t_s, round(bytes_done), 0, rtt_s, length_s - t_s)
        each_bps = [rate_bps / arbiter.current.streams] * arbiter.current.streams
        lately_bps = None if gauged is None else each_bps
        observed = Tick(look, known, path.base_rtt_s, rtt_s, lately_bps, each_bps, _series(t_s, rtts))
        if (command := arbiter.observe(observed)) is not None:
            probe = command.choice
            arbiter.made(command, t_s, None, rate_bps)
        ran.times_s.append(t_s)
        ran.choices.append(arbiter.current)
        ran.rates_bps.append(rate_bps)
        ran.default_bps.append(true_shares(path, DEFAULT, who).ours * CAPACITY_BPS)
        ran.fair_bps.append(CAPACITY_BPS / (who.streams + 1))
        ran.values.append(value(found, without_us(who, path.queue_bdp), who, fairness))
    return ran


def _series(t_s: float, rtts: list[float]) -> tuple[Floats, Floats]:
    """The echoes of the last seconds, of which each tick has some that are alike."""
    rtt_s = np.repeat(np.array(rtts[-10:], np.float64), _ECHOES)
    ago_s = TICK_S / _ECHOES * np.arange(len(rtt_s), dtype=np.float64)[::-1]
    return np.asarray(t_s - ago_s, np.float64), rtt_s


def right(others: Callable[[float], str], late_s: float = 3.0, sure: float = 0.94) -> Recognition:
    """Who is right, some seconds late."""
    return lambda t_s, choice: Belief({others(max(0.0, t_s - late_s)): sure})


def always(label: str) -> Simulated:
    """A path with the same others all the time, who are recognised."""
    return Simulated(lambda t_s: label, right(lambda t_s: label))
