"""Rates of a transfer that is under way, from its progress values."""

from collections import deque

from howdah.remote.messages import Progress

WINDOW_S = 1.0
"""The rate now is the mean over this much time."""

SHORTEST_S = 0.01
"""A rate over less time than this says nothing."""


class Meter:
    """Rates from a run of progress values; no clock of its own."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None

    def add(self, now: Progress) -> None:
        """Adds the next value."""
        point = (now.elapsed_s, now.bytes_done)
        if self._first is None and now.bytes_done:
            self._first = self._seen[-1] if self._seen else (0.0, 0)
        self._seen.append(point)
        while len(self._seen) > 2 and point[0] - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()

    def now_bps(self) -> float | None:
        """The rate over the last WINDOW_S, bits per second; None before two values."""
        return _rate(self._seen[0], self._seen[-1]) if len(self._seen) > 1 else None

    def mean_bps(self) -> float | None:
        """The rate since the first byte, bits per second; None before it."""
        return _rate(self._first, self._seen[-1]) if self._first else None

    def left_s(self, now: Progress) -> float | None:
        """Seconds left at the mean of both rates; None while the total or the rate is unknown."""
        now_bps, mean_bps = self.now_bps(), self.mean_bps()
        if now.bytes_total is None or not now.scan_complete or not now_bps or not mean_bps:
            return None
        return (now.bytes_total - now.bytes_done) * 8 / ((now_bps + mean_bps) / 2)


def _rate(one: tuple[float, int], two: tuple[float, int]) -> float | None:
    elapsed_s = two[0] - one[0]
    return max(0, two[1] - one[1]) * 8 / elapsed_s if elapsed_s >= SHORTEST_S else None
