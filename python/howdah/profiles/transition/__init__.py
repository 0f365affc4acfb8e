"""The transition RTT, where a profile turns from concave to convex, with its bracket and its confidence.

Only means at the measured RTTs are known, so the profile is taken as straight between them. If it bends
down last at one RTT and up first at the next, every concave-then-convex curve through the means turns in
that bracket, and they are concave as far as its upper end: that is the transition RTT. It is the last RTT of
a profile that is wholly concave and the first of one wholly convex (as in HPDC 2017, figures 9 and 10).

The paper has no rule for wholly concave and wholly convex profiles. Here a profile is wholly concave when
its convex regime is not shown: allowing one lowers the weighted sum of squares of the regression no more
than noise on the concave regression itself would in all but ``LEVEL`` of draws. Wholly convex likewise.
Where neither regime is shown the profile is straight, and its transition RTT is the last one, as a line is
concave too: an exponential ramp-up gives one (section 3.4).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.profiles.profile import DRAWS, INTERVAL, Floats, Profile, Shape, bootstrap, standard_errors
from howdah.profiles.transition.shapes import ConcaveConvex

LEVEL = 0.01
_NOISE_DRAWS = 1000
_TIE = 1e-6
"""Difference of two weighted sums of squares that is rounding; one that means something is about 1."""


class Transition(NamedTuple):
    """The turn of a profile of n RTTs."""

    shape: Shape
    rtt_s: float
    bracket_s: tuple[float, float]
    """The measured RTTs between which it turns; twice the same RTT where it does not."""
    interval_s: tuple[float, float]
    """The central ``INTERVAL`` of the transition RTTs of the bootstrap."""
    shares: Floats
    """The bootstrap's share of transition RTTs on each measured RTT, shape (n,)."""
    p_concave: float
    """The probability that noise gives a wholly concave profile a convex regime as clear as this one's."""
    p_convex: float
    """The probability that noise gives a wholly convex profile a concave regime as clear as this one's."""
    fitted_bps: Floats
    """The regression of this shape at the measured RTTs, shape (n,)."""


def transition(profile: Profile, *, draws: int = DRAWS, seed: int = 0) -> Transition:
    """Finds the turn of a profile.

    Raises HowdahError for fewer than three RTTs, and when no RTT has two runs.
    """
    rtts = profile.rtt_s
    if len(rtts) < 3:
        raise HowdahError(
            f"runs at {len(rtts)} RTT{'s' * (len(rtts) > 1)} have no transition RTT; measure at three or more"
        )
    generator = np.random.default_rng(seed)
    errors = standard_errors(profile)
    regression = ConcaveConvex(rtts, errors)
    freedom = int(np.sum(profile.runs - 1))
    # Student's: the errors are estimates themselves, and of few runs rough ones.
    roughness = np.sqrt(freedom / generator.chisquare(freedom, (_NOISE_DRAWS, 1)))
    noise = errors * generator.standard_normal((_NOISE_DRAWS, len(rtts))) * roughness
    judge = _RegimeTest(regression, profile.mean_bps, noise)
    own = judge(profile.mean_bps[None])
    again = judge(bootstrap(profile, draws, generator)).turn()
    low, high = np.quantile(again, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], method="inverted_cdf")
    return Transition(
        shape=own.shape(0),
        rtt_s=float(rtts[own.turn()[0]]),
        bracket_s=own.bracket(0, rtts),
        interval_s=(float(rtts[low]), float(rtts[high])),
        shares=np.bincount(again, minlength=len(rtts)) / draws,
        p_concave=float(own.p_concave[0]),
        p_convex=float(own.p_convex[0]),
        fitted_bps=regression.fit(profile.mean_bps, own.bends(0)),
    )


class _RegimeVerdicts(NamedTuple):
    """The decisions on k profiles with m inner RTTs; arrays of shape (k,)."""

    inner: int
    p_concave: Floats
    p_convex: Floats
    fewest: NDArray[np.int64]
    """The bends of the best regression with both regimes, and of others as good but for rounding."""
    most: NDArray[np.int64]

    def turn(self) -> NDArray[np.int64]:
        """The index of the transition RTT among the measured ones."""
        both = (self.fewest + self.most) // 2 + 1
        one = np.where(self.p_concave >= LEVEL, self.inner + 1, 0)
        return np.where(self._both(), both, one)

    def shape(self, which: int) -> Shape:
        if self._both()[which]:
            return Shape.BOTH
        if self.p_concave[which] < LEVEL:
            return Shape.CONVEX
        return Shape.CONCAVE if self.p_convex[which] < LEVEL else Shape.STRAIGHT

    def bends(self, which: int) -> int | None:
        """The number of inner RTTs that bend down; None for a straight profile."""
        shape = self.shape(which)
        if shape is Shape.STRAIGHT:
            return None
        only = self.inner if shape is Shape.CONCAVE else 0
        return int(self.fewest[which]) if shape is Shape.BOTH else only

    def bracket(self, which: int, rtts: Floats) -> tuple[float, float]:
        if self._both()[which]:
            return float(rtts[self.fewest[which]]), float(rtts[self.most[which] + 1])
        end = float(rtts[self.turn()[which]])
        return end, end

    def _both(self) -> NDArray[np.bool_]:
        return (self.p_concave < LEVEL) & (self.p_convex < LEVEL)


class _RegimeTest:
    """Decides on profiles of one grid, by what noise (shape (k, n)) would show of a missing regime."""

    def __init__(self, regression: ConcaveConvex, means_bps: Floats, noise: Floats) -> None:
        self._regression = regression
        concave = regression.misfit(regression.fit(means_bps, regression.inner) + noise)
        convex = regression.misfit(regression.fit(means_bps, 0) + noise)
        self._concave = np.sort(concave[:, -1] - concave.min(axis=1))
        self._convex = np.sort(convex[:, 0] - convex.min(axis=1))

    def __call__(self, means_bps: Floats) -> _RegimeVerdicts:
        misfit = self._regression.misfit(means_bps)
        least = misfit.min(axis=1)
        tied = misfit <= least[:, None] + _TIE
        last = misfit.shape[1] - 1
        return _RegimeVerdicts(
            inner=last,
            p_concave=_chance(self._concave, misfit[:, -1] - least),
            p_convex=_chance(self._convex, misfit[:, 0] - least),
            fewest=np.argmax(tied, axis=1),
            most=last - np.argmax(tied[:, ::-1], axis=1),
        )


def _chance(null: Floats, found: Floats) -> Floats:
    """The share of the sorted ``null`` that reaches each found value, itself counted."""
    reached = len(null) - np.searchsorted(null, found - _TIE, side="left")
    return (1 + reached) / (1 + len(null))
