"""What a policy is: it says how it would send beside those who are believed to be there, and no more.

When a change is made, kept and undone is the same for all of them (``arbiter``). ``Paper`` is the rule of
Anvari, Huard, Lu, *Optimization through protocol selection* (Computers 2021, 10, 76): beside any BBR send by
BBR, else by CUBIC; streams stay as they are.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from howdah.steering.shares import Belief, Choice, Kind, background
from howdah.steering.tunables import TUNED


class Situation(NamedTuple):
    """What a choice depends on beside who is there."""

    current: Choice
    default: Choice
    """The plan's: the fair default, as long as nothing is paced (``fair_pace``)."""
    controls: tuple[str, ...]
    """That the sender may use, of those policies know; the default's is one of them."""
    stream_most_bps: float
    """What the window of one stream carries at most."""
    streams_fixed: bool = False
    """Somebody has said how many."""
    queue_bdp: float = 1.0
    """How much queue the bottleneck holds, in bandwidth × delay."""
    capacity_bps: float | None = None
    """Of the bottleneck, at least; None: not known yet."""
    fair_pace: Choice | None = None
    """The plan's streams paced to an equal share, the fair default where the capacity was measured beside
    others (``capacity_probe``), and so is no mere lower bound."""
    measured: Mapping[Choice, float] = {}
    """The rate each choice has had beside the same kind of background."""


class Preference(NamedTuple):
    """What a policy would do."""

    choice: Choice
    kind: Kind
    """The background that it answers."""
    probability: float
    """Of that kind."""
    gain: float
    """What it is worth more than what is done now, 0..1."""
    growth: float
    """The rate expected, as a multiple of the one now."""
    fair_share: float
    """Of the path, for each of all that yield, this transfer being one."""


class Policy(Protocol):
    """Says how to send."""

    @property
    def paces(self) -> bool:
        """Whether an equal share is what it would have beside others that yield."""
        ...

    def __call__(self, belief: Belief, now: Situation) -> Preference | None:
        """What it would do; None: it cannot tell."""


def sure_kind(belief: Belief) -> tuple[Kind, float] | None:
    """The kind of background that is sure enough to act upon."""
    kinds = belief.kinds()
    if not kinds:
        return None
    kind = max(kinds, key=lambda each: kinds[each])
    return (kind, kinds[kind]) if kinds[kind] >= TUNED.sure else None


def stream_counts(now: Situation) -> Iterator[int]:
    """Powers of two below the default's whose windows are enough for this path, and it."""
    if not now.streams_fixed:
        streams = 1
        while streams < now.default.streams:
            if streams * now.stream_most_bps >= TUNED.window_room * (now.capacity_bps or 0.0):
                yield streams
            streams *= 2
    yield now.default.streams


class Paper:
    """Its policy."""

    paces = False

    def __call__(self, belief: Belief, now: Situation) -> Preference | None:
        """Of the two sides, the likelier; None when neither is likely enough."""
        sides: dict[bool, dict[str, float]] = {True: {}, False: {}}
        for label, probability in belief.classes.items():
            sides[background(label).bbr > 0][label] = probability
        bbr, others = sum(sides[True].values()), sum(sides[False].values())
        heard = bbr > others
        if max(bbr, others) < TUNED.sure:
            return None
        choice = now.default
        if heard and "bbr" in now.controls:
            choice = Choice("bbr", choice.streams, choice.pacing_bps)
        seen = background(Belief(sides[heard]).likeliest[0])
        gain = 1.0 if choice != now.current else 0.0
        return Preference(choice, seen.kind, max(bbr, others), gain, 1.0, 1 / (seen.streams + 1))
