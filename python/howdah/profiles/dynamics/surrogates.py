"""Surrogates: traces with a trace's own values and less than its dynamics, and whether it goes beyond them.

shuffled        the same values in random order: no dynamics at all.
autoregressive  an AR process as correlated as the trace, order by Akaike's criterion: linear dynamics. Either
                the trace's own values in the order of the process (amplitude-adjusted; Theiler et al.,
                Physica D 1992), or the Gaussian process itself.

The test is of ranks: were the trace one more surrogate, its statistic would be above all but a share p of
them with probability p at most. That is exact for shuffled ones, whatever the distribution.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.profiles.dynamics.traces import (
    Trace,
    Undetermined,
    checked_trace,
    normal_scores,
    standardised,
    why_undetermined,
)

LEAST_SAMPLES = 30

_MOST_ORDER = 10
_BURN_IN_STEPS = 300


class Autoregression(NamedTuple):
    """A model of a trace less its mean: x_i = Σ coefficients_j x_{i-j} + innovation."""

    coefficients: NDArray[np.float64]
    """The coefficients, shape (order,); order 0 is independent noise."""
    variance: float
    """The variance of the innovation."""


class SurrogateComparison(NamedTuple):
    """A statistic of the trace beside the same of its surrogates of one kind."""

    p: float
    """The level of a one-sided rank test: small when the trace's is larger. At least 1 / (surrogates + 1)."""
    median: float
    low: float
    """5th percentile of the surrogates."""
    high: float
    """95th percentile."""
    surrogates: int


def shuffled(trace: ArrayLike, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """``count`` permutations of a trace of shape (n,): shape (count, n)."""
    return rng.permuted(np.tile(_usable(trace), (count, 1)), axis=1)


def autoregressive(
    trace: ArrayLike, count: int, rng: np.random.Generator, *, amplitude_adjusted: bool = True
) -> NDArray[np.float64]:
    """``count`` traces of the AR process fitted to a trace of shape (n,): shape (count, n).

    Amplitude-adjusted, each has exactly the trace's values, and the process is fitted to their normal scores;
    otherwise they are Gaussian with the trace's mean and variance.
    """
    values = _usable(trace)
    source = normal_scores(values) if amplitude_adjusted else standardised(values)
    runs = _simulated(autoregression(source - source.mean()), count, values.size, rng)
    if not amplitude_adjusted:
        runs *= values.std()
        runs += values.mean()
        return runs
    adjusted: NDArray[np.float64] = np.sort(values)[runs.argsort(axis=1).argsort(axis=1)]
    return adjusted


def autoregression(trace: Trace) -> Autoregression:
    """The AR process of a trace of shape (n,), of mean 0 and not all zero.

    By Burg's recursion, so it is stationary and little biased; order by AIC.
    """
    forward, backward = trace[1:], trace[:-1]
    process = best = Autoregression(np.empty(0), float(np.mean(trace**2)))
    lowest = trace.size * np.log(best.variance)
    for order in range(1, min(_MOST_ORDER, trace.size // 4) + 1):
        power = float(forward @ forward + backward @ backward)
        reflection = 2 * float(forward @ backward) / power if power > 0 else 1.0
        if abs(reflection) >= 1:
            break
        coefficients = process.coefficients - reflection * process.coefficients[::-1]
        variance = process.variance * (1 - reflection**2)
        process = Autoregression(np.append(coefficients, reflection), variance)
        forward, backward = (forward - reflection * backward)[1:], (backward - reflection * forward)[:-1]
        criterion = trace.size * np.log(variance) + 2 * order
        if criterion < lowest:
            best, lowest = process, criterion
    return best


def compare_with_surrogates(own: float, others: ArrayLike) -> SurrogateComparison:
    """A statistic of the trace beside that of its surrogates, of shape (count,), count ≥ 1."""
    values = checked_trace(others)
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95))
    p = (1 + int(np.count_nonzero(values >= own))) / (1 + values.size)
    return SurrogateComparison(p, float(median), float(low), float(high), values.size)


def _usable(trace: ArrayLike) -> Trace:
    values = checked_trace(trace)
    reason = why_undetermined(values, LEAST_SAMPLES)
    if isinstance(reason, Undetermined):
        raise HowdahError(f"the trace has no surrogates: {reason.reason}")
    return values


def _simulated(
    process: Autoregression, count: int, samples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    order = process.coefficients.size
    steps = _BURN_IN_STEPS + samples
    runs = rng.normal(scale=np.sqrt(process.variance), size=(steps, count))
    backwards = process.coefficients[::-1]
    for step in range(order, steps if order else 0):
        runs[step] += backwards @ runs[step - order : step]
    return runs[_BURN_IN_STEPS:].T
