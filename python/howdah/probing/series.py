"""Series of round trips, and what they show: the base RTT, queues above it, and changes of route.

Two series come from one probing: one sample a step, and that of *optimization through protocol selection*
(Computers 2021, 10, 76; section 5.2), the mean of ten pings 1 ms apart, once a second. NaN is a gap, where a
probe was lost or none was sent.

The base RTT is the least of a route. A queue rises above it and drains; a change of route moves it for good.
Three signs tell them apart:

- Before and after a change of route, for STEADY_S each, the least of every BLOCK_S is the same within the
  noise. What TCP keeps in a queue moves, by its window and by what others send.
- A good part of the move is faster than time. A queue drains no faster than time passes: where the round
  trip falls by more than the time between two probes, the second overtook the first. It grows half as fast
  where one and a half times its capacity arrives. A move too small for the distance of the samples may be
  either.
- No more probes are lost on the longer route. A queue that stays at one level is full, and drops.

So a queue is taken for a route if it comes at once, stays at one level and hardly drops probes: that of less
than three steps (30 ms) of a sender with a fixed window. No change of route is seen while a queue never
drains.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.probing.prober import ProbeSample
from howdah.values.probe import Gap

Floats = NDArray[np.float64]

STEADY_S = 1.5
BLOCK_S = 0.25
_QUEUE, _QUEUE_LEAST_S = 0.05, 0.001
"""A queue is more than this part of the base RTT, and more than so much, above it."""
_SAME_BLOCKS = 5 / 6
"""The share of the blocks of STEADY_S that must be at the base."""
_NOISE_LEAST_S = 150e-6
"""A sleeping core wakes up late by some 0.1 ms."""
_NOISE_MOST = 0.01
"""The limit of noise, in base RTTs. A series that moves by more from sample to sample shows a queue."""
_QUEUE_NOISES = 3
_MOVE_NOISES = 4
_LOST_MORE = 0.1
_GROWS = 0.5
"""The growth of a queue by the time that passes. What arrives beyond the capacity is lost once it is full."""
_BEYOND = 0.25
"""The part of a move that must be faster than time. Where both directions change at once, round trips have
one way of each route for a while."""


class Series(NamedTuple):
    """Round trips in steps of ``step_s``."""

    step_s: float
    sent_s: Floats
    """The times at which probes were sent, or the middle of a step without one: shape (steps,)."""
    rtt_s: Floats
    """The round trips in seconds, NaN in a gap: shape (steps,)."""

    def gaps(self, longest_s: float) -> list[Gap]:
        """The gaps longer than ``longest_s``."""
        missing = np.isnan(self.rtt_s)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
        spans = edges.reshape(-1, 2) * self.step_s
        return [Gap(from_s=float(one), until_s=float(two)) for one, two in spans if two - one > longest_s]


def step_series(samples: Iterable[ProbeSample], step_s: float) -> Series:
    """The series of one sample a step."""
    kept = [each for each in samples if each.kind == "step"]
    steps = max((each.index for each in kept), default=-1) + 1
    sent_s: Floats = (np.arange(steps, dtype=np.float64) + 0.5) * step_s
    rtt_s = np.full(steps, np.nan)
    for each in kept:
        sent_s[each.index] = each.sent_s
        if each.rtt_s is not None:
            rtt_s[each.index] = each.rtt_s
    return Series(step_s, sent_s, rtt_s)


def answers(samples: Iterable[ProbeSample], step_s: float) -> tuple[Floats, Floats]:
    """Times and round trips of what was sent, NaN where no answer came: shape (samples,) each.

    Each sample is placed in the middle of its step. A step without a probe is left out, as it is no loss.
    """
    kept = [each for each in samples if each.kind == "step"]
    times_s: Floats = (np.array([each.index for each in kept], np.float64) + 0.5) * np.float64(step_s)
    return times_s, np.array([np.nan if each.rtt_s is None else each.rtt_s for each in kept], np.float64)


def burst_means(samples: Iterable[ProbeSample], every_s: float) -> Series:
    """The mean of each burst's answers; a burst without any is a gap."""
    bursts: dict[int, list[ProbeSample]] = {}
    for each in samples:
        if each.kind == "burst":
            bursts.setdefault(each.index, []).append(each)
    count = max(bursts, default=-1) + 1
    sent_s: Floats = np.arange(count, dtype=np.float64) * every_s
    rtt_s = np.full(count, np.nan)
    for index, burst in bursts.items():
        if answered := [each.rtt_s for each in burst if each.rtt_s is not None]:
            rtt_s[index] = np.mean(answered)
    return Series(every_s, sent_s, rtt_s)


def queues(rtt_s: float, base_rtt_s: float) -> bool:
    """Whether a round trip met a queue, beyond what hosts and the noise of a link add to it."""
    return rtt_s - base_rtt_s > max(_QUEUE_LEAST_S, _QUEUE * base_rtt_s)


class RouteChange(NamedTuple):
    """The base RTT moved for good."""

    at_s: float
    """The middle between the last sample of the old route and the first of the new one."""
    before_s: float
    after_s: float
    last: int
    """The step of the last sample on the old route."""
    first: int
    """The step of the first sample on the new one."""


class Events(NamedTuple):
    """The losses, queues and changes of route that a series shows."""

    noise_s: float
    """The difference of neighbouring samples where nothing happens."""
    changes: list[RouteChange]
    base_s: Floats
    """The base RTT at each step; the last is that of the route there is now: shape (steps,)."""
    queue_s: Floats
    """The round trip above the base RTT, NaN in a gap: shape (steps,)."""
    queue_from_s: float
    """The least queue that is told from noise."""
    base_looks: int
    """The number of samples on the present route within the noise of the base RTT."""

    @property
    def queue_share(self) -> float:
        """The share of the answered samples that met a queue."""
        answered = self.queue_s[~np.isnan(self.queue_s)]
        return float(np.mean(answered > self.queue_from_s))

    @property
    def base_is_seen(self) -> bool:
        """Whether the queue was often empty, so that the least is the base RTT and no mere upper bound."""
        return self.base_looks >= max(3, 0.01 * int(np.sum(~np.isnan(self.queue_s))))


def events(series: Series) -> Events:
    """Finds the events of a series with at least one answer."""
    noise_s = noise(series)
    changes = route_changes(series, noise_s)
    base_s = np.empty_like(series.rtt_s)
    begins = [0, *(change.first for change in changes)]
    ends = [*(change.last + 1 for change in changes), len(base_s)]
    for begin, end in zip(begins, ends, strict=True):
        base_s[begin:end] = np.nanmin(series.rtt_s[begin:end])
    for change in changes:
        # One way of the old route and one of the new: no queue either.
        between = slice(change.last + 1, change.first)
        base_s[between] = np.fmin(series.rtt_s[between], max(change.before_s, change.after_s))
    queue_s = series.rtt_s - base_s
    now = queue_s[begins[-1] :]
    return Events(noise_s, changes, base_s, queue_s, _QUEUE_NOISES * noise_s, int(np.sum(now <= noise_s)))


def noise(series: Series) -> float:
    """The median difference of neighbouring samples in seconds, within bounds."""
    answered = series.rtt_s[~np.isnan(series.rtt_s)]
    most_s = max(_NOISE_LEAST_S, _NOISE_MOST * float(answered.min()))
    if len(answered) < 2:
        return _NOISE_LEAST_S
    return float(np.clip(np.median(np.abs(np.diff(answered))), _NOISE_LEAST_S, most_s))


def route_changes(series: Series, noise_s: float) -> list[RouteChange]:
    """The changes of route in the order of time."""
    block = max(1, round(BLOCK_S / series.step_s))
    steady = round(STEADY_S / BLOCK_S)
    least = _least(series.rtt_s, block)
    found: list[RouteChange] = []
    first = 0
    # The move is in block k, or next to it; before it and after it stand whole blocks.
    for k in range(steady, len(least) - steady):
        before_s = _level(least[k - steady : k], noise_s)
        after_s = _level(least[k + 1 : k + 1 + steady], noise_s)
        if before_s is None or after_s is None or (k - steady) * block < first:
            continue
        if abs(after_s - before_s) < _MOVE_NOISES * noise_s:
            continue
        window = slice((k - steady) * block, (k + 1 + steady) * block)
        if change := _route_change(series, window, before_s, after_s, noise_s):
            found.append(change)
            first = change.first
    return found


def _least(rtt_s: Floats, block: int) -> Floats:
    """The least of each whole block, NaN where nothing answered."""
    whole = rtt_s[: len(rtt_s) // block * block].reshape(-1, block)
    least = np.where(np.isnan(whole), np.inf, whole).min(axis=1)
    return np.where(np.isinf(least), np.nan, least)


def _level(least: Floats, noise_s: float) -> float | None:
    """The base that nearly all of these blocks share, or None."""
    known = least[~np.isnan(least)]
    if len(known) < _SAME_BLOCKS * len(least):
        return None
    level = float(np.median(known))
    same = np.abs(known - level) <= noise_s
    return level if np.sum(same) >= _SAME_BLOCKS * len(least) else None


def _route_change(
    series: Series, window: slice, before_s: float, after_s: float, noise_s: float
) -> RouteChange | None:
    """A move from one level to another within a window of steps, or None where a queue may have made it."""
    up, moved_s = after_s > before_s, abs(after_s - before_s)
    margin_s = max(moved_s / 8, noise_s)
    rtt_s = series.rtt_s[window]
    if up:
        old = np.flatnonzero(rtt_s < before_s + margin_s)
        new = np.flatnonzero(rtt_s > after_s - margin_s)
        new = new[new > old[-1]] if len(old) else old
    else:
        new = np.flatnonzero(rtt_s < after_s + margin_s)
        old = np.flatnonzero(rtt_s > before_s - margin_s)
        old = old[old < new[0]] if len(new) else new
    if not (len(old) and len(new)):
        # What comes back to the old level at once has not moved for good.
        return None
    last, first = window.start + int(old[-1]), window.start + int(new[0])
    missing = np.isnan(series.rtt_s)
    before, after = missing[window.start : last + 1].mean(), missing[first : window.stop].mean()
    if (after - before if up else before - after) > _LOST_MORE:
        return None
    rtt_s, sent_s = series.rtt_s[last : first + 1], series.sent_s[last : first + 1]
    answered = ~np.isnan(rtt_s)
    # A lost sample is no evidence against it.
    passed_s = np.diff(sent_s[answered]) - (np.diff(np.flatnonzero(answered)) - 1) * series.step_s
    beyond_s = np.maximum(np.abs(np.diff(rtt_s[answered])) - passed_s * (_GROWS if up else 1), 0).sum()
    small = passed_s.sum() < 2 * series.step_s
    if not (small or beyond_s > _BEYOND * moved_s):
        return None
    return RouteChange(float(sent_s[0] + sent_s[-1]) / 2, before_s, after_s, last, first)
