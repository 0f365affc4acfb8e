"""The last minute of round trips: base RTT, queue, changes of route, and who is there by all that.

What is judged begins when the streams were last changed and had settled, or when the route changed: a series
in which we ourselves sent first one way and then another is like nothing anybody was trained on.

Senders that do not yield, as bursts of UDP, are told by what they do to round trips and to probes, without
a model. Whoever yields to loss, or to a longer round trip, has yielded a few round trips after the queue is
full. So an overload that lasts (the queue is full, and probes are lost all the while) is of somebody who
does not. BBR overloads a short queue for long, but leaves it for 200 ms at most; a burst that is over leaves
a path that those who yielded fill again slowly. So it takes two overloads with an empty queue in between.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import pairwise, takewhile
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from howdah.probing.series import STEADY_S, Floats, RouteChange, Series, events, queues
from howdah.steering.sources import By, RttSample, RttSource
from howdah.steering.tunables import TUNED
from howdah.values.listened import RouteMoved


@runtime_checkable
class Verdict(Protocol):
    """A verdict on the end of a series."""

    @property
    def classes(self) -> dict[str, float]:
        """The probability of each class, as ``1 bbr, 1 cubic``."""

    @property
    def new(self) -> bool:
        """Whether it is like nothing trained on, so that the classes are only what is nearest."""

    @property
    def heard_s(self) -> float:
        """How much of the series was judged."""


class CannotTell(Protocol):
    """The answer where a series cannot be judged."""

    @property
    def why(self) -> str:
        """The reason, in words that end no sentence."""


Recogniser = Callable[[Floats, Floats, float, Mapping[str, int]], Verdict | CannotTell]
"""Judges the times and RTTs of the last samples (NaN: no answer), the base RTT, and our own streams by
congestion control. Raises HowdahError where its model is damaged."""


def overloads(times_s: Floats, rtt_s: Floats, base_rtt_s: float) -> int:
    """How many overloads end in an empty queue, or come after one; ``rtt_s`` has NaN for a lost probe.

    Two are sure to be of senders that do not yield.
    """
    answered = np.isfinite(rtt_s)
    if answered.sum() < 2:
        return 0
    # A lost probe met a full queue: the queue around it is that of its neighbours.
    queue = np.interp(times_s, times_s[answered], rtt_s[answered]) / base_rtt_s - 1
    most = float(np.quantile(queue, 0.99))
    if most < TUNED.overload_queue:
        return 0
    lasts_s = max(TUNED.overload_s, TUNED.overload_round_trips * base_rtt_s)
    found, emptied = 0, True
    states = np.where(queue >= TUNED.overload_full * most, 1, 0)
    states[queue <= TUNED.overload_empty * most] = -1
    for begin, end, full in _spans(states):
        length_s = float(times_s[end - 1] - times_s[begin])
        if full < 0:
            emptied = emptied or length_s >= TUNED.overload_empty_s
        elif length_s >= lasts_s and np.mean(~answered[begin:end]) >= TUNED.overload_lost and emptied:
            found, emptied = found + 1, False
    return found


def _spans(states: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[tuple[int, int, int]]:
    """Runs of one state other than 0, as (begin, end, state)."""
    edges = [0, *(np.flatnonzero(np.diff(states)) + 1).tolist(), len(states)]
    return [(begin, end, int(states[begin])) for begin, end in pairwise(edges) if states[begin] != 0]


_MOVED_S = TUNED.route_every_s + 4 * STEADY_S
"""A change of route is found within it."""


class Unyielding(NamedTuple):
    """The verdict where the queue tells of a sender that does not yield; no model is trained on these."""

    heard_s: float
    new: bool = False

    @property
    def classes(self) -> dict[str, float]:
        """The probability of the one class; the rest is doubt."""
        return {"1 udp": 0.9}


class RoundTrips:
    """The round trips of one transfer. Times are since the session's start."""

    def __init__(self, source: RttSource, recogniser: Recogniser, base_rtt_s: float | None) -> None:
        """``base_rtt_s`` as it was known before, if it was."""
        self._source, self._recognise = source, recogniser
        self._samples: deque[RttSample] = deque()
        self._from_s = self._route_s = 0.0
        self._judged_s = self._looked_s = 0.0
        self.base_rtt_s = base_rtt_s
        """The least there was on this route."""
        self.queue_bdp = 1.0
        """The most queue that the bottleneck was seen to have, in bandwidth × delay."""
        self.moved: list[RouteMoved] = []

    @property
    def by(self) -> By:
        """The kind of source."""
        return self._source.by

    def take(self, now_s: float, rtt_s: float | None) -> RouteMoved | None:
        """Takes new samples; returns a change of route if one has just been found."""
        fresh = sorted(self._source.take(now_s, rtt_s), key=lambda sample: sample.t_s)
        # A probe is known to be lost only after later ones were answered.
        late = fresh and self._samples and fresh[0].t_s < self._samples[-1].t_s
        self._samples.extend(fresh)
        if late:
            self._samples = deque(sorted(self._samples, key=lambda sample: sample.t_s))
        while self._samples and self._samples[0].t_s < now_s - TUNED.series_kept_s:
            self._samples.popleft()
        known = [sample.rtt_s for sample in fresh if sample.rtt_s is not None and sample.t_s >= self._route_s]
        if self.base_rtt_s is not None:
            known.append(self.base_rtt_s)
        self.base_rtt_s = min(known, default=None)
        if now_s - self._looked_s < TUNED.route_every_s:
            return None
        self._looked_s = now_s
        return self._look()

    def use_source(self, source: RttSource) -> None:
        """Goes over to another source, whose round trips are not to be mixed with those before."""
        self._source = source
        self._samples.clear()

    def begin(self, from_s: float) -> None:
        """Forgets what was seen before ``from_s``, for it was sent in another way."""
        self._from_s = from_s

    def verdict(self, now_s: float, ours: Mapping[str, int]) -> Verdict | CannotTell | None:
        """The verdict on who is there; None when none is due. Raises HowdahError where no model can judge."""
        base_s = self.base_rtt_s
        if now_s - self._judged_s < TUNED.verdict_every_s or base_s is None:
            return None
        times_s, rtt_s = self.known(max(self._from_s, self._route_s))
        if len(times_s) < TUNED.series_samples or times_s[-1] - times_s[0] < TUNED.series_least_s:
            return None
        self._judged_s = now_s
        if self._source.by == "icmp" and overloads(times_s, rtt_s, base_s) >= TUNED.overloads_sure:
            return Unyielding(heard_s=float(times_s[-1] - times_s[0]))
        return self._recognise(times_s, rtt_s, base_s, ours)

    def known(self, from_s: float) -> tuple[Floats, Floats]:
        """Times and RTTs since then, up to the last answer: what is still out is not lost."""
        samples = list(takewhile(lambda sample: sample.t_s >= from_s, reversed(self._samples)))[::-1]
        while samples and samples[-1].rtt_s is None:
            samples.pop()
        times_s = np.array([sample.t_s for sample in samples])
        return times_s, np.array([np.nan if sample.rtt_s is None else sample.rtt_s for sample in samples])

    def _look(self) -> RouteMoved | None:
        times_s, rtt_s = self.known(self._route_s)
        if np.isfinite(rtt_s).sum() < TUNED.series_samples:
            return None
        moved = self._move(times_s, rtt_s)
        if moved is not None:
            self._route_s, self.base_rtt_s = moved.t_s, moved.after_s
            self.moved.append(moved)
            rtt_s = rtt_s[times_s >= moved.t_s]
        if self.base_rtt_s is not None:
            self.queue_bdp = max(0.0, float(np.nanquantile(rtt_s, TUNED.queue_high)) / self.base_rtt_s - 1)
        return moved

    def _move(self, times_s: Floats, rtt_s: Floats) -> RouteMoved | None:
        lately = times_s > times_s[-1] - _MOVED_S
        series = _stepped(times_s[lately], rtt_s[lately], self._source)
        if not np.isfinite(series.rtt_s).any():
            return None
        changes = [change for change in events(series).changes if _matters(change)]
        if not changes or not self._from_base(changes[0]):
            return None
        begun_s, last = float(times_s[lately][0]), changes[-1]
        return RouteMoved(t_s=begun_s + last.at_s, before_s=last.before_s, after_s=last.after_s)

    def _from_base(self, change: RouteChange) -> bool:
        """A small queue beside senders that are paced stays at one level, and moves to another at once."""
        least_s = min(change.before_s, change.after_s)
        return self.base_rtt_s is None or not queues(least_s, self.base_rtt_s)


def _matters(change: RouteChange) -> bool:
    """A smaller move may well be that of a queue, and no queue would be taken for another by it."""
    return queues(max(change.before_s, change.after_s), min(change.before_s, change.after_s))


def _stepped(times_s: Floats, rtt_s: Floats, source: RttSource) -> Series:
    """The samples as a series of regular steps, whose clock begins with the first of them."""
    place = np.floor((times_s - source.begun_s) / source.step_s).astype(np.int64)
    place -= place[0]
    steps = int(place[-1]) + 1
    sent_s: Floats = np.arange(steps, dtype=np.float64) * source.step_s
    stepped = np.full(steps, np.nan)
    sent_s[place] = times_s - times_s[0]
    stepped[place] = rtt_s
    return Series(source.step_s, sent_s, stepped)
