"""Noise of observation, told from noise that moves the state, and taken out.

With X_i = x_i + e_i the error of the map at step i is e_{i+1} - M'(x_i) e_i: noise of observation makes
successive errors anti-correlated, which noise in the dynamics does not. So
    var(e) = -Σ error_{i-1} error_i slope_i / Σ slope_i²,
and what the errors have beyond it is of the dynamics. Noise flattens a map fitted to it (errors in
variables), which pulls exponents down; so the trace is replaced by the least-squares trajectory between what
was observed and what the map says, the map is fitted anew, and so on (the idea of Kostelich and Yorke,
Physica D 1990, for a map in one variable).
"""

from typing import NamedTuple

import numpy as np

from howdah.profiles.dynamics import local_map
from howdah.profiles.dynamics.local_map import Forecast, LocalMap
from howdah.profiles.dynamics.usable import Trace

PASSES = 12
_STEP = 0.7
"""Of the way to the new trajectory in each pass: the map is only linear nearby."""
_MOST_TRUST = 50.0
"""Weight of a step of the map against one observation, at most: keeps the system well conditioned."""


_LEAST_PREDICTABILITY = 0.2
_MOST_VARIANCE = 0.04
"""Of a trace of variance 1. Where the map explains less than a fifth, or noise has more than a fifth of the
spread, taking it out would make a map of what is independent."""
_ROUNDING = 1e-12
"""A variance, of a trace of variance 1, that is rounding."""


class Cleaned(NamedTuple):
    """A trace without its noise of observation, in the trace's unit."""

    trace: Trace
    map: LocalMap
    forecast: Forecast
    """Of the trace as observed: noise that was taken out must not make it look more certain."""
    noise: float
    """Standard deviation of the noise of observation; 0 when none shows."""


def cleaned(trace: Trace) -> Cleaned:
    """A trace of shape (n,) as ``local_map.fit`` takes it, without the noise of observation it shows."""
    fitted = local_map.fit(trace)
    forecast = local_map.forecast(trace, fitted)
    variance = min(observational_variance(fitted.errors, fitted.slopes), _MOST_VARIANCE)
    state = trace
    if variance == 0 or forecast.predictability < _LEAST_PREDICTABILITY:
        return Cleaned(state, fitted, forecast, 0.0)
    trust = variance / max(_dynamical_variance(fitted, variance), variance / _MOST_TRUST)
    for _ in range(PASSES):
        state = state + _STEP * (trajectory(trace, state, fitted, trust) - state)
        fitted = local_map.fit(state)
        # The first map is too flat to see all of the noise.
        seen = observational_variance(_observed_errors(trace, state, fitted), fitted.slopes)
        variance = min(max(variance, seen), _MOST_VARIANCE)
        trust = variance / max(float(np.mean(fitted.errors**2)), variance / _MOST_TRUST)
    return Cleaned(state, fitted, forecast, float(np.sqrt(variance)))


def observational_variance(errors: Trace, slopes: Trace) -> float:
    """The variance of the noise of observation; 0 when successive errors of the map do not show any.

    Both of shape (n - 1,), at the states of a trace in the order of time.
    """
    power = float(slopes[1:] @ slopes[1:])
    variance = -float((errors[:-1] * errors[1:]) @ slopes[1:]) / power if power > 0 else 0.0
    return variance if variance > _ROUNDING else 0.0


def _observed_errors(observed: Trace, state: Trace, fitted: LocalMap) -> Trace:
    """Errors of a map, linear around ``state``, on what was observed."""
    errors: Trace = observed[1:] - fitted.values - fitted.slopes * (observed - state)[:-1]
    return errors


def _dynamical_variance(fitted: LocalMap, observational: float) -> float:
    return float(np.mean(fitted.errors**2)) - observational * (1 + float(np.mean(fitted.slopes**2)))


def trajectory(observed: Trace, state: Trace, fitted: LocalMap, trust: float) -> Trace:
    """argmin over x of Σ (observed - x)² + trust Σ (x_{i+1} - M(x_i))², M linear around ``state``."""
    slopes = fitted.slopes
    offsets = fitted.values - slopes * state[:-1]
    diagonal = np.ones(observed.size)
    diagonal[1:] += trust
    diagonal[:-1] += trust * slopes**2
    right = observed.copy()
    right[1:] += trust * offsets
    right[:-1] -= trust * slopes * offsets
    return _solve_tridiagonal(diagonal, -trust * slopes, right)


def _solve_tridiagonal(diagonal: Trace, beside: Trace, right: Trace) -> Trace:
    """Solves a symmetric, positive definite tridiagonal system by elimination."""
    pivots, values, off = diagonal.tolist(), right.tolist(), beside.tolist()
    for row, each in enumerate(off, start=1):
        factor = each / pivots[row - 1]
        pivots[row] -= factor * each
        values[row] -= factor * values[row - 1]
    values[-1] /= pivots[-1]
    for row in range(len(off) - 1, -1, -1):
        values[row] = (values[row] - off[row] * values[row + 1]) / pivots[row]
    return np.array(values)
