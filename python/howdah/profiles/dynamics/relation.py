"""Throughput against Lyapunov exponent (HPDC 2017, section 4.2, figure 14): Spearman's rank correlation.

Ranks, because the paper's claim is that one falls as the other grows, and not along which line. The interval
is Fisher's with the standard error of Bonett and Wright (Psychometrika 2000), which holds its level from ten
runs on.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.profiles.dynamics.traces import Undetermined, mean_ranks
from howdah.text import count

LEAST_RUNS = 5
CONFIDENCE = 0.95


class Relation(NamedTuple):
    """Spearman's correlation of throughput with exponent; below zero as the paper has it."""

    correlation: float
    low: float
    high: float
    runs: int

    @property
    def decreasing(self) -> bool | None:
        """True where throughput falls as the exponent grows; None while the interval holds zero."""
        return None if self.low <= 0 <= self.high else self.high < 0


def relation(
    exponent: ArrayLike, rate_bps: ArrayLike, confidence: float = CONFIDENCE
) -> Relation | Undetermined:
    """The relation over runs: both of shape (runs,). A run whose exponent is nan (unknown) is left out.

    HowdahError: arrays of unequal length, a rate that is not finite, a confidence outside (0, 1).
    """
    exponents, rates = _columns(exponent, rate_bps)
    if not 0 < confidence < 1:
        raise HowdahError(f"a confidence of {confidence} is not between 0 and 1; take for example 0.95")
    known = np.isfinite(exponents)
    exponents, rates = exponents[known], rates[known]
    if exponents.size < LEAST_RUNS:
        return Undetermined(f"{count(exponents.size, 'run')} with an exponent, and {LEAST_RUNS} are needed")
    if np.ptp(exponents) == 0 or np.ptp(rates) == 0:
        return Undetermined("all runs have the same exponent or the same rate")
    correlation = float(np.corrcoef(mean_ranks(exponents), mean_ranks(rates))[0, 1])
    low, high = _interval(correlation, exponents.size, confidence)
    return Relation(correlation, low, high, exponents.size)


def _columns(exponent: ArrayLike, rate_bps: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    exponents = np.asarray(exponent, dtype=np.float64)
    rates = np.asarray(rate_bps, dtype=np.float64)
    if exponents.ndim != 1 or exponents.shape != rates.shape:
        raise HowdahError(
            f"{exponents.shape} exponents for {rates.shape} rates; give one of each for each run"
        )
    if not np.isfinite(rates).all():
        raise HowdahError(f"the rate of run {int(np.argmin(np.isfinite(rates)))} is not finite; leave it out")
    return exponents, rates


def _interval(correlation: float, runs: int, confidence: float) -> tuple[float, float]:
    # Half of what one exchange of neighbours would take from a perfect order: Fisher's scale ends there.
    most = 1 - 6 / (runs * (runs**2 - 1))
    centre = np.arctanh(np.clip(correlation, -most, most))
    error = np.sqrt((1 + correlation**2 / 2) / (runs - 3))
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error
    low, high = np.tanh([centre - reach, centre + reach])
    return float(min(low, correlation)), float(max(high, correlation))
