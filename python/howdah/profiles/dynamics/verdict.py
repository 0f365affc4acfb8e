"""Whether a trace has dynamics that its surrogates lack, and whether they are chaotic.

The test is made on how well this sample tells the next (Schreiber and Schmitz, Physical Review E 1997,
compare such statistics), not on an exponent: where the map is flat, the logarithm of its slope is an
error's. Against shuffled surrogates it is the predictability. Against autoregressive ones it is what the map
explains beyond a straight line, because the predictability of a slow trace is that of its surrogates only as
far as the process fitted to it is the right one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.profiles.dynamics import local_map, surrogates
from howdah.profiles.dynamics.local_map import Forecast
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.surrogates import Beside
from howdah.profiles.dynamics.usable import Unknown, standardised

COUNT = 39
"""Surrogates of each kind."""
LEVEL = 0.05
LEAST_COUNT = 19
"""With fewer no p reaches the level."""


class Surrogates(NamedTuple):
    """Both kinds, each of shape (count, n)."""

    shuffled: NDArray[np.float64]
    autoregressive: NDArray[np.float64]


class BesideBoth(NamedTuple):
    """A statistic of a trace beside both kinds."""

    shuffled: Beside
    autoregressive: Beside


class Verdict(NamedTuple):
    """What a trace has that its surrogates lack."""

    predictability: BesideBoth
    nonlinearity: BesideBoth
    beyond: bool
    """More predictable than shuffled and less linear than autoregressive surrogates, each at the 5 %
    level."""
    chaotic: bool
    """Beyond its surrogates, and both exponents positive."""


class ExponentsBeside(NamedTuple):
    """Both exponents beside those of the surrogates that have one."""

    local: BesideBoth
    rosenstein: BesideBoth


def drawn(trace: ArrayLike, seed: int, count: int = COUNT) -> Surrogates:
    """Surrogates of a trace of shape (n,), n ≥ 30, that varies. HowdahError otherwise, or for fewer than
    19."""
    if count < LEAST_COUNT:
        raise HowdahError(f"{count} surrogates decide nothing at the 5 % level; take {LEAST_COUNT} or more")
    rng = np.random.default_rng(seed)
    return Surrogates(surrogates.shuffled(trace, count, rng), surrogates.autoregressive(trace, count, rng))


def judge(found: Exponents, others: Surrogates) -> Verdict:
    """The verdict on the trace that has these exponents and surrogates."""
    kinds = [[_forecast(each) for each in kind] for kind in others]
    predictability = BesideBoth(
        *(
            surrogates.beside(found.forecast.predictability, [each.predictability for each in kind])
            for kind in kinds
        )
    )
    nonlinearity = BesideBoth(
        *(
            surrogates.beside(found.forecast.nonlinearity, [each.nonlinearity for each in kind])
            for kind in kinds
        )
    )
    beyond = predictability.shuffled.p <= LEVEL and nonlinearity.autoregressive.p <= LEVEL
    return Verdict(
        predictability, nonlinearity, beyond, chaotic=beyond and found.local > 0 and found.rosenstein > 0
    )


def exponents_beside(found: Exponents, others: Surrogates) -> ExponentsBeside | Unknown:
    """The exponents of the trace beside those of its surrogates. Takes some 10 ms a surrogate of 100
    samples."""
    kinds = [[exponents(each) for each in kind] for kind in others]
    known = [[each for each in kind if isinstance(each, Exponents)] for kind in kinds]
    if not all(known):
        return Unknown("no surrogate of one kind has exponents")
    return ExponentsBeside(
        BesideBoth(*(surrogates.beside(found.local, [each.local for each in kind]) for kind in known)),
        BesideBoth(
            *(surrogates.beside(found.rosenstein, [each.rosenstein for each in kind]) for kind in known)
        ),
    )


def _forecast(trace: NDArray[np.float64]) -> Forecast:
    state = standardised(trace)
    return local_map.forecast(state, local_map.fit(state))
