"""Throughput between measured round-trip times, and how far off that may be.

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
