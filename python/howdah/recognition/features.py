"""Features: numbers with a meaning that describe a window of RTTs and compare from path to path.

Queues are in base RTTs (q = RTT / base RTT − 1), slopes in base RTTs a second, shapes in parts of the
window's own range. Periods are in base RTTs where congestion control counts round trips (BBR's cycle of
eight), in seconds where it counts seconds (CUBIC's growth, BBR's search for the base RTT: 200 ms without a
queue, every 10 s; draft-ietf-ccwg-bbr, ProbeRTT).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.growth import NamedColumns, growth
from howdah.recognition.rows import Floats, Mask, apart, begins, longest, mean, quotient
from howdah.recognition.windows import SENT, Windows

_LEAST_RANGE = 0.01
"""A smaller range is the noise of a quiet path and no queue."""
_QUANTILES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
_SLOPE_LAGS_S = (0.0, 0.5, 2.0)
_DRAIN_LAGS_S = (0.5, 1.0)
_LAGS_ROUNDS = (1, 2, 4, 6, 8, 10, 12, 16)
_LAGS_S = (0.5, 1.0, 2.0, 3.0, 5.0)
_BANDS_ROUNDS = (2, 5, 7, 9.5, 14, 25, 60)
"""The edges of bands of periods; BBR's gain cycle of eight round trips is in the third band."""
_BINS = 8
_NEAR_BASE = 0.1
_DRAINED = 0.3
"""A drain loses this part of the range within a lag."""

_PIPE_ROUNDS = (1, 2, 4, 8, 16)
_CYCLE_ROUNDS = 8
_LOSS = 0.1
"""A drop loses this part of what is on its way at once."""


@dataclass(frozen=True, eq=False)
class _Derived:
    """The series that features are computed from: n windows of m steps."""

    windows: Windows

    @cached_property
    def queue(self) -> Floats:
        return self.windows.queue

    @cached_property
    def quantiles(self) -> Floats:
        """Quantiles of the queue: shape (9, n)."""
        found: Floats = np.quantile(self.queue, _QUANTILES, axis=1)
        return found

    @cached_property
    def range(self) -> Floats:
        """The range from the 5th to the 95th percentile, at least that of noise: shape (n,)."""
        found: Floats = np.maximum(self.quantiles[7] - self.quantiles[1], _LEAST_RANGE)
        return found

    @cached_property
    def shape(self) -> Floats:
        """The queue in its own range: 0 is the 5th percentile, 1 the 95th."""
        found: Floats = (self.queue - self.quantiles[1][:, None]) / self.range[:, None]
        return found

    @cached_property
    def near_base(self) -> Mask:
        """The steps with hardly a queue beside those the window has otherwise."""
        most = np.maximum(_NEAR_BASE * self.quantiles[6], _LEAST_RANGE)
        found: Mask = self.queue <= most[:, None]
        return found

    @cached_property
    def correlation(self) -> Floats:
        """The autocorrelation at lags of 0 to m − 1 steps, 0 for a constant: shape (n, m)."""
        centred = self.queue - self.queue.mean(axis=1, keepdims=True)
        power = np.abs(np.fft.rfft(centred, 2 * centred.shape[1], axis=1)) ** 2
        found = np.fft.irfft(power, axis=1)[:, : centred.shape[1]]
        return quotient(found, found[:, :1])

    def lag(self, length_s: float) -> int:
        """A lag in steps: at least one, at most half a window."""
        steps = self.queue.shape[1]
        return int(np.clip(round(length_s / self.windows.step_s), 1, max(1, steps // 2)))


def features(windows: Windows) -> Floats:
    """The features of each window, all finite: shape (n, len(names()))."""
    seen = _Derived(windows)
    columns = [column for part in _PARTS for _, column in part(seen)]
    # An RTT far below its base, or beyond all measure, must not drown the rest.
    return np.clip(np.stack(columns, axis=1), -1e3, 1e3)


def names() -> list[str]:
    """The names of the features in their order."""
    windows = Windows(np.ones((1, 8)), np.zeros((1, 8)), np.zeros((1, 8), np.int8), np.ones(1), 1.0)
    return [name for part in _PARTS for name, _ in part(_Derived(windows))]


def _level(seen: _Derived) -> NamedColumns:
    """The length of the queue."""
    for share, values in zip(_QUANTILES, seen.quantiles, strict=True):
        yield f"queue_q{100 * share:g}", values
    yield "queue_mean", seen.queue.mean(axis=1)
    yield "queue_sd", seen.queue.std(axis=1)
    yield "queue_range_log", np.log10(seen.range)
    yield "queue_least_to_most", quotient(seen.quantiles[1], np.abs(seen.quantiles[7]) + _LEAST_RANGE)


def _form(seen: _Derived) -> NamedColumns:
    """The places in its own range where the queue stays: a sawtooth evenly, a full queue at the top."""
    edges = np.linspace(0, 1, _BINS + 1)
    for number, (low, high) in enumerate(pairwise(edges)):
        above = seen.shape >= low if number else np.ones_like(seen.shape, bool)
        below = seen.shape < high if number < _BINS - 1 else np.ones_like(seen.shape, bool)
        yield f"form_{number}", (above & below).mean(axis=1)
    centred = seen.queue - seen.queue.mean(axis=1, keepdims=True)
    spread = np.maximum(seen.queue.std(axis=1), _LEAST_RANGE / 10)
    yield "form_skewness", (centred**3).mean(axis=1) / spread**3
    yield "form_kurtosis", (centred**4).mean(axis=1) / spread**4


def _slopes(seen: _Derived) -> NamedColumns:
    """The speed at which the queue builds up and drains; a sawtooth builds up much more slowly."""
    for length_s in _SLOPE_LAGS_S:
        lag = seen.lag(length_s)
        change = seen.queue[:, lag:] - seen.queue[:, :-lag]
        rate = change / (lag * seen.windows.step_s)
        up, down = rate > 0, rate < 0
        name = f"slope_{length_s:g}s"
        for share, values in zip((5, 50, 95), np.quantile(rate, (0.05, 0.5, 0.95), axis=1), strict=True):
            yield f"{name}_q{share}", values
        yield f"{name}_rising", up.mean(axis=1)
        rising, falling = mean(rate, up), -mean(rate, down)
        yield f"{name}_up", rising
        yield f"{name}_down", falling
        yield f"{name}_lopsided", quotient(falling - rising, falling + rising)


def _drains(seen: _Derived) -> NamedColumns:
    """The number, depth and distance of sudden drains, and whether they reach the base RTT."""
    for length_s in _DRAIN_LAGS_S:
        lag = seen.lag(length_s)
        lost = (seen.queue[:, :-lag] - seen.queue[:, lag:]) / seen.range[:, None]
        drained = lost > _DRAINED
        begun = begins(drained)
        name = f"drain_{length_s:g}s"
        yield f"{name}_deepest", lost.max(axis=1)
        yield f"{name}_rate_hz", begun.sum(axis=1) / seen.windows.length_s
        yield f"{name}_share", drained.mean(axis=1)
        yield f"{name}_apart_s", apart(begun) * seen.windows.step_s
    near = seen.near_base
    begun = begins(near)
    yield "base_share", near.mean(axis=1)
    yield "base_rate_hz", begun.sum(axis=1) / seen.windows.length_s
    yield "base_longest_s", longest(near) * seen.windows.step_s
    yield "base_apart_s", apart(begun) * seen.windows.step_s
    yield "away_longest_s", longest(~near) * seen.windows.step_s


def _periods(seen: _Derived) -> NamedColumns:
    """Periods: the autocorrelation, its first peak, and the power in bands of periods."""
    steps = seen.queue.shape[1]
    base = seen.windows.base_rtt_s / seen.windows.step_s
    for rounds in _LAGS_ROUNDS:
        yield f"again_{rounds}rtt", _at(seen.correlation, rounds * base)
    for length_s in _LAGS_S:
        yield (
            f"again_{length_s:g}s",
            _at(seen.correlation, np.full(len(base), length_s / seen.windows.step_s)),
        )
    height, lag = _first_peak(seen.correlation[:, : max(3, 3 * steps // 4)])
    yield "again_peak", height
    yield "again_peak_rtts", lag / base
    yield "again_peak_s", lag * seen.windows.step_s
    line = np.linspace(-1, 1, steps)
    residue = seen.queue - seen.queue.mean(axis=1, keepdims=True)
    residue = residue - (residue @ line / (line @ line))[:, None] * line
    power = np.abs(np.fft.rfft(residue, axis=1)[:, 1:]) ** 2
    share = quotient(power, power.sum(axis=1, keepdims=True))
    rounds_of = steps / np.arange(1, share.shape[1] + 1) / base[:, None]
    edges = (0.0, *_BANDS_ROUNDS, np.inf)
    for low, high in pairwise(edges):
        inside = (low <= rounds_of) & (rounds_of < high)
        yield f"power_{low:g}rtt", (share * inside).sum(axis=1)
    entropy = -(share * np.log(np.maximum(share, 1e-12))).sum(axis=1)
    yield "power_entropy", entropy / np.log(max(2, share.shape[1]))


def _pipe(seen: _Derived) -> NamedColumns:
    """The bytes on their way, in bandwidth-delay products: 1 + queue.

    A loss takes 0.3 of CUBIC's (RFC 9438), and half of that where only one of two like streams has lost; BBR
    asks for a quarter more in one round trip of eight.
    """
    pipe = 1 + np.maximum(seen.queue, 0)
    base = seen.windows.base_rtt_s / seen.windows.step_s
    most = np.maximum.accumulate(pipe, axis=1)
    yield "pipe_lost_most", (1 - pipe / most).max(axis=1)
    yield "pipe_span", 1 - (1 + seen.quantiles[1]) / np.maximum(1 + seen.quantiles[7], 1e-3)
    for rounds in _PIPE_ROUNDS:
        change = _changes(pipe, np.maximum(np.rint(rounds * base), 1).astype(int))
        name = f"pipe_{rounds}rtt"
        yield f"{name}_lost_most", -change.least
        yield f"{name}_won_most", change.most
        yield f"{name}_change", change.mean
        yield f"{name}_lost_rate_hz", change.drops / seen.windows.length_s


def _pulses(seen: _Derived) -> NamedColumns:
    """The moves of the queue within BBR's cycle, and from cycle to cycle."""
    cycle = np.maximum(np.rint(_CYCLE_ROUNDS * seen.windows.base_rtt_s / seen.windows.step_s), 2).astype(int)
    slow = _smooth(seen.queue, cycle)
    pulse = seen.queue - slow
    spread, long_spread = pulse.std(axis=1), slow.std(axis=1)
    yield "pulse_sd", spread
    yield "pulse_sd_log", np.log10(spread + 1e-4)
    yield "pulse_slow_sd", long_spread
    yield "pulse_share", quotient(spread, spread + long_spread)
    low, high = np.quantile(pulse, (0.05, 0.95), axis=1)
    yield "pulse_up", high
    yield "pulse_down", -low
    yield "pulse_lopsided", quotient(high + low, high - low)
    yield "pulse_to_queue", quotient(spread, np.abs(seen.quantiles[4]) + _LEAST_RANGE)


def _roughness(seen: _Derived) -> NamedColumns:
    """The jaggedness of the series from step to step."""
    steps = np.diff(seen.shape, axis=1)
    yield "rough_mean", np.abs(steps).mean(axis=1)
    yield "rough_most", np.abs(steps).max(axis=1)
    yield "rough_noise_log", np.log10(np.abs(np.diff(seen.queue, axis=1)).mean(axis=1) + 1e-5)
    yield "rough_turns", (steps[:, 1:] * steps[:, :-1] < 0).mean(axis=1)
    above = seen.shape > seen.shape.mean(axis=1, keepdims=True)
    yield "rough_crossings_hz", (above[:, 1:] != above[:, :-1]).sum(axis=1) / seen.windows.length_s
    first, second, third = seen.shape[:, :-2], seen.shape[:, 1:-1], seen.shape[:, 2:]
    yield "rough_rising_triples", ((first < second) & (second < third)).mean(axis=1)
    yield "rough_falling_triples", ((first > second) & (second > third)).mean(axis=1)


def _trend(seen: _Derived) -> NamedColumns:
    """The trend of the whole window: slope, bend (CUBIC is concave, then convex) and residual."""
    place = np.linspace(-1, 1, seen.queue.shape[1])
    bend = place**2 - np.mean(place**2)
    design = np.stack([np.ones_like(place), place, bend], axis=1)
    found, *_ = np.linalg.lstsq(design, seen.shape.T, rcond=None)
    yield "trend_slope", found[1]
    yield "trend_bend", found[2]
    yield "trend_left", (seen.shape - (design @ found).T).std(axis=1)


def _growth(seen: _Derived) -> NamedColumns:
    """The growth between losses."""
    return growth(seen.queue, seen.windows.base_rtt_s, seen.windows.step_s)


def _losses(seen: _Derived) -> NamedColumns:
    """Lost probes: a queue that overflows loses some, now and then or for a while."""
    lossy = seen.windows.lost > 0
    yield "lost_share", seen.windows.lost.mean(axis=1)
    yield "lost_rate_hz", begins(lossy).sum(axis=1) / seen.windows.length_s
    yield "lost_longest_s", longest(lossy) * seen.windows.step_s


def _answers(seen: _Derived) -> NamedColumns:
    """The queue while we sent something (active probing), beside the rest of the window."""
    for code, name in enumerate(SENT):
        while_sent = seen.windows.sent == code
        share = while_sent.mean(axis=1)
        yield f"sent_{name}_share", share
        if code:
            beside = mean(seen.queue, while_sent) - mean(seen.queue, ~while_sent)
            yield f"sent_{name}_queue", np.where((share > 0) & (share < 1), beside, 0.0)
            slope = np.diff(seen.queue, axis=1) / seen.windows.step_s
            yield f"sent_{name}_slope", mean(slope, while_sent[:, 1:])


_PARTS: tuple[Callable[[_Derived], NamedColumns], ...] = (
    _level,
    _form,
    _slopes,
    _drains,
    _periods,
    _pipe,
    _pulses,
    _roughness,
    _trend,
    _growth,
    _losses,
    _answers,
)


class _RelativeChange(NamedTuple):
    """The relative changes of a series within a lag: shape (n,) each."""

    least: Floats
    most: Floats
    mean: Floats
    """The mean of the absolute changes."""
    drops: Floats
    """The number of times that it begins to lose ``_LOSS``."""


def _changes(series: Floats, lags: NDArray[np.int_]) -> _RelativeChange:
    """The changes of rows (n, m) within lags of (n,) steps, half a window at most."""
    found = np.zeros((4, len(series)))
    lags = np.minimum(lags, series.shape[1] // 2)
    for lag in np.unique(lags):
        rows = lags == lag
        change = series[rows, lag:] / series[rows, :-lag] - 1
        found[:, rows] = (
            change.min(axis=1),
            change.max(axis=1),
            np.abs(change).mean(axis=1),
            begins(change < -_LOSS).sum(axis=1),
        )
    return _RelativeChange(*found)


def _smooth(series: Floats, widths: NDArray[np.int_]) -> Floats:
    """The means over ``widths`` steps about each step, over fewer at the ends: shape (n, m)."""
    steps = series.shape[1]
    place = np.arange(steps)
    half = np.minimum(widths, steps)[:, None] // 2
    low, high = np.maximum(place - half, 0), np.minimum(place + half + 1, steps)
    summed = np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)
    found: Floats = (np.take_along_axis(summed, high, 1) - np.take_along_axis(summed, low, 1)) / (high - low)
    return found


def _at(correlation: Floats, lag: Floats) -> Floats:
    """The correlation at lags between steps, 0 beyond three quarters of a window, where little overlaps."""
    steps = correlation.shape[1]
    place = np.clip(lag, 0, steps - 1)
    low = np.minimum(place.astype(int), steps - 2)
    rows = np.arange(len(correlation))
    part = place - low
    value = correlation[rows, low] * (1 - part) + correlation[rows, low + 1] * part
    return np.where(lag <= 0.75 * steps, value, 0.0)


def _first_peak(correlation: Floats) -> tuple[Floats, Floats]:
    """The height and the lag of the highest value after the first zero, or 0: shape (n,) each."""
    passed = np.maximum.accumulate(correlation <= 0, axis=1)
    after = np.where(passed, correlation, 0.0)
    lag = after.argmax(axis=1)
    return after[np.arange(len(after)), lag], lag.astype(float)
