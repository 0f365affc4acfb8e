"""Throughput profiles: what runs of one configuration reached at each RTT, how sure, and how it bends.

Source: Rao et al., HPDC 2017, section 2: mean profiles (2.2) and box plots (figures 7 and 8).
Quartiles are interpolated linearly between order statistics; whiskers end at the last run within
1.5 interquartile ranges of the box (Tukey 1977), and what lies beyond is an outlier.

The variance at an RTT is shrunk towards that of all RTTs together, taken as relative to the mean,
which counts for ``PRIOR_RUNS`` runs: the variance of a few runs alone is too rough for a weight
(the moderated variance of Smyth 2004, with the prior's weight given instead of estimated).

At each inner RTT the curvature is the second derivative of the parabola through the means there and at
its two neighbours (second divided difference on the uneven grid). Its sign is sure when the central
``INTERVAL`` of the bootstrap does not hold 0. No shape of the whole profile is assumed.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError

Floats = NDArray[np.float64]

WHISKER_IQR = 1.5
PRIOR_RUNS = 4
DRAWS = 1000
INTERVAL = 0.9
"""The central share of the bootstrap that an interval holds."""
_LEAST = 1e-6
"""Standard error as a share of the fastest mean, below which runs count as alike: rounding is in there."""
_LEAST_BPS = 1.0


class Shape(StrEnum):
    """The shape of a whole profile, or of a region of it."""

    CONCAVE = "concave"
    CONVEX = "convex"
    STRAIGHT = "straight"
    BOTH = "concave-convex"


class Profile(NamedTuple):
    """Statistics at each of n RTTs, shortest first. Arrays of shape (n,) but where told."""

    rtt_s: Floats
    runs: NDArray[np.int64]
    mean_bps: Floats
    sd_bps: Floats
    """The standard deviation of single runs (n − 1 in the denominator); NaN at an RTT with one run."""
    median_bps: Floats
    quartiles_bps: Floats
    """The lower and the upper quartile: shape (n, 2)."""
    whiskers_bps: Floats
    """The lowest and the highest run that is no outlier: shape (n, 2)."""
    rates_bps: tuple[Floats, ...]
    """The runs at each RTT, slowest first: n arrays."""

    @property
    def outliers_bps(self) -> tuple[Floats, ...]:
        """The runs beyond the whiskers: n arrays."""
        return tuple(
            rates[(rates < low) | (rates > high)]
            for rates, (low, high) in zip(self.rates_bps, self.whiskers_bps, strict=True)
        )

    def at(self, places: slice) -> "Profile":
        """The profile of a part of its RTTs."""
        part: Any = [column[places] for column in self]
        return Profile(*part)

    def without(self, place: int) -> "Profile":
        """The profile of all of its RTTs but one."""
        others: Any = [
            column[:place] + column[place + 1 :]
            if isinstance(column, tuple)
            else np.delete(column, place, axis=0)
            for column in self
        ]
        return Profile(*others)


def profile(rtt_s: ArrayLike, rate_bps: ArrayLike) -> Profile:
    """The profile of runs of one configuration, given as two equally long arrays.

    Raises HowdahError when there are none, or one has no positive RTT or no finite rate ≥ 0.
    """
    rtts = np.asarray(rtt_s, np.float64)
    return profiles(np.zeros(len(rtts), np.int64), rtts, rate_bps)[0]


def profiles(group: ArrayLike, rtt_s: ArrayLike, rate_bps: ArrayLike) -> list[Profile]:
    """The profile of each group of runs, in the order of the groups' numbers.

    Raises HowdahError as ``profile``.
    """
    groups = np.asarray(group, np.int64)
    rtts, rates = np.asarray(rtt_s, np.float64), np.asarray(rate_bps, np.float64)
    _check(rtts, rates)
    order = np.lexsort((rates, rtts, groups))
    groups, rtts, rates = groups[order], rtts[order], rates[order]
    starts = _changes(groups, rtts)
    every = _every(rtts, rates, starts)
    first = _changes(groups[starts])
    ends = [*first[1:], len(starts)]
    return [every.at(slice(begin, end)) for begin, end in zip(first, ends, strict=True)]


def _check(rtts: Floats, rates: Floats) -> None:
    if rtts.ndim != 1 or rtts.shape != rates.shape:
        raise ValueError(f"RTTs of shape {rtts.shape} beside rates of shape {rates.shape}")
    if not len(rtts):
        raise HowdahError("no runs to make a profile of; measure some with: howdah sweep HOST")
    _refuse(~(np.isfinite(rtts) & (rtts > 0)), lambda at: f"an RTT of {rtts[at]} s")
    _refuse(
        ~(np.isfinite(rates) & (rates >= 0)),
        lambda at: f"a rate of {rates[at]} b/s at an RTT of {rtts[at] * 1e3:.4g} ms",
    )


def _refuse(wrong: NDArray[np.bool_], what: Callable[[int], str]) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        raise HowdahError(
            f"run {at + 1} of {len(wrong)} has {what(at)}; leave out runs that were not measured to the end"
        )


def _changes(*columns: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of sorted columns that differ from the one before them, the first included."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _every(rtts: Floats, rates: Floats, starts: NDArray[np.int64]) -> Profile:
    """The profiles of all groups one after the other, of runs in order; each RTT's begin at ``starts``."""
    sizes = np.diff(starts, append=len(rates))
    cell = np.repeat(np.arange(len(starts)), sizes)
    means = np.add.reduceat(rates, starts) / sizes
    squares = np.add.reduceat((rates - means[cell]) ** 2, starts)
    with np.errstate(invalid="ignore"):
        deviations = np.sqrt(squares / np.where(sizes > 1, sizes - 1, np.nan))
    low, median, high = (_quantile(rates, starts, sizes, share) for share in (0.25, 0.5, 0.75))
    reach = WHISKER_IQR * (high - low)
    inside = (rates >= (low - reach)[cell]) & (rates <= (high + reach)[cell])
    least = np.minimum.reduceat(np.where(inside, rates, np.inf), starts)
    most = np.maximum.reduceat(np.where(inside, rates, -np.inf), starts)
    return Profile(
        rtt_s=rtts[starts],
        runs=sizes,
        mean_bps=means,
        sd_bps=deviations,
        median_bps=median,
        quartiles_bps=np.stack([low, high], axis=1),
        whiskers_bps=np.stack([least, most], axis=1),
        rates_bps=tuple(np.split(rates, starts[1:])),
    )


def _quantile(rates: Floats, starts: NDArray[np.int64], sizes: NDArray[np.int64], share: float) -> Floats:
    place = share * (sizes - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, sizes - 1)
    lower, upper = rates[starts + below], rates[starts + above]
    return np.asarray(lower + (place - below) * (upper - lower))


def standard_errors(profile: Profile) -> Floats:
    """The standard error of the mean at each RTT, in b/s, shape (n,).

    Raises HowdahError when no RTT has two runs.
    """
    freedom = profile.runs - 1
    if not freedom.any():
        raise HowdahError(
            "every RTT has one run, which says nothing of how runs vary; measure each at least twice"
        )
    means = profile.mean_bps
    variances = np.where(freedom > 0, profile.sd_bps, 0.0) ** 2
    positive = means > 0
    relative = np.divide(variances, means**2, out=np.zeros_like(means), where=positive)
    pooled = np.sum((freedom * relative)[positive]) / max(np.sum(freedom[positive]), 1)
    shrunk = (PRIOR_RUNS * pooled * means**2 + freedom * variances) / (PRIOR_RUNS + freedom)
    least = max(_LEAST * float(means.max()), _LEAST_BPS)
    return np.asarray(np.maximum(np.sqrt(shrunk / profile.runs), least))


def bootstrap(profile: Profile, draws: int, generator: np.random.Generator) -> Floats:
    """Means of runs drawn again with replacement at each RTT, shape (draws, n).

    Deviations are stretched by √(k / (k − 1)), which mends that k runs drawn again vary too little;
    an RTT with one run is given the standard error that ``standard_errors`` finds for it.
    """
    errors = standard_errors(profile)
    columns = []
    for rates, mean, error in zip(profile.rates_bps, profile.mean_bps, errors, strict=True):
        k = len(rates)
        if k == 1:
            columns.append(mean + error * generator.standard_normal(draws))
        else:
            drawn = rates[generator.integers(k, size=(draws, k))].mean(axis=1)
            columns.append(mean + (drawn - mean) * np.sqrt(k / (k - 1)))
    return np.stack(columns, axis=1)


class Region(NamedTuple):
    """Neighbouring RTTs between which the profile surely bends one way."""

    shape: Shape
    from_s: float
    to_s: float


class Curvature(NamedTuple):
    """The curvature at the inner RTTs of n; arrays of shape (n − 2,), in b/s per s²."""

    grid_s: Floats
    """The n RTTs."""
    value: Floats
    low: Floats
    high: Floats
    concave_share: Floats
    """The share of bootstrap draws that bend down."""

    def regions(self) -> list[Region]:
        """The regions, each from the RTT before the first bend of one kind to the RTT after the last."""
        found: list[Region] = []
        before = Shape.STRAIGHT
        for at, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            shape = Shape.CONCAVE if high < 0 else Shape.CONVEX if low > 0 else Shape.STRAIGHT
            if shape is not Shape.STRAIGHT:
                start = found.pop().from_s if shape is before else float(self.grid_s[at])
                found.append(Region(shape, start, float(self.grid_s[at + 2])))
            before = shape
        return found


def curvature(profile: Profile) -> Curvature:
    """The curvature of a profile; of fewer than three RTTs it has none.

    Raises HowdahError when no RTT has two runs.
    """
    drawn = second_differences(profile.rtt_s, bootstrap(profile, DRAWS, np.random.default_rng(0)))
    low, high = np.quantile(drawn, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0)
    return Curvature(
        grid_s=profile.rtt_s,
        value=second_differences(profile.rtt_s, profile.mean_bps),
        low=low,
        high=high,
        concave_share=np.mean(drawn < 0, axis=0),
    )


def second_differences(rtt_s: Floats, means_bps: Floats) -> Floats:
    """Second derivatives of the parabolas through three neighbours, shape (…, n − 2), of means (…, n)."""
    slopes = np.diff(means_bps) / np.diff(rtt_s)
    return 2 * np.diff(slopes) / (rtt_s[2:] - rtt_s[:-2])
