"""All there is to say of the dynamics of one trace, each number with its reason where there is none."""

from typing import NamedTuple

from numpy.typing import ArrayLike

from howdah.profiles.dynamics import poincare, verdict
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.poincare import MapShape
from howdah.profiles.dynamics.usable import Unknown, checked
from howdah.profiles.dynamics.verdict import ExponentsBeside, Verdict


class Dynamics(NamedTuple):
    """Of the sustained part of one trace."""

    samples: int
    """Of the whole trace."""
    ramp_up_samples: int
    map: MapShape | Unknown
    exponents: Exponents | Unknown
    beside: ExponentsBeside | Unknown
    verdict: Verdict | Unknown


def describe(trace: ArrayLike, seed: int, count: int = verdict.COUNT) -> Dynamics:
    """The dynamics of a trace of shape (n,), with ``count`` surrogates of each kind drawn by ``seed``.

    HowdahError: a trace that is not one row of finite numbers, fewer than 19 surrogates.
    """
    whole = checked(trace)
    part = poincare.sustained(whole)
    ramp_up = whole.size - part.size
    found = exponents(part)
    if isinstance(found, Unknown):
        return Dynamics(whole.size, ramp_up, poincare.shape(part), found, found, found)
    others = verdict.drawn(part, seed, count)
    return Dynamics(
        samples=whole.size,
        ramp_up_samples=ramp_up,
        map=poincare.shape(part),
        exponents=found,
        beside=verdict.exponents_beside(found, others),
        verdict=verdict.judge(found, others),
    )
