"""Whether a trace has dynamics that its surrogates lack, and whether they are chaotic.

The test is made on how well this sample tells the next (Schreiber and Schmitz, Physical Review E 1997,
compare such statistics), not on an exponent: where the map is flat, the logarithm of its slope is an
error's. Against shuffled surrogates it is the predictability. Against autoregressive ones it is what the map
explains beyond a straight line, because the predictability of a slow trace is that of its surrogates only as
far as the process fitted to it is the right one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.profiles.dynamics import local_map, poincare, surrogates
from howdah.profiles.dynamics.local_map import Forecast
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.poincare import MapShape
from howdah.profiles.dynamics.surrogates import SurrogateComparison
from howdah.profiles.dynamics.traces import Undetermined, checked_trace, standardised

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
    return Surrogates(surrogates.shuffled(trace, count, rng), surrogates.autoregressive(trace, count, rng))


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
        surrogates.compare_with_surrogates(number(own), [number(each) for each in kind]) for kind in kinds
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
