"""What a series of round trips tells: base RTT, queueing above it, and changes of route.

The base RTT is the least of a route. A queue comes above it and goes; a change of route moves the base for
good. What tells them apart:

- before and after, for HOLD_S each, the least of every BLOCK_S is the same within the noise. What TCP keeps
  in a queue moves, by its window and by what others send;
- a good part of the move is faster than time. A queue drains no faster than time passes: where the round
  trip falls by more than the time between two probes, the second overtook the first. It grows half as fast
  where one and a half times its capacity arrives. A move too small for looks so far apart may be either;
- and no more probes are lost on the longer route: a queue that stays at one level is full.

So it takes a queue for a route that comes at once, stays at one level and hardly drops probes: that of less
than three steps (30 ms) of a sender with a fixed window. And it sees no change of route while a queue never
drains.
"""

from typing import NamedTuple

import numpy as np

from howdah.probing.series import Floats, Series

HOLD_S = 1.5
BLOCK_S = 0.25
_SAME_BLOCKS = 5 / 6
"""Of the blocks of HOLD_S, how many are at the base."""
_NOISE_LEAST_S = 150e-6
"""A sleeping core wakes up late by some 0.1 ms."""
_NOISE_MOST = 0.01
"""Of the base RTT: a series that moves more than that from look to look shows a queue, not noise."""
_QUEUE_NOISES = 3
_MOVE_NOISES = 4
_LOST_MORE = 0.1
_GROWS = 0.5
"""Of the time that passes. What arrives beyond the capacity is lost as soon as the queue is full."""
_BEYOND = 0.25
"""Of a move. Where both directions change at once, a round trip has one way of each for a while."""


class RouteChange(NamedTuple):
    """The base RTT moved for good."""

    at_s: float
    """Between two looks."""
    before_s: float
    after_s: float
    last: int
    """The step of the last look on the old route,"""
    first: int
    """and of the first on the new one."""


class Events(NamedTuple):
    """What was seen."""

    noise_s: float
    """How much a look differs from the next where nothing happens."""
    changes: list[RouteChange]
    base_s: Floats
    """(steps,) base RTT at each step; that of the last is the one now."""
    queue_s: Floats
    """(steps,) the round trip above it; NaN: a gap."""
    queue_from_s: float
    """Less than this is noise."""
    base_looks: int
    """On the route that there is now, looks within the noise of the base RTT."""

    @property
    def queue_share(self) -> float:
        """Of the looks answered, those that met a queue."""
        answered = self.queue_s[~np.isnan(self.queue_s)]
        return float(np.mean(answered > self.queue_from_s))

    @property
    def base_is_seen(self) -> bool:
        """An empty queue was met often: the least is the base RTT, and not only its upper bound."""
        return self.base_looks >= max(3, 0.01 * int(np.sum(~np.isnan(self.queue_s))))


def events(series: Series) -> Events:
    """Reads a series with at least one answer."""
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
    """The median difference of neighbouring looks, within bounds; seconds."""
    answered = series.rtt_s[~np.isnan(series.rtt_s)]
    most_s = max(_NOISE_LEAST_S, _NOISE_MOST * float(answered.min()))
    if len(answered) < 2:
        return _NOISE_LEAST_S
    return float(np.clip(np.median(np.abs(np.diff(answered))), _NOISE_LEAST_S, most_s))


def route_changes(series: Series, noise_s: float) -> list[RouteChange]:
    """In the order of time."""
    block = max(1, round(BLOCK_S / series.step_s))
    hold = round(HOLD_S / BLOCK_S)
    least = _least(series.rtt_s, block)
    found: list[RouteChange] = []
    first = 0
    # The move is in block k, or next to it; before it and after it stand whole blocks.
    for k in range(hold, len(least) - hold):
        before_s = _level(least[k - hold : k], noise_s)
        after_s = _level(least[k + 1 : k + 1 + hold], noise_s)
        if before_s is None or after_s is None or (k - hold) * block < first:
            continue
        if abs(after_s - before_s) < _MOVE_NOISES * noise_s:
            continue
        window = range((k - hold) * block, (k + 1 + hold) * block)
        move = _Move(series, window, before_s, after_s, noise_s)
        if move.is_of_route():
            found.append(move.change())
            first = move.first
    return found


def _least(rtt_s: Floats, block: int) -> Floats:
    """The least of each whole block; NaN where nothing answered."""
    whole = rtt_s[: len(rtt_s) // block * block].reshape(-1, block)
    least = np.where(np.isnan(whole), np.inf, whole).min(axis=1)
    return np.where(np.isinf(least), np.nan, least)


def _level(least: Floats, noise_s: float) -> float | None:
    """The base that nearly all of these blocks share; None where they share none."""
    known = least[~np.isnan(least)]
    if len(known) < _SAME_BLOCKS * len(least):
        return None
    level = float(np.median(known))
    same = np.abs(known - level) <= noise_s
    return level if np.sum(same) >= _SAME_BLOCKS * len(least) else None


class _Move:
    """From one level to another, somewhere in a window of steps."""

    def __init__(
        self, series: Series, window: range, before_s: float, after_s: float, noise_s: float
    ) -> None:
        self._series, self._window = series, window
        self._before_s, self._after_s = before_s, after_s
        self._up = after_s > before_s
        self._margin_s = max(abs(after_s - before_s) / 8, noise_s)
        rtt_s = series.rtt_s[window.start : window.stop]
        if self._up:
            old = np.flatnonzero(rtt_s < before_s + self._margin_s)
            new = np.flatnonzero(rtt_s > after_s - self._margin_s)
            new = new[new > old[-1]] if len(old) else old
        else:
            new = np.flatnonzero(rtt_s < after_s + self._margin_s)
            old = np.flatnonzero(rtt_s > before_s - self._margin_s)
            old = old[old < new[0]] if len(new) else new
        self._stays = bool(len(old) and len(new))
        """What came back to the other level at once, did not move for good."""
        self.last = window.start + (int(old[-1]) if self._stays else 0)
        """The step of the last look on the old level,"""
        self.first = window.start + (int(new[0]) if self._stays else 0)
        """and of the first on the new one."""

    def change(self) -> RouteChange:
        """As a change of route."""
        sent_s = self._series.sent_s
        at_s = float(sent_s[self.last] + sent_s[self.first]) / 2
        return RouteChange(at_s, self._before_s, self._after_s, self.last, self.first)

    def is_of_route(self) -> bool:
        """A queue did not move so."""
        if not self._stays or self._longer_loses_more():
            return False
        rtt_s, sent_s = (
            each[self.last : self.first + 1] for each in (self._series.rtt_s, self._series.sent_s)
        )
        answered = ~np.isnan(rtt_s)
        # A lost look tells nothing against it.
        passed_s = np.diff(sent_s[answered]) - (np.diff(np.flatnonzero(answered)) - 1) * self._series.step_s
        queue_s = passed_s * (_GROWS if self._up else 1)
        beyond_s = np.maximum(np.abs(np.diff(rtt_s[answered])) - queue_s, 0).sum()
        small = passed_s.sum() < 2 * self._series.step_s
        return bool(small or beyond_s > _BEYOND * abs(self._after_s - self._before_s))

    def _longer_loses_more(self) -> bool:
        missing = np.isnan(self._series.rtt_s)
        before = missing[self._window.start : self.last + 1].mean()
        after = missing[self.first : self._window.stop].mean()
        return bool((after - before if self._up else before - after) > _LOST_MORE)
