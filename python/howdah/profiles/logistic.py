"""Least squares of y = logistic(a s + u) with a, u ≥ 0, for many series at once.

A table of starts finds the valleys, Levenberg and Marquardt's method with the bounds projected their bottoms.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.profiles.profile import Floats

_STEPS = 25
_SETTLED = 1e-9
_STUCK = 1e3
_TINY = 1e-30
_SHIFTS = np.concatenate([np.arange(0, 2, 0.1), np.arange(2, 4, 0.25), [4.0, 5.0, 6.0, 8.0, 12.0]])
_SLOPES = 24
_VALLEYS = 4
"""From how many of the table's valleys the way down is tried: the lowest of the table need not end lowest."""
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
    valleys, slopes, shifts = _starts(scaled, series, counted)
    one, at, start = np.nonzero(np.isfinite(valleys))
    found = _descend(
        scaled[at], series[one], counted[at].astype(float), slopes[one, at, start], shifts[one, at, start]
    )
    slope, shift, sse = (np.full(valleys.shape, np.inf) for _ in range(3))
    slope[one, at, start], shift[one, at, start], sse[one, at, start] = found
    best = np.argmin(sse, axis=2)[:, :, None]
    slope, shift, sse = (np.take_along_axis(each, best, axis=2)[:, :, 0] for each in (slope, shift, sse))
    return Fit(slope / reach, shift, sse)


def _starts(places: Floats, series: Floats, counted: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """The lowest valleys of a table for each series and set of places: misfit, slope and shift of each,
    of shape (d, p, _VALLEYS); the misfit is ∞ where there are fewer.
    """
    nearest = np.min(places, axis=1, where=counted & (places > 0), initial=1.0)
    steep = np.geomspace(0.05, _STEEPEST / nearest, _SLOPES, axis=1)
    slope = np.hstack([np.zeros((len(places), 1)), steep])
    exponent = slope[:, :, None, None] * places[:, None, None, :] + _SHIFTS[:, None]
    table = (logistic(exponent) * counted[:, None, None, :]).reshape(len(places), -1, places.shape[1])
    misfit = np.sum(table**2, axis=2)[:, None, :] - 2 * series @ table.swapaxes(1, 2)
    by_shift = misfit.swapaxes(0, 1).reshape(len(series), *slope.shape, len(_SHIFTS))
    bottoms = _bottoms(np.min(by_shift, axis=3))
    lowest = np.argsort(bottoms, axis=2)[:, :, :_VALLEYS]
    shift = np.take_along_axis(_SHIFTS[np.argmin(by_shift, axis=3)], lowest, axis=2)
    return np.take_along_axis(bottoms, lowest, axis=2), np.take_along_axis(slope[None], lowest, axis=2), shift


def _bottoms(profile: Floats) -> Floats:
    """What the table (d, p, slopes) has where neither neighbour has less; ∞ elsewhere."""
    fenced = np.pad(profile, ((0, 0), (0, 0), (1, 1)), constant_values=np.inf)
    return np.where(profile <= np.minimum(fenced[:, :, :-2], fenced[:, :, 2:]), profile, np.inf)


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
