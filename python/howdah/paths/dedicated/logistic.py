"""Least squares of y = logistic(a s + u) with a, u ≥ 0, for many series at once.

A table of starts finds the valley, Levenberg and Marquardt's method with the bounds projected the bottom.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.paths.dedicated.profile import Floats

_STEPS = 25
_SETTLED = 1e-9
_STUCK = 1e3
_TINY = 1e-30
_SHIFTS = np.array([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])
_SLOPES = 24
_STEEPEST = 30.0
"""a s from one measured place to the next beyond which a step is a step."""


class Fit(NamedTuple):
    """For each of d series on each of p sets of places: arrays of shape (d, p)."""

    slope: Floats
    shift: Floats
    sse: Floats


def logistic(exponent: Floats) -> Floats:
    """1 / (1 + e^{−x}), without overflow."""
    return 0.5 + 0.5 * np.tanh(0.5 * exponent)


def least_squares(places: Floats, series: Floats, counted: NDArray[np.bool_]) -> Fit:
    """Fits each of the ``series`` (d, n) at each row of ``places`` (p, n), where it is ``counted`` (p, n)."""
    reach = np.max(places * counted, axis=1)
    scaled = places / reach[:, None]
    slopes, shifts = _starts(scaled, series, counted)
    sets = len(scaled)
    rows = np.tile(scaled, (len(series), 1))
    weight = np.tile(counted.astype(float), (len(series), 1))
    found = _descend(rows, np.repeat(series, sets, axis=0), weight, slopes.ravel(), shifts.ravel())
    slope, shift, sse = (each.reshape(slopes.shape) for each in found)
    return Fit(slope / reach, shift, sse)


def _starts(places: Floats, series: Floats, counted: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The best of a table for each series and set of places, of shape (d, p) each."""
    nearest = np.min(places, axis=1, where=counted & (places > 0), initial=1.0)
    steep = np.geomspace(0.05, _STEEPEST / nearest, _SLOPES, axis=1)
    slope = np.repeat(np.hstack([np.zeros((len(places), 1)), steep]), len(_SHIFTS), axis=1)
    shift = np.tile(_SHIFTS, _SLOPES + 1)
    table = logistic(slope[:, :, None] * places[:, None, :] + shift[:, None]) * counted[:, None, :]
    best = np.argmin(np.sum(table**2, axis=2)[:, None, :] - 2 * series @ table.swapaxes(1, 2), axis=2)
    return np.take_along_axis(slope, best, axis=1).T, shift[best].T


def _descend(places: Floats, target: Floats, weight: Floats, slope: Floats, shift: Floats) -> Fit:
    """Goes down from each start: rows of places, targets and weights (r, n), starts (r,)."""
    slope, shift = slope.copy(), shift.copy()
    damping = np.full(len(slope), 1e-3)
    sse = np.sum(weight * (logistic(slope[:, None] * places + shift[:, None]) - target) ** 2, axis=1)
    at_work = np.arange(len(slope))
    for _ in range(_STEPS):
        place, wanted, counts = places[at_work], target[at_work], weight[at_work]
        old = Fit(slope[at_work], shift[at_work], sse[at_work])
        steps = _steps(place, wanted, counts, old, damping[at_work])
        slopes, shifts = np.maximum(old.slope - steps[0], 0.0), np.maximum(old.shift - steps[1], 0.0)
        value = logistic(slopes[:, None] * place + shifts[:, None])
        found = np.sum(counts * (value - wanted) ** 2, axis=1)
        better = found < old.sse
        took = at_work[better]
        slope[took], shift[took], sse[took] = slopes[better], shifts[better], found[better]
        damping[at_work] *= np.where(better, 0.1, 10.0)
        settled = np.where(better, old.sse - found < _SETTLED, damping[at_work] > _STUCK)
        at_work = at_work[~settled]
        if not at_work.size:
            break
    return Fit(slope, shift, sse)


def _steps(place: Floats, wanted: Floats, counts: Floats, now: Fit, damping: Floats) -> tuple[Floats, Floats]:
    """Of slope and shift, downhill being positive; 0 where a bound is in the way."""
    value = logistic(now.slope[:, None] * place + now.shift[:, None])
    rate = counts * value * (1 - value)
    miss, square = rate * (value - wanted), rate**2
    by_slope, by_shift = np.sum(miss * place, axis=1), np.sum(miss, axis=1)
    held_slope = (now.slope <= 0) & (by_slope > 0)
    held_shift = (now.shift <= 0) & (by_shift > 0)
    return _solve(
        np.where(held_slope, 1.0, np.sum(square * place**2, axis=1) * (1 + damping) + _TINY),
        np.where(held_slope | held_shift, 0.0, np.sum(square * place, axis=1)),
        np.where(held_shift, 1.0, np.sum(square, axis=1) * (1 + damping) + _TINY),
        np.where(held_slope, 0.0, by_slope),
        np.where(held_shift, 0.0, by_shift),
    )


def _solve(
    first: Floats, mixed: Floats, second: Floats, left: Floats, right: Floats
) -> tuple[Floats, Floats]:
    """Of [[first, mixed], [mixed, second]] x = (left, right)."""
    determinant = np.maximum(first * second - mixed**2, _TINY**2)
    return (second * left - mixed * right) / determinant, (first * right - mixed * left) / determinant
