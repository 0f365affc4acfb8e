"""One-dimensional maps whose Lyapunov exponents are known, with noise of both kinds, and noise alone."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Trace = NDArray[np.float64]

_SETTLING_STEPS = 300
_JITTER = 1e-12
"""Keeps maps whose slope is a power of two from running out of binary digits."""


class Map(NamedTuple):
    """A map of an interval into itself."""

    next: Callable[[float], float]
    slope: Callable[[float], float]
    low: float
    high: float
    exponent: float
    """Of the map without noise, in nats per step."""


MAPS = {
    "logistic": Map(lambda x: 4 * x * (1 - x), lambda x: 4 - 8 * x, 0.0, 1.0, np.log(2)),
    "logistic, r = 3.8": Map(lambda x: 3.8 * x * (1 - x), lambda x: 3.8 - 7.6 * x, 0.0, 1.0, 0.432),
    "skew tent": Map(
        lambda x: x / 0.7 if x < 0.7 else (1 - x) / 0.3,
        lambda x: 1 / 0.7 if x < 0.7 else -1 / 0.3,
        0.0,
        1.0,
        -0.7 * np.log(0.7) - 0.3 * np.log(0.3),
    ),
    "Chebyshev, degree 3": Map(lambda x: 4 * x**3 - 3 * x, lambda x: 12 * x**2 - 3, -1.0, 1.0, np.log(3)),
}


class Orbit(NamedTuple):
    """A trace and the mean of ln|slope| along the states it was made from."""

    trace: Trace
    exponent: float


def orbit(
    system: Map, rng: np.random.Generator, samples: int, *, observational: float = 0.0, dynamical: float = 0.0
) -> Orbit:
    """A trace of shape (samples,) from a random start, on its attractor.

    Both noises are normal, their standard deviations shares of the orbit's own without noise: observational
    is added to what is seen, dynamical to the state at each step, reflected into the interval.
    """
    start = _steps(system, rng.uniform(system.low, system.high), rng, _SETTLING_STEPS, _JITTER)
    spread = float(start.std())
    states = _steps(system, float(start[-1]), rng, samples, max(dynamical * spread, _JITTER))
    slopes = np.array([system.slope(float(each)) for each in states])
    seen = states + observational * spread * rng.normal(size=samples)
    return Orbit(seen, float(np.log(np.maximum(np.abs(slopes), _JITTER)).mean()))


def _steps(system: Map, state: float, rng: np.random.Generator, count: int, noise: float) -> Trace:
    states = np.empty(count)
    for step, kick in enumerate(rng.normal(scale=noise, size=count)):
        states[step] = state
        moved = system.next(state) + kick
        reflected = system.low + abs(moved - system.low)
        state = system.high - abs(system.high - reflected)
    return states


def autoregressive(rng: np.random.Generator, samples: int, coefficient: float) -> Trace:
    """A stationary Gaussian AR(1) process of shape (samples,)."""
    values = rng.normal(size=samples)
    values[0] /= np.sqrt(1 - coefficient**2)
    for step in range(1, samples):
        values[step] += coefficient * values[step - 1]
    return values


Process = Callable[[np.random.Generator, int], Trace]
NOISE: dict[str, Process] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "Student, 2 degrees": lambda rng, n: rng.standard_t(2, size=n),
}
LINEAR: dict[str, Process] = {
    f"AR(1), {coefficient:g}": partial(autoregressive, coefficient=coefficient)
    for coefficient in (0.5, 0.9, -0.6)
}
