"""CUBIC streams that fill a path beside a rate of ours: a fluid queue in virtual time, and losses by chance.

Windows follow RFC 9438 a round trip late, with fast convergence and Reno's growth where that is more. Each
segment that finds the queue full is of one stream, by its part of the rate; that stream is cut a round trip
later, once in a round trip. Rates are of payload.
"""

from random import Random
from typing import NamedTuple

_C, _CUT, _RENO = 0.4, 0.7, 0.53
_SEGMENT_BITS = 1448 * 8


class PathOfOthers(NamedTuple):
    """A bottleneck."""

    carries_bps: float
    base_rtt_s: float
    queue_bdp: float


class _Stream:
    """One window, in segments."""

    def __init__(self, window: float) -> None:
        self.window = self.flat = self.most = self.reno = window
        self.cut_s = self.flat_after_s = 0.0
        self.lost_s: float | None = None

    def grow(self, t_s: float, step_s: float, rtt_s: float, base_rtt_s: float) -> None:
        law = self.flat + _C * (t_s - self.cut_s + base_rtt_s - self.flat_after_s) ** 3
        self.reno += _RENO * step_s / rtt_s
        missing = min(max(law, self.reno) - self.window, self.window / 2)
        self.window += max(missing, 0.0) * step_s / rtt_s

    def lose(self, t_s: float, rtt_s: float) -> None:
        """Is cut where a loss is due."""
        if self.lost_s is None or t_s < self.lost_s:
            return
        self.lost_s = None
        if t_s - self.cut_s < rtt_s:
            return
        converges = (1 + _CUT) / 2 if self.window < self.most else 1.0
        self.most = self.window * converges
        self.window = self.reno = max(2.0, _CUT * self.window)
        self.cut_s, self.flat = t_s, max(self.most, self.window)
        self.flat_after_s = ((self.flat - self.window) / _C) ** (1 / 3)


class Cubics:
    """So many of them; ``go`` returns the round trip after so long beside so much of ours."""

    def __init__(self, path: PathOfOthers, streams: int, draw: Random, noise_s: float = 2e-4) -> None:
        self._path, self._draw, self._noise_s = path, draw, noise_s
        self._per_s = path.carries_bps / _SEGMENT_BITS
        self._most = path.queue_bdp * self._per_s * path.base_rtt_s
        pipe = self._per_s * path.base_rtt_s / 2
        self._streams = [_Stream(draw.uniform(0.8, 1.2) * pipe / streams) for _ in range(streams)]
        self._queue = self._over = self.t_s = 0.0
        self.rates_bps = [0.0] * streams

    def go(self, for_s: float, ours_bps: float) -> float:
        steps = max(1, round(for_s / min(0.03, self._path.base_rtt_s / 2)))
        for _ in range(steps):
            self._step(for_s / steps, ours_bps / _SEGMENT_BITS)
        return self._rtt_s + abs(self._draw.gauss(0, self._noise_s))

    @property
    def _rtt_s(self) -> float:
        return self._path.base_rtt_s + self._queue / self._per_s

    def _step(self, step_s: float, ours: float) -> None:
        rtt_s = self._rtt_s
        self.t_s += step_s
        for each in self._streams:
            each.grow(self.t_s, step_s, rtt_s, self._path.base_rtt_s)
            each.lose(self.t_s, rtt_s)
        rates = [each.window / rtt_s for each in self._streams]
        arrives = sum(rates) + ours
        part = min(1.0, self._per_s / arrives)
        self.rates_bps = [part * each * _SEGMENT_BITS for each in rates]
        self._queue = max(0.0, self._queue + (arrives - self._per_s) * step_s)
        self._over += max(0.0, self._queue - self._most)
        self._queue = min(self._queue, self._most)
        while self._over >= 1:
            self._over -= 1
            lost = self._draw.choices([*self._streams, None], [*rates, ours])[0]
            if lost is not None and lost.lost_s is None:
                lost.lost_s = self.t_s + rtt_s
