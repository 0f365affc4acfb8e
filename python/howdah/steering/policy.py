"""The interface of policies. A policy says how it would send beside the background recognised, and no more.

When a change is made, kept and undone is the same for all of them (``arbiter``). ``Paper`` is the rule of
Anvari, Huard, Lu, *Optimization through protocol selection* (Computers 2021, 10, 76): beside any BBR send by
BBR, else by CUBIC; streams stay as they are.

``UtilityPolicy`` is the one that howdah uses: the way to send whose shares are worth most, over all that may
be there. Shares are expected ones (``shares``) until a choice has been measured beside the same kind of
background; then ours is the geometric mean of both, for neither the theory nor what a path is taken to carry
is exact; where that has been measured beside others (``capacity_probe``) ours is what it was. Else what it
carries is at least what has arrived for some seconds; where all streams are of one kind, and so share
equally, our part tells the whole. A bound of the rate is considered only where fewer streams cannot do: it
needs the capacity, they do not. Where that was measured beside others, the plan's streams paced to an equal
share come to it at once, and one stream that comes late to CUBIC on a long path in minutes; so nothing else
is considered beside nobody or those that yield to loss.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from howdah.steering.shares import (
    Background,
    Belief,
    Choice,
    Kind,
    Shares,
    background,
    shares,
    value,
    without_us,
)
from howdah.steering.tunables import TUNED
from howdah.values.plan import Plan


class Situation(NamedTuple):
    """The values that a choice depends on, beside who is there."""

    current: Choice
    default: Choice
    """The plan's: the fair default, as long as nothing is paced (``fair_pace``)."""
    controls: tuple[str, ...]
    """The controls that the sender may use, of those policies know; the default's is one of them."""
    stream_most_bps: float
    """The most that the window of one stream carries, bits per second."""
    streams_fixed: bool = False
    """Whether the user has set the number of streams."""
    queue_bdp: float = 1.0
    """The queue of the bottleneck when it is full, in bandwidth × delay."""
    capacity_bps: float | None = None
    """The least that the bottleneck carries; None: not known yet."""
    fair_pace: Choice | None = None
    """The plan's streams paced to an equal share, the fair default where the capacity was measured beside
    others (``capacity_probe``), and so is no mere lower bound."""
    measured: Mapping[Choice, float] = {}
    """The rate each choice has had beside the same kind of background."""


class Preference(NamedTuple):
    """A choice that a policy prefers."""

    choice: Choice
    kind: Kind
    """The background that it answers."""
    probability: float
    """The probability of that kind."""
    gain: float
    """The value above that of the choice in force, 0..1."""
    growth: float
    """The rate expected, as a multiple of the one now."""
    fair_share: float
    """The equal share of the path for each of all that yield, this transfer being one."""


class Policy(Protocol):
    """The call that is a policy."""

    @property
    def paces(self) -> bool:
        """Whether an equal share is what it would have beside others that yield."""
        ...

    def __call__(self, belief: Belief, now: Situation) -> Preference | None:
        """The choice it prefers; None: it cannot tell."""


class SteeringRequest(NamedTuple):
    """The request for steering: what was asked for, and what can be had."""

    plan: Plan
    fairness: float
    control_default: str
    """The sender's default."""
    controls: tuple[str, ...]
    """The controls that the sender may use."""
    streams_fixed: bool
    stream_most_bps: float
    """The most that the window of one stream carries, bits per second."""
    rtt_s: float | None
    addresses: list[str]
    """The addresses where the data goes, the likeliest first."""
    for_s: float | None = None
    """How long it is to send; None: until all is there."""
    policy: Policy | None = None
    """The policy; None: the one that weighs by ``fairness``."""


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
    """The policy of the paper."""

    paces = False

    def __call__(self, belief: Belief, now: Situation) -> Preference | None:
        """The likelier of the two sides; None when neither is likely enough."""
        sides: dict[bool, dict[str, float]] = {True: {}, False: {}}
        for label, probability in belief.classes.items():
            sides[background(label).bbr > 0][label] = probability
        bbr, others = sum(sides[True].values()), sum(sides[False].values())
        any_bbr = bbr > others
        if max(bbr, others) < TUNED.sure:
            return None
        choice = now.default
        if any_bbr and "bbr" in now.controls:
            choice = Choice("bbr", choice.streams, choice.pacing_bps)
        seen = background(Belief(sides[any_bbr]).likeliest[0])
        gain = 1.0 if choice != now.current else 0.0
        return Preference(choice, seen.kind, max(bbr, others), gain, 1.0, 1 / (seen.streams + 1))


class UtilityPolicy:
    """The policy of howdah, for a ``fairness`` of 0..1."""

    def __init__(self, fairness: float) -> None:
        self.fairness = fairness

    @property
    def paces(self) -> bool:
        """Whether an equal share is worth more than all of a path with this ``fairness``."""
        one, before = Background(loss=1), Shares(0.0, 1.0, 0.0)
        equal, all_ours = (
            value(Shares(part, 1 - part, 0.0), before, one, self.fairness) for part in (0.5, 1.0)
        )
        return equal > all_ours

    def __call__(self, belief: Belief, now: Situation) -> Preference | None:
        """The best choice beside the likeliest kind of background; None when no kind is likely enough."""
        found = sure_kind(belief)
        if found is None:
            return None
        kind, probability = found
        likely = {
            background(label): each / probability
            for label, each in belief.classes.items()
            if background(label).kind == kind and each > 0
        }
        fair_share = sum(each / (who.streams + 1) for who, each in likely.items())
        if now.fair_pace is not None and kind in {"nobody", "loss"}:
            gain = 0.0 if now.current == now.fair_pace else 1.0
            return Preference(now.fair_pace, kind, probability, gain, 1.0, fair_share)
        if kind == "nobody" and now.current.is_bbr and not now.default.is_bbr:
            # Where nobody is recognised behind BBR some who yield may have hardly anything left.
            return Preference(now.default, kind, probability, 1.0, 1.0, fair_share)
        now = now._replace(capacity_bps=_capacity(likely, now))
        worth = {choice: self._worth(choice, likely, now) for choice in _candidates(likely, now)}
        worth.setdefault(now.current, self._worth(now.current, likely, now))
        best = max(worth, key=lambda choice: (worth[choice], choice == now.current))
        ours, before = (_ours(choice, likely, now) for choice in (best, now.current))
        return Preference(
            best,
            kind,
            probability,
            worth[best] - worth[now.current],
            ours / max(before, TUNED.share_least),
            fair_share,
        )

    def _worth(self, choice: Choice, likely: dict[Background, float], now: Situation) -> float:
        paced = (
            TUNED.bound_worth
            if choice.pacing_bps != now.default.pacing_bps and choice != now.fair_pace
            else 0.0
        )
        expected = 0.0
        for who, probability in likely.items():
            before = without_us(who, now.queue_bdp)
            expected += probability * value(_shares(choice, who, now), before, who, self.fairness)
        return expected - paced


def _candidates(likely: dict[Background, float], now: Situation) -> Iterator[Choice]:
    yield now.default
    beside = sum(who.streams * each for who, each in likely.items())
    somebody = any(who.streams or who.udp for who in likely)
    counts = list(stream_counts(now))
    capacity_bps = now.capacity_bps if beside and now.default.pacing_bps is None else None
    if now.fair_pace is not None:
        yield now.fair_pace
    for control in now.controls if somebody else ():
        for streams in counts:
            yield Choice(control, streams, now.default.pacing_bps)
            if capacity_bps and counts[0] > 1:
                yield Choice(control, streams, _rounded(capacity_bps / (beside + 1) / streams))


def _shares(choice: Choice, who: Background, now: Situation) -> Shares:
    expected = shares(choice, who, now.queue_bdp, now.capacity_bps)
    rate_bps = now.measured.get(choice)
    if rate_bps is None or not now.capacity_bps or (who.udp and not _all_measured(now)):
        return expected
    measured = min(1.0, max(TUNED.share_least, rate_bps / now.capacity_bps))
    if now.fair_pace is not None:
        return expected.with_ours(measured)
    return expected.with_ours(math.sqrt(max(TUNED.share_least, expected.ours) * measured))


def _all_measured(now: Situation) -> bool:
    """Whether every control was measured: what senders that do not yield leave is known only by trying."""
    return {choice.congestion_control for choice in now.measured} >= set(now.controls)


def _capacity(likely: dict[Background, float], now: Situation) -> float | None:
    """The capacity of the path, from the most that was had and from shares that are equal."""
    if now.fair_pace is not None:
        return now.capacity_bps
    who = max(likely, key=lambda each: likely[each])
    known = [now.capacity_bps] if now.capacity_bps else []
    if who.streams and not who.udp:
        for choice, rate_bps in now.measured.items():
            if choice.pacing_bps is None and (who.bbr if choice.is_bbr else who.loss) == who.streams:
                known.append(rate_bps / shares(choice, who, now.queue_bdp, None).ours)
    return max(known, default=None)


def _ours(choice: Choice, likely: dict[Background, float], now: Situation) -> float:
    return sum(_shares(choice, who, now).ours * each for who, each in likely.items())


def _rounded(rate_bps: float) -> int:
    """The rate to two digits, so that a bound does not follow every estimate."""
    unit = 10.0 ** max(0, math.floor(math.log10(rate_bps)) - 1)
    return max(1, round(round(rate_bps / unit) * unit))
