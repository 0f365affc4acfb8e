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
"""

from typing import NamedTuple

import numpy as np

from howdah.profiles.logistic import least_squares, logistic
from howdah.profiles.profile import Floats, Profile
from howdah.profiles.spread import bootstrap, standard_errors

PAIR_VARIANCES = 9.8
"""98 % of χ² with three degrees of freedom: the slope, the place and the transition that a pair has more."""


class Sigmoid(NamedTuple):
    """g(τ) = 1 / (1 + e^{a(τ − τ₀)}), the same as printed."""

    a_per_s: float
    centre_s: float

    def __call__(self, rtt_s: Floats) -> Floats:
        """Scaled throughput, in (0, 1)."""
        return logistic(-self.a_per_s * (rtt_s - self.centre_s))


class Sigmoids(NamedTuple):
    """The fitted pair."""

    transition_s: float
    concave: Sigmoid | None
    """None: wholly convex."""
    convex: Sigmoid | None
    """None: wholly concave."""
    scale_bps: float
    """What throughput was divided by."""
    sse: float
    """Of scaled throughput, as printed."""
    shares: Floats
    """Of the bootstrap's transition RTTs on each measured RTT, shape (n,); empty without bootstrap."""

    def predict(self, rtt_s: Floats) -> Floats:
        """Throughput in b/s at these RTTs; at the transition RTT that of the concave part."""
        first, second = self.concave or self.convex, self.convex or self.concave
        if first is None or second is None:
            raise ValueError("a fit without sigmoids")
        return self.scale_bps * np.where(rtt_s <= self.transition_s, first(rtt_s), second(rtt_s))


def sigmoids(
    profile: Profile, *, capacity_bps: float | None = None, draws: int = 0, seed: int = 0
) -> Sigmoids:
    """Fits the pair to a profile of at least two RTTs, and to ``draws`` bootstrap draws of it.

    Raises HowdahError when no RTT has two runs.
    """
    top = float(profile.mean_bps.max())
    scale = max(capacity_bps or top, top, 1.0)
    errors = standard_errors(profile) / scale
    generator = np.random.default_rng(seed)
    again = [bootstrap(profile, draws, generator)] if draws else []
    fits = _Fits(profile.rtt_s, np.vstack([profile.mean_bps, *again]) / scale, float(np.mean(errors**2)))
    at = int(fits.turn[0])
    return Sigmoids(
        transition_s=float(profile.rtt_s[at]),
        concave=fits.concave(0, at),
        convex=fits.convex(0, at),
        scale_bps=scale,
        sse=float(fits.sse[0, at]),
        shares=np.bincount(fits.turn[1:], minlength=len(profile.rtt_s)) / draws if draws else np.empty(0),
    )


class _Fits:
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
