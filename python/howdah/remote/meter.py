"""Rates of a transfer that is under way, from its progress values."""

from collections import deque
from typing import NamedTuple

from howdah.remote.messages import Progress

WINDOW_S = 1.0
"""The rate now is the mean over this much time."""

SHORTEST_S = 0.01
"""A rate over less time than this says nothing."""


class _Point(NamedTuple):
    t_s: float
    carried: int
    through: int
    """What was carried, and holes."""

    def in_all(self) -> "_Point":
        """The same, where holes count as carried."""
        return self._replace(carried=self.through)


class Meter:
    """Rates from a run of progress values; no clock of its own."""

    def __init__(self) -> None:
        self._seen: deque[_Point] = deque()
        self._first: _Point | None = None

    def add(self, now: Progress) -> None:
        """Adds the next value."""
        point = _Point(now.elapsed_s, now.bytes_done, now.bytes_placed)
        if self._first is None and point.through:
            self._first = self._seen[-1] if self._seen else _Point(0.0, 0, 0)
        self._seen.append(point)
        while len(self._seen) > 2 and point.t_s - self._seen[1].t_s >= WINDOW_S:
            self._seen.popleft()

    def now_bps(self) -> float | None:
        """The rate over the last WINDOW_S, bits per second; None before two values."""
        return _rate(self._seen[0], self._seen[-1]) if len(self._seen) > 1 else None

    def mean_bps(self) -> float | None:
        """The rate since the first byte, bits per second; None before it."""
        return _rate(self._first, self._seen[-1]) if self._first else None

    def left_s(self, now: Progress) -> float | None:
        """Seconds left at the mean of both rates; None while the total or the rate is unknown.

        Holes count here: what is left may be holes too.
        """
        if now.bytes_total is None or not now.scan_complete or self._first is None or len(self._seen) < 2:
            return None
        last = self._seen[-1]
        now_bps = _rate(self._seen[0].in_all(), last.in_all())
        mean_bps = _rate(self._first.in_all(), last.in_all())
        if not now_bps or not mean_bps:
            return None
        return (now.bytes_total - now.bytes_done) * 8 / ((now_bps + mean_bps) / 2)


def _rate(one: _Point, two: _Point) -> float | None:
    elapsed_s = two.t_s - one.t_s
    return max(0, two.carried - one.carried) * 8 / elapsed_s if elapsed_s >= SHORTEST_S else None
