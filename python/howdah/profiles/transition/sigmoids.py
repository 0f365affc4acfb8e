"""The paper's pair of flipped sigmoids: a concave one up to the transition RTT, a convex one from there.

Source: Rao et al., HPDC 2017, section 2.3. With g(τ) = 1 − 1 / (1 + e^{−a(τ − τ₀)}) and throughput scaled to
(0, 1), the sum of (y − g₁)² over τ ≤ τ_T and of (y − g₂)² over τ ≥ τ_T is minimised subject to
τ₂ ≤ τ_T ≤ τ₁, τ_T being one of the measured RTTs; as printed, the point at τ_T counts in both sums.

Notes:
- A sigmoid is ½ at its inflection, so the constraint holds the concave part above ½ and the convex
  part below. The transition RTT found is thus where the scaled profile passes ½, wherever it turns
  (``transition`` looks for the turn itself), and what ½ is depends on the scale. It is
  the capacity here, where known, else the largest mean: the paper does not say.
- Wholly concave or convex: one sigmoid over all RTTs. The paper has no rule for it. Here one sigmoid
  is kept unless the pair lowers the sum of squares by more than ``PAIR_VARIANCES`` variances of a mean.
- The fit is of y = logistic(a s + u) with a, u ≥ 0, for many series at once. A table of starts finds the
  valleys, and Levenberg and Marquardt's method with the bounds projected finds their bottoms.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.profiles.profile import Floats, Profile, bootstrap, standard_errors

PAIR_VARIANCES = 9.8
"""The 98 % quantile of χ² with three degrees of freedom: the slope, the place and the transition that a pair
has more."""


class Sigmoid(NamedTuple):
    """The sigmoid g(τ) = 1 / (1 + e^{a(τ − τ₀)}), the same as printed."""

    a_per_s: float
    centre_s: float

    def __call__(self, rtt_s: Floats) -> Floats:
        """The scaled throughput at these RTTs, in (0, 1)."""
        return logistic(-self.a_per_s * (rtt_s - self.centre_s))


class Sigmoids(NamedTuple):
    """The fitted pair."""

    transition_s: float
    concave: Sigmoid | None
    """The concave part; None where the profile is wholly convex."""
    convex: Sigmoid | None
    """The convex part; None where the profile is wholly concave."""
    scale_bps: float
    """The rate that throughput was divided by."""
    sse: float
    """The sum of squared errors of scaled throughput, as printed."""
    shares: Floats
    """The bootstrap's share of transition RTTs on each measured RTT, shape (n,); empty without bootstrap."""

    def predict(self, rtt_s: Floats) -> Floats:
        """Throughput in b/s at these RTTs; at the transition RTT that of the concave part."""
        first, second = self.concave or self.convex, self.convex or self.concave
        if first is None or second is None:
            raise ValueError("a fit without sigmoids")
        return self.scale_bps * np.where(rtt_s <= self.transition_s, first(rtt_s), second(rtt_s))


def sigmoids(profile: Profile, *, capacity_bps: float | None = None, draws: int = 0) -> Sigmoids:
    """Fits the pair to a profile of at least two RTTs, and to ``draws`` bootstrap draws of it.

    Raises HowdahError when no RTT has two runs.
    """
    top = float(profile.mean_bps.max())
    scale = max(capacity_bps or top, top, 1.0)
    errors = standard_errors(profile) / scale
    generator = np.random.default_rng(0)
    again = [bootstrap(profile, draws, generator)] if draws else []
    fits = _SigmoidFits(
        profile.rtt_s, np.vstack([profile.mean_bps, *again]) / scale, float(np.mean(errors**2))
    )
    at = int(fits.turn[0])
    return Sigmoids(
        transition_s=float(profile.rtt_s[at]),
        concave=fits.concave(0, at),
        convex=fits.convex(0, at),
        scale_bps=scale,
        sse=float(fits.sse[0, at]),
        shares=np.bincount(fits.turn[1:], minlength=len(profile.rtt_s)) / draws if draws else np.empty(0),
    )


class _SigmoidFits:
    """The best sigmoids for each transition RTT, of k scaled profiles (k, n).

    With s the distance from τ_T, y = logistic(a s + u) on the concave side and 1 − y on the convex one,
    where a ≥ 0 falls with the RTT and u ≥ 0 keeps the inflection beyond τ_T.
    """

    def __init__(self, rtts: Floats, scaled: Floats, variance: float) -> None:
        self._rtts = rtts
        distance = np.abs(rtts[:, None] - rtts)
        before = rtts <= rtts[:, None]
        self._concave = least_squares(distance[1:], scaled, before[1:])
        self._convex = least_squares(distance[:-1], 1 - scaled, before.T[:-1])
        none = np.zeros((len(scaled), 1))
        self.sse = np.hstack([none, self._concave.sse]) + np.hstack([self._convex.sse, none])
        single = np.where(self.sse[:, 0] <= self.sse[:, -1], 0, len(rtts) - 1)
        best = np.argmin(self.sse, axis=1)
        rows = np.arange(len(scaled))
        worse = self.sse[rows, single] - self.sse[rows, best]
        self.turn = np.where(worse <= PAIR_VARIANCES * variance, single, best)

    def concave(self, row: int, at: int) -> Sigmoid | None:
        if at == 0:
            return None
        slope, shift = self._concave.slope[row, at - 1], self._concave.shift[row, at - 1]
        return _sigmoid(float(slope), float(self._rtts[at]), float(shift))

    def convex(self, row: int, at: int) -> Sigmoid | None:
        if at == len(self._rtts) - 1:
            return None
        slope, shift = self._convex.slope[row, at], self._convex.shift[row, at]
        return _sigmoid(float(slope), float(self._rtts[at]), -float(shift))


def _sigmoid(slope: float, turn: float, shift: float) -> Sigmoid:
    # A flat part is a sigmoid whose inflection is endlessly far.
    slope = max(slope, 1e-6)
    return Sigmoid(a_per_s=slope, centre_s=turn + shift / slope)


_STEPS = 25
_SETTLED = 1e-9
_STUCK = 1e3
_TINY = 1e-30
_SHIFTS = np.concatenate([np.arange(0, 2, 0.1), np.arange(2, 4, 0.25), [4.0, 5.0, 6.0, 8.0, 12.0]])
_SLOPES = 24
_VALLEYS = 4
"""The way down is tried from so many of the table's valleys: the lowest need not end lowest."""
_STEEPEST = 30.0
"""A slope with a larger a s from one measured place to the next is a step."""


class LogisticFit(NamedTuple):
    """The fits of each of d series on each of p sets of places: arrays of shape (d, p)."""

    slope: Floats
    shift: Floats
    sse: Floats


def logistic(exponent: Floats) -> Floats:
    """1 / (1 + e^{−x}), without overflow."""
    return 0.5 + 0.5 * np.tanh(0.5 * exponent)


def least_squares(places: Floats, series: Floats, counted: NDArray[np.bool_]) -> LogisticFit:
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
    return LogisticFit(slope / reach, shift, sse)


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
    """The values of the table (d, p, slopes) where neither neighbour has less; ∞ elsewhere."""
    fenced = np.pad(profile, ((0, 0), (0, 0), (1, 1)), constant_values=np.inf)
    return np.where(profile <= np.minimum(fenced[:, :, :-2], fenced[:, :, 2:]), profile, np.inf)


def _descend(places: Floats, target: Floats, weight: Floats, slope: Floats, shift: Floats) -> LogisticFit:
    """Goes down from each start: rows of places, targets and weights (r, n), starts (r,)."""
    slope, shift = slope.copy(), shift.copy()
    damping = np.full(len(slope), 1e-3)
    sse = np.sum(weight * (logistic(slope[:, None] * places + shift[:, None]) - target) ** 2, axis=1)
    at_work = np.arange(len(slope))
    for _ in range(_STEPS):
        place, goal, counts = places[at_work], target[at_work], weight[at_work]
        old = LogisticFit(slope[at_work], shift[at_work], sse[at_work])
        steps = _steps(place, goal, counts, old, damping[at_work])
        slopes, shifts = np.maximum(old.slope - steps[0], 0.0), np.maximum(old.shift - steps[1], 0.0)
        value = logistic(slopes[:, None] * place + shifts[:, None])
        found = np.sum(counts * (value - goal) ** 2, axis=1)
        better = found < old.sse
        took = at_work[better]
        slope[took], shift[took], sse[took] = slopes[better], shifts[better], found[better]
        damping[at_work] *= np.where(better, 0.1, 10.0)
        settled = np.where(better, old.sse - found < _SETTLED, damping[at_work] > _STUCK)
        at_work = at_work[~settled]
        if not at_work.size:
            break
    return LogisticFit(slope, shift, sse)


def _steps(
    place: Floats, goal: Floats, counts: Floats, now: LogisticFit, damping: Floats
) -> tuple[Floats, Floats]:
    """The steps of slope and shift, downhill being positive; 0 where a bound is in the way."""
    value = logistic(now.slope[:, None] * place + now.shift[:, None])
    rate = counts * value * (1 - value)
    miss, square = rate * (value - goal), rate**2
    by_slope, by_shift = np.sum(miss * place, axis=1), np.sum(miss, axis=1)
    fixed_slope = (now.slope <= 0) & (by_slope > 0)
    fixed_shift = (now.shift <= 0) & (by_shift > 0)
    return _solve(
        np.where(fixed_slope, 1.0, np.sum(square * place**2, axis=1) * (1 + damping) + _TINY),
        np.where(fixed_slope | fixed_shift, 0.0, np.sum(square * place, axis=1)),
        np.where(fixed_shift, 1.0, np.sum(square, axis=1) * (1 + damping) + _TINY),
        np.where(fixed_slope, 0.0, by_slope),
        np.where(fixed_shift, 0.0, by_shift),
    )


def _solve(
    first: Floats, mixed: Floats, second: Floats, left: Floats, right: Floats
) -> tuple[Floats, Floats]:
    """Solves [[first, mixed], [mixed, second]] x = (left, right)."""
    determinant = np.maximum(first * second - mixed**2, _TINY**2)
    return (second * left - mixed * right) / determinant, (first * right - mixed * left) / determinant
