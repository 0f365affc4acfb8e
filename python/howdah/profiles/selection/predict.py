"""Predicts the rate of the next run of each measured configuration at an RTT, with a 90 % interval.

Two things are uncertain, and each is calibrated where the truth is known: the rate between measured
RTTs (an inner RTT left out), and one run around the median of a few (a run left out). Both errors are taken
in units of their own expected size and pooled over all configurations, because one has too few; their
quantiles are the interval, after Lei et al., Distribution-Free Predictive Inference for Regression, JASA 113,
2018, section 5.2, which scales residuals in this way. Errors from inner RTTs span wider gaps than those that
are then interpolated; the scale, which grows with the gap, answers for that.

Three interpolants from one measured RTT to the next, each exact for one regime:

- the rate linear in RTT, as in HPDC 2017, section 5.1: a ramp-up of τ log C out of a fixed duration;
- the time per bit linear in RTT: a fixed window (rate nB/τ), or a fixed size sent after some round trips;
- the logarithm of the rate linear in that of RTT: the convex a/τ^c that loss gives.

Which regime holds is not known beforehand, so they are averaged with weights from the errors they make
where the truth is known: each inner RTT is left out and predicted from the others. The errors of one
configuration are few, so those of all configurations count as one more of its own. The same errors, in units
of how much they disagree there, calibrate the interval (``scores``).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah._native import format_duration
from howdah.archive.runs import SPREAD, SPREAD_S, Configuration, Runs

Array = NDArray[np.float64]

_SHARPNESS = 4.0
"""An interpolant weighs its mean squared error to minus this power, so that one twice as far off, in the
root of that mean, counts for 1/256."""

_ERROR_CLIP = 0.5
"""Errors in log rate are clipped here: one cell that every interpolant misses must not decide for all
others."""

_ERROR_FLOOR = 0.045
"""Differences in log rate below what a median of a few runs varies by mean nothing."""

_DROP_SHARE = 0.15
_DISTANCE_FLOOR = 0.03
"""The error half-way between two RTTs even where all interpolants agree: a share of the difference between
the neighbours, and a constant, in log rate. It is nothing at a measured RTT."""


class MedianCurve(NamedTuple):
    """The median rates of one configuration."""

    rtt_s: Array
    """The RTTs, ascending and all different."""
    log_rate: Array


class Point(NamedTuple):
    """An interpolated rate at one RTT."""

    log_rate: float
    scale: float
    """The scale of its error, in log rate; ``Interpolation.scores`` calibrate multiples of it."""


class Interpolation:
    """Interpolates a set of configurations by weights learnt from their inner RTTs."""

    def __init__(self, curves: Sequence[MedianCurve]) -> None:
        left_out = [_leave_one_out(curve) for curve in curves]
        losses = [_losses(each) for each in left_out]
        measured = [loss for loss in losses if len(loss)]
        shared = np.mean(np.concatenate(measured), axis=0) if measured else np.ones(len(_INTERPOLANTS))
        self.curves = list(curves)
        self._losses = [_mean_loss(loss, shared) for loss in losses]
        self.scores = np.array(
            [
                score
                for curve, loss in zip(curves, losses, strict=True)
                for score in _scores(curve, loss, shared)
            ]
        )
        """(true − interpolated) / scale at each inner RTT of each configuration, in log rate."""

    def at(self, index: int, rtt_s: float) -> Point:
        """The configuration ``index`` at an RTT between its least and its largest."""
        return _point(self.curves[index], rtt_s, self._losses[index])


def _point(curve: MedianCurve, rtt_s: float, loss: Array) -> Point:
    guesses = _guesses(curve, rtt_s)
    log_rate = float(np.average(guesses, weights=loss**-_SHARPNESS))
    # Much flatter weights than those of the mean: the one that lost may yet be right.
    disagreement = np.average((guesses - log_rate) ** 2, weights=loss**-0.5)
    return Point(log_rate, float(np.sqrt(disagreement + _distance_error(curve, rtt_s) ** 2)))


def _scores(curve: MedianCurve, losses: Array, shared: Array) -> list[float]:
    """The scores at each inner RTT, as if it had never been measured: its own error weighs nothing there."""
    scores = []
    for inner in range(1, len(curve.rtt_s) - 1):
        loss = _mean_loss(np.delete(losses, inner - 1, axis=0), shared)
        point = _point(_without(curve, inner), curve.rtt_s[inner], loss)
        scores.append(float((curve.log_rate[inner] - point.log_rate) / point.scale))
    return scores


def _mean_loss(losses: Array, shared: Array) -> Array:
    return np.asarray((losses.sum(axis=0) + shared) / (len(losses) + 1))


def _linear_rate(rtt_s: float, x: Array, log_rate: Array) -> float:
    return float(np.log(np.interp(rtt_s, x, np.exp(log_rate))))


def _linear_time(rtt_s: float, x: Array, log_rate: Array) -> float:
    return float(-np.log(np.interp(rtt_s, x, np.exp(-log_rate))))


def _power_law(rtt_s: float, x: Array, log_rate: Array) -> float:
    return float(np.interp(np.log(rtt_s), np.log(x), log_rate))


_INTERPOLANTS = (_linear_rate, _linear_time, _power_law)


def _guesses(curve: MedianCurve, rtt_s: float) -> Array:
    return np.array([interpolant(rtt_s, curve.rtt_s, curve.log_rate) for interpolant in _INTERPOLANTS])


def _leave_one_out(curve: MedianCurve) -> Array:
    """The error of each interpolant at each inner RTT, predicted from the others; shape (inner RTTs,
    interpolants)."""
    errors = [
        _guesses(_without(curve, inner), curve.rtt_s[inner]) - curve.log_rate[inner]
        for inner in range(1, len(curve.rtt_s) - 1)
    ]
    return np.array(errors).reshape(-1, len(_INTERPOLANTS))


def _losses(errors: Array) -> Array:
    return np.minimum(errors**2, _ERROR_CLIP**2) + _ERROR_FLOOR**2


def _without(curve: MedianCurve, index: int) -> MedianCurve:
    return MedianCurve(np.delete(curve.rtt_s, index), np.delete(curve.log_rate, index))


def _distance_error(curve: MedianCurve, rtt_s: float) -> float:
    """The error in log rate: zero at a measured RTT, largest half-way (in log RTT) between two, as of a
    Brownian bridge."""
    right = int(np.clip(np.searchsorted(curve.rtt_s, rtt_s), 1, len(curve.rtt_s) - 1))
    start, end = np.log(curve.rtt_s[right - 1 : right + 1])
    share = (np.log(rtt_s) - start) / (end - start)
    drop = curve.log_rate[right - 1] - curve.log_rate[right]
    return float(np.sqrt(4 * share * (1 - share)) * np.hypot(_DISTANCE_FLOOR, _DROP_SHARE * drop))


RUN_SPREAD = 0.1
"""The standard deviation of the logarithm of a rate from run to run, as long as nothing was repeated."""

_WEIGHT = 10
"""``RUN_SPREAD`` counts as so many runs when all cells are looked at, and what all cells show counts as so
many for each configuration."""

_DEVIATION_CLIP = 0.5
"""Deviations in log rate are clipped here: one run at a hundredth of the rate is one bad run."""


class RunsByRtt(NamedTuple):
    """The runs of one configuration, by RTT."""

    configuration: Configuration
    rtt_s: Array
    """The RTTs, ascending and all different."""
    log_rates: list[Array]
    """The logarithms of the rates at each RTT."""

    @property
    def curve(self) -> MedianCurve:
        """The curve of medians, which a bad run among three does not move."""
        return MedianCurve(self.rtt_s, np.array([np.median(rates) for rates in self.log_rates]))

    def at(self, rtt_s: float) -> Array:
        """The rates in b/s at this RTT; empty when it was not measured."""
        (found,) = np.nonzero(self.rtt_s == rtt_s)
        return np.exp(self.log_rates[found[0]]) if len(found) else np.zeros(0)

    @property
    def deviations(self) -> Array:
        """Deviations of each run from the median of the others of its RTT, as wide as from the median of
        all."""
        found = [np.zeros(0)]
        for rates in self.log_rates:
            n = len(rates)
            if n < 2:
                continue
            others = np.broadcast_to(rates, (n, n))[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
            found.append((rates - np.median(others, axis=1)) * np.sqrt((1 + 1 / n) / (1 + 1 / (n - 1))))
        return np.concatenate(found)


def by_rtt(runs: Runs) -> list[RunsByRtt]:
    """The runs of each configuration that occurs. Raises HowdahError when a run has no positive rate or
    RTT."""
    for name, column in (("rate", runs.rate_bps), ("round-trip time", runs.rtt_s)):
        (bad,) = np.nonzero(~(np.isfinite(column) & (column > 0)))
        if len(bad):
            raise HowdahError(f"run {runs.id[bad[0]]} has no positive {name}; leave it out")
    configurations, own = runs.by_configuration()
    return [_cells(runs[own == index], each) for index, each in enumerate(configurations)]


def spreads(cells: Sequence[RunsByRtt]) -> list[float]:
    """Standard deviation of log rates from run to run, of each configuration."""
    shared = _spread(np.concatenate([np.zeros(0), *(each.deviations for each in cells)]), RUN_SPREAD)
    return [_spread(each.deviations, shared) for each in cells]


def _cells(chosen: Runs, configuration: Configuration) -> RunsByRtt:
    rtt_s = np.unique(chosen.rtt_s)
    return RunsByRtt(configuration, rtt_s, [np.log(chosen.rate_bps[chosen.rtt_s == each]) for each in rtt_s])


def _spread(deviations: Array, before: float) -> float:
    clipped = np.minimum(deviations**2, _DEVIATION_CLIP**2).sum()
    return float(np.sqrt((clipped + _WEIGHT * before**2) / (len(deviations) + _WEIGHT)))


CONFIDENCE = 0.9
"""The confidence of the interval; its low end is reached with 95 %."""

MEASURE = "measure with: howdah sweep HOST"

_NORMAL = np.array([-1.64, -1.28, -1.04, -0.84, -0.67, -0.52, -0.39, -0.25, -0.13, 0.0])
_PSEUDO_SCORES = np.concatenate([_NORMAL, -_NORMAL[:-1]])
"""The quantiles 5, 10 … 95 % of a normal distribution stand beside those measured, so that
quantiles exist when there are few; they drown when there are many."""

_SAME = 0.01
"""RTTs whose logarithms differ by at most this are one: the runs are taken as they are."""

PredictionBasis = Literal["measured", "interpolated", "model"]


class NextRun(NamedTuple):
    """The rate that the next run of a configuration will reach."""

    configuration: Configuration
    rate_low_bps: float
    """The next run reaches this rate with 95 %."""
    rate_mid_bps: float
    rate_high_bps: float
    """The next run passes this rate with 5 %."""
    basis: PredictionBasis
    rtts_s: tuple[float, ...]
    """The measured RTTs that the prediction comes from."""
    runs: int
    """The runs at those RTTs."""


class Uncovered(NamedTuple):
    """The reason why a profile does not cover an RTT, and the remedy."""

    what: str
    mend: str


class Predictor:
    """Predicts from the runs of one path at several RTTs, or at one."""

    def __init__(self, runs: Runs) -> None:
        """Raises HowdahError when a run has no positive rate or RTT."""
        self.cells = by_rtt(runs)
        self.rtt_s = np.unique(runs.rtt_s)
        self._interpolation = Interpolation([cells.curve for cells in self.cells])
        self._between = _quantiles(self._interpolation.scores)
        self._spreads = spreads(self.cells)
        scores = [cells.deviations / spread for cells, spread in zip(self.cells, self._spreads, strict=True)]
        self._run = _quantiles(np.concatenate([np.zeros(0), *scores]))
        capacities = runs.capacity_bps[~np.isnan(runs.capacity_bps)]
        self._capacity_bps = float(capacities.max()) if len(capacities) else np.inf

    def uncovered(self, rtt_s: float) -> Uncovered | None:
        """The reason why the profile does not cover this RTT; None where it does."""
        return uncovered(self.rtt_s, rtt_s)

    def at(self, rtt_s: float) -> list[NextRun]:
        """The predictions for each configuration measured at this RTT or at both sides of it; may be
        empty."""
        found = (self._predict(index, rtt_s) for index in range(len(self.cells)))
        return [prediction for prediction in found if prediction is not None]

    def _predict(self, index: int, rtt_s: float) -> NextRun | None:
        cells = self.cells[index]
        nearest = int(np.argmin(np.abs(np.log(cells.rtt_s / rtt_s))))
        off = abs(float(np.log(rtt_s / cells.rtt_s[nearest])))
        right = int(np.searchsorted(cells.rtt_s, rtt_s))
        if off > _SAME and 0 < right < len(cells.rtt_s):
            used = [right - 1, right]
            point, off = self._interpolation.at(index, rtt_s), 0.0
        elif near(rtt_s, cells.rtt_s[nearest]):
            # A rate falls at most as that of a window does, in proportion to RTT: by ``off``.
            used, point = [nearest], Point(float(np.median(cells.log_rates[nearest])), 0.0)
        else:
            return None
        low, high = (
            off + np.hypot(point.scale * between, self._spreads[index] * run)
            for between, run in zip(self._between, self._run, strict=True)
        )
        rates = np.minimum(np.exp(point.log_rate + np.array([-low, 0.0, high])), self._capacity_bps)
        return NextRun(
            configuration=cells.configuration,
            rate_low_bps=float(rates[0]),
            rate_mid_bps=float(rates[1]),
            rate_high_bps=float(rates[2]),
            basis="measured" if len(used) == 1 else "interpolated",
            rtts_s=tuple(float(cells.rtt_s[each]) for each in used),
            runs=sum(len(cells.log_rates[each]) for each in used),
        )


def uncovered(measured_s: Array, rtt_s: float) -> Uncovered | None:
    """The reason why ``measured_s`` do not cover an RTT, where a rate would be extrapolated; None where they
    do."""
    if not len(measured_s):
        return Uncovered("there is no profile of this path", MEASURE)
    least, most = float(measured_s.min()), float(measured_s.max())
    if least <= rtt_s <= most or near(rtt_s, least) or near(rtt_s, most):
        return None
    where, end = ("below", least) if rtt_s < least else ("above", most)
    what = f"rtt {format_duration(rtt_s)} is {where} the {format_duration(end)} this profile covers"
    return Uncovered(what, MEASURE)


def near(rtt_s: float, measured_s: float) -> bool:
    """True within what the archive takes for one RTT of one path."""
    return bool(abs(rtt_s - measured_s) <= SPREAD * measured_s + SPREAD_S)


def _quantiles(scores: Array) -> tuple[float, float]:
    """The distances below and above the middle that the interval reaches, in units of the scale, none
    negative."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate([scores, _PSEUDO_SCORES]), [tail, 1 - tail])
    return max(0.0, float(-low)), max(0.0, float(high))
