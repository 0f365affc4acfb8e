"""Throughput profiles: what runs of one configuration reached at each RTT.

Source: Rao et al., HPDC 2017, section 2: mean profiles (2.2) and box plots (figures 7 and 8).
Quartiles are interpolated linearly between order statistics; whiskers end at the last run within
1.5 interquartile ranges of the box (Tukey 1977), and what lies beyond is an outlier.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError

Floats = NDArray[np.float64]

WHISKER_IQR = 1.5


class Profile(NamedTuple):
    """Statistics at each of n RTTs, shortest first. Arrays of shape (n,) but where told."""

    rtt_s: Floats
    runs: NDArray[np.int64]
    mean_bps: Floats
    sd_bps: Floats
    """Of single runs (n − 1 in the denominator); NaN at an RTT with one run."""
    median_bps: Floats
    quartiles_bps: Floats
    """Shape (n, 2): lower and upper."""
    whiskers_bps: Floats
    """Shape (n, 2): lowest and highest run that is no outlier."""
    rates_bps: tuple[Floats, ...]
    """n arrays: the runs at each RTT, slowest first."""

    @property
    def outliers_bps(self) -> tuple[Floats, ...]:
        """n arrays: the runs beyond the whiskers."""
        return tuple(
            rates[(rates < low) | (rates > high)]
            for rates, (low, high) in zip(self.rates_bps, self.whiskers_bps, strict=True)
        )

    def at(self, places: NDArray[np.int64]) -> "Profile":
        """The profile of these of its RTTs."""
        return Profile(
            rtt_s=self.rtt_s[places],
            runs=self.runs[places],
            mean_bps=self.mean_bps[places],
            sd_bps=self.sd_bps[places],
            median_bps=self.median_bps[places],
            quartiles_bps=self.quartiles_bps[places],
            whiskers_bps=self.whiskers_bps[places],
            rates_bps=tuple(self.rates_bps[place] for place in places),
        )


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
    cells = _cells(rtts, rates, starts)
    first = _changes(groups[starts])
    ends = [*first[1:], len(starts)]
    return [cells(begin, end) for begin, end in zip(first, ends, strict=True)]


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
    """Where a row of sorted columns differs from the one before it, the first included."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _cells(rtts: Floats, rates: Floats, starts: NDArray[np.int64]) -> Callable[[int, int], Profile]:
    """A function that gives the profile of the cells ``begin`` to ``end``; cells are sorted by rate."""
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
    pieces = np.split(rates, starts[1:])

    def give(begin: int, end: int) -> Profile:
        part = slice(begin, end)
        return Profile(
            rtt_s=rtts[starts[part]],
            runs=sizes[part],
            mean_bps=means[part],
            sd_bps=deviations[part],
            median_bps=median[part],
            quartiles_bps=np.stack([low[part], high[part]], axis=1),
            whiskers_bps=np.stack([least[part], most[part]], axis=1),
            rates_bps=tuple(pieces[part]),
        )

    return give


def _quantile(rates: Floats, starts: NDArray[np.int64], sizes: NDArray[np.int64], share: float) -> Floats:
    place = share * (sizes - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, sizes - 1)
    lower, upper = rates[starts + below], rates[starts + above]
    return np.asarray(lower + (place - below) * (upper - lower))
