"""Whether a trace has dynamics that its surrogates lack, and whether they are chaotic.

Surrogates are traces with a trace's own values and less than its dynamics:

shuffled        the same values in random order: no dynamics at all.
autoregressive  an AR process as correlated as the trace, order by Akaike's criterion: linear dynamics. Either
                the trace's own values in the order of the process (amplitude-adjusted; Theiler et al.,
                Physica D 1992), or the Gaussian process itself.

The test is of ranks: were the trace one more surrogate, its statistic would be above all but a share p of
them with probability p at most. That is exact for shuffled ones, whatever the distribution.

It is made on how well this sample tells the next (Schreiber and Schmitz, Physical Review E 1997, compare such
statistics), not on an exponent: where the map is flat, the logarithm of its slope is an error's. Against
shuffled surrogates it is the predictability. Against autoregressive ones it is what the map explains beyond a
straight line, because the predictability of a slow trace is that of its surrogates only as far as the process
fitted to it is the right one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.profiles.dynamics import local_map, poincare
from howdah.profiles.dynamics.local_map import Forecast
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.poincare import MapShape
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


T = TypeVar("T")

COUNT = 39
"""The number of surrogates of each kind."""
LEVEL = 0.05
LEAST_COUNT = 19
"""No p reaches the level with fewer surrogates."""


class Surrogates(NamedTuple):
    """The surrogates of a trace of both kinds, each of shape (count, n)."""

    shuffled: NDArray[np.float64]
    autoregressive: NDArray[np.float64]


class SurrogateComparisons(NamedTuple):
    """A statistic of a trace beside both kinds."""

    shuffled: SurrogateComparison
    autoregressive: SurrogateComparison


class ChaosVerdict(NamedTuple):
    """A trace set beside its surrogates: whether it has dynamics that they lack."""

    predictability: SurrogateComparisons
    nonlinearity: SurrogateComparisons
    beyond: bool
    """True where the trace is more predictable than shuffled and less linear than autoregressive surrogates,
    each at the 5 % level."""
    chaotic: bool
    """True where the trace is beyond its surrogates and both exponents are positive."""


class ExponentComparisons(NamedTuple):
    """The two exponents beside those of the surrogates that have one."""

    local: SurrogateComparisons
    rosenstein: SurrogateComparisons


def draw_surrogates(trace: ArrayLike, seed: int, count: int = COUNT) -> Surrogates:
    """Surrogates of a trace of shape (n,), n ≥ 30, that varies.

    HowdahError: another trace, fewer than 19 surrogates.
    """
    if count < LEAST_COUNT:
        raise HowdahError(f"{count} surrogates decide nothing at the 5 % level; take {LEAST_COUNT} or more")
    rng = np.random.default_rng(seed)
    return Surrogates(shuffled(trace, count, rng), autoregressive(trace, count, rng))


def chaos_verdict(found: Exponents, others: Surrogates) -> ChaosVerdict:
    """The verdict on the trace that has these exponents and surrogates."""
    kinds = [[_forecast(each) for each in kind] for kind in others]
    predictability = _beside(found.forecast, kinds, lambda each: each.predictability)
    nonlinearity = _beside(found.forecast, kinds, lambda each: each.nonlinearity)
    beyond = predictability.shuffled.p <= LEVEL and nonlinearity.autoregressive.p <= LEVEL
    return ChaosVerdict(
        predictability, nonlinearity, beyond, chaotic=beyond and found.local > 0 and found.rosenstein > 0
    )


def compare_exponents(found: Exponents, others: Surrogates) -> ExponentComparisons | Undetermined:
    """The exponents of the trace beside those of its surrogates.

    Takes some 10 ms a surrogate of 100 samples.
    """
    kinds = [[exponents(each) for each in kind] for kind in others]
    known = [[each for each in kind if isinstance(each, Exponents)] for kind in kinds]
    if not all(known):
        return Undetermined("no surrogate of one kind has exponents")
    return ExponentComparisons(
        _beside(found, known, lambda each: each.local), _beside(found, known, lambda each: each.rosenstein)
    )


def _beside(own: T, kinds: Sequence[Sequence[T]], number: Callable[[T], float]) -> SurrogateComparisons:
    """A number of the trace beside the same of its surrogates of both kinds."""
    shuffled, linear = (
        compare_with_surrogates(number(own), [number(each) for each in kind]) for kind in kinds
    )
    return SurrogateComparisons(shuffled, linear)


def _forecast(trace: NDArray[np.float64]) -> Forecast:
    state = standardised(trace)
    return local_map.forecast(state, local_map.fit_map(state))


class Dynamics(NamedTuple):
    """The dynamics of the sustained part of one trace."""

    samples: int
    """The samples of the whole trace."""
    ramp_up_samples: int
    map: MapShape | Undetermined
    exponents: Exponents | Undetermined
    exponent_comparisons: ExponentComparisons | Undetermined
    verdict: ChaosVerdict | Undetermined


def describe(trace: ArrayLike, seed: int, count: int = COUNT) -> Dynamics:
    """The dynamics of a trace of shape (n,), with ``count`` surrogates of each kind drawn by ``seed``.

    HowdahError: a trace that is not one row of finite numbers, fewer than 19 surrogates.
    """
    whole = checked_trace(trace)
    part = poincare.sustained(whole)
    ramp_up = whole.size - part.size
    found = exponents(part)
    if isinstance(found, Undetermined):
        return Dynamics(whole.size, ramp_up, poincare.map_shape(part), found, found, found)
    others = draw_surrogates(part, seed, count)
    return Dynamics(
        samples=whole.size,
        ramp_up_samples=ramp_up,
        map=poincare.map_shape(part),
        exponents=found,
        exponent_comparisons=compare_exponents(found, others),
        verdict=chaos_verdict(found, others),
    )
