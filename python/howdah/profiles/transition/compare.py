"""Compares regressions of a profile by what each says of an RTT that it was not shown.

Each inner RTT is left out in turn; the ends would be extrapolation. The error is the mean of
|predicted − measured| / measured over them. Differences below what the measured means themselves may be
off say nothing, so that is given beside.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from howdah.profiles.profile import Floats, Profile, standard_errors
from howdah.profiles.transition.shapes import ConcaveConvex, never_rising
from howdah.profiles.transition.sigmoids import sigmoids

LEAST_RTTS = 5
"""A pair of sigmoids still has as many points as parameters with one RTT left out."""


class LeftOutErrors(NamedTuple):
    """Mean relative error at RTTs left out, by regression; NaN where there are too few RTTs."""

    sigmoids: float
    concave_convex: float
    monotone: float
    noise: float
    """Mean relative standard error of the measured means there."""

    @property
    def best(self) -> str | None:
        """The name of the best; None when there are too few RTTs."""
        named = {name: value for name, value in self._asdict().items() if name != "noise"}
        return None if np.isnan(self.noise) else min(named, key=named.__getitem__)

    @property
    def clear(self) -> bool:
        """True where the best is better than the next by more than the noise."""
        first, second, _ = sorted([self.sigmoids, self.concave_convex, self.monotone])
        return second - first > self.noise


def compare_regressions(profile: Profile, *, capacity_bps: float | None = None) -> LeftOutErrors:
    """Leaves each inner RTT out in turn.

    Raises HowdahError when no RTT has two runs.
    """
    errors = standard_errors(profile)
    inner = [at for at in range(1, len(profile.rtt_s) - 1) if profile.mean_bps[at] > 0]
    if len(profile.rtt_s) < LEAST_RTTS or not inner:
        return LeftOutErrors(np.nan, np.nan, np.nan, np.nan)

    def error(regress: Callable[[Profile, Floats], Callable[[float], float]]) -> float:
        misses = []
        for at in inner:
            regression = regress(profile.without(at), np.delete(errors, at))
            predicted = regression(float(profile.rtt_s[at]))
            misses.append(abs(predicted / profile.mean_bps[at] - 1))
        return float(np.mean(misses))

    return LeftOutErrors(
        sigmoids=error(lambda part, _: _by_sigmoids(part, capacity_bps)),
        concave_convex=error(_by_shape),
        monotone=error(lambda part, spread: _straight(part, never_rising(part.mean_bps, spread))),
        noise=float(np.mean(errors[inner] / profile.mean_bps[inner])),
    )


def _by_sigmoids(profile: Profile, capacity_bps: float | None) -> Callable[[float], float]:
    fit = sigmoids(profile, capacity_bps=capacity_bps)
    return lambda rtt: float(fit.predict(np.array([rtt]))[0])


def _by_shape(profile: Profile, errors: Floats) -> Callable[[float], float]:
    regression = ConcaveConvex(profile.rtt_s, errors)
    bends = int(np.argmin(regression.misfit(profile.mean_bps[None])[0]))
    return _straight(profile, regression.fit(profile.mean_bps, bends))


def _straight(profile: Profile, fitted: Floats) -> Callable[[float], float]:
    return lambda rtt: float(np.interp(rtt, profile.rtt_s, fitted))
