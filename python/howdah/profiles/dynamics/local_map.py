"""The map X_{i+1} = M(X_i) and its slope, fitted locally.

At each state a parabola is fitted by weighted least squares (tricube weights) to the k nearest points of the
map (Cleveland, JASA 1979; Fan and Gijbels, 1996). A line would do without noise, but noise asks for many
neighbours, and across many the map bends. k is chosen by leave-one-out error: the largest whose error is
within one standard error of the smallest (Breiman et al., 1984), because the slope needs more smoothing than
the value does.

At most ``KNOTS`` states are fitted, at equal ranks, and the rest interpolated.

Noise of observation, told from noise that moves the state, and taken out.

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
from numpy.typing import NDArray

from howdah.profiles.dynamics.traces import Trace

SHARES = (0.1, 0.15, 0.2, 0.3, 0.45, 0.65, 0.85)
"""Neighbours tried, as shares of all points."""
LEAST_NEIGHBOURS = 10
KNOTS = 120

_RIDGE = 1e-9
"""The ridge keeps neighbourhoods of a few equal states solvable; their slope is then zero."""
_LEAST_FREEDOM = 0.05


class LocalMap(NamedTuple):
    """A fitted map at the n - 1 states of a trace that have a successor, in the order of time."""

    values: NDArray[np.float64]
    slopes: NDArray[np.float64]
    errors: NDArray[np.float64]
    """The next state less what the map says without it (leave-one-out)."""
    neighbours: int


class Forecast(NamedTuple):
    """Shares of variance by leave-one-out errors; a share is below 0 when the map misleads."""

    predictability: float
    """The share of the variance of the next sample that the map explains."""
    nonlinearity: float
    """The share of what the best straight line leaves unexplained that the map explains."""


def fit_map(trace: Trace) -> LocalMap:
    """The map of a trace of shape (n,), n ≥ 12, not constant, of mean near 0 and spread near 1."""
    now, then = trace[:-1], trace[1:]
    knots = _knots(now)
    distances = np.abs(now[None, :] - knots[:, None])
    ranked = np.sort(distances, axis=1)
    counts = sorted({min(now.size, max(LEAST_NEIGHBOURS, round(share * now.size))) for share in SHARES})
    maps = [_fit(now, then, knots, ranked[:, count - 1], count) for count in counts]
    return _smoothest(maps)


def forecast(trace: Trace, fitted: LocalMap) -> Forecast:
    """The forecast of the map of a trace of shape (n,)."""
    left = float(np.mean(fitted.errors**2))
    variance = float(np.var(trace[1:]))
    line = float(np.mean(_line_errors(trace) ** 2))
    return Forecast(1 - left / variance if variance > 0 else 0.0, 1 - left / line if line > 0 else 0.0)


def _line_errors(trace: Trace) -> NDArray[np.float64]:
    """Leave-one-out errors of the least-squares line of the next sample on this one."""
    now, then = trace[:-1] - trace[:-1].mean(), trace[1:] - trace[1:].mean()
    power = float(now @ now)
    slope = float(now @ then) / power if power > 0 else 0.0
    leverage = 1 / now.size + (now * now / power if power > 0 else 0.0)
    errors: NDArray[np.float64] = (then - slope * now) / np.maximum(1 - leverage, _LEAST_FREEDOM)
    return errors


def _knots(states: Trace) -> Trace:
    ordered = np.unique(states)
    if ordered.size <= KNOTS:
        return ordered
    chosen: Trace = ordered[np.linspace(0, ordered.size - 1, KNOTS).round().astype(int)]
    return chosen


def _fit(now: Trace, then: Trace, knots: Trace, reach: Trace, count: int) -> LocalMap:
    reach = np.maximum(reach, _RIDGE) * (1 + _RIDGE)
    heights, inclines, leverages = _parabolas((now[None, :] - knots[:, None]) / reach[:, None], then)
    slopes = inclines / reach
    values = _between(now, knots, heights, slopes)
    leverage = np.interp(now, knots, leverages)
    return LocalMap(
        values=values,
        slopes=np.interp(now, knots, slopes),
        errors=(then - values) / np.maximum(1 - leverage, _LEAST_FREEDOM),
        neighbours=count,
    )


def _parabolas(offsets: NDArray[np.float64], then: Trace) -> tuple[Trace, Trace, Trace]:
    """Height, incline and leverage at offset 0 of the parabola of each knot.

    ``offsets`` are of all states from each knot, shape (knots, states); those beyond 1 have no weight.
    """
    weights = _tricube(np.abs(offsets))
    moments, targets = [], []
    for power in range(5):
        moments.append(weights.sum(axis=1))
        if power < 3:
            targets.append(weights @ then)
        weights = weights * offsets
    normal = np.stack([np.stack(moments[row : row + 3], axis=-1) for row in range(3)], axis=-2)
    normal += _RIDGE * moments[0][:, None, None] * np.eye(3)
    inverse = np.linalg.inv(normal)
    heights, inclines, _ = np.einsum("kpq,qk->pk", inverse, np.array(targets))
    return heights, inclines, inverse[:, 0, 0]


def _tricube(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    # Products, because a power costs ten times as much.
    falling = np.maximum(1 - distances * distances * distances, 0)
    weights: NDArray[np.float64] = falling * falling * falling
    return weights


def _between(states: Trace, knots: Trace, values: Trace, slopes: Trace) -> Trace:
    """Cubic Hermite interpolation."""
    if knots.size == 1:
        return np.full(states.size, values[0])
    left = np.clip(np.searchsorted(knots, states, side="right") - 1, 0, knots.size - 2)
    width = knots[left + 1] - knots[left]
    at = (states - knots[left]) / width
    rise = at * at * (3 - 2 * at)
    result: Trace = (
        values[left] * (1 - rise)
        + values[left + 1] * rise
        + width * at * (1 - at) * (slopes[left] * (1 - at) - slopes[left + 1] * at)
    )
    return result


def _smoothest(maps: list[LocalMap]) -> LocalMap:
    squares = np.array([each.errors**2 for each in maps])
    excess = squares - squares[squares.mean(axis=1).argmin()]
    allowed = excess.std(axis=1) / np.sqrt(squares.shape[1])
    return maps[int(np.flatnonzero(excess.mean(axis=1) <= allowed)[-1])]


PASSES = 12
_STEP = 0.7
"""The share of the way to the new trajectory in each pass: the map is only linear nearby."""
_MOST_TRUST = 50.0
"""The largest weight of a step of the map against one observation keeps the system well conditioned."""


_LEAST_PREDICTABILITY = 0.2
_MOST_VARIANCE = 0.04
"""The limits for taking noise out of a trace of variance 1. Where the map explains less than a fifth, or
noise has more than a fifth of the spread, taking it out would make a map of what is independent."""
_ROUNDING = 1e-12
"""A variance, of a trace of variance 1, that is rounding."""


class Denoised(NamedTuple):
    """A trace without its noise of observation, in the trace's unit."""

    trace: Trace
    map: LocalMap
    forecast: Forecast
    """The forecast of the trace as observed: noise that was taken out must not make it look more certain."""
    noise: float
    """Standard deviation of the noise of observation; 0 when none shows."""


def denoised(trace: Trace) -> Denoised:
    """A trace of shape (n,) as ``local_map.fit_map`` takes it, without the noise of observation it shows."""
    fitted = fit_map(trace)
    foretold = forecast(trace, fitted)
    variance = min(observational_variance(fitted.errors, fitted.slopes), _MOST_VARIANCE)
    state = trace
    if variance == 0 or foretold.predictability < _LEAST_PREDICTABILITY:
        return Denoised(state, fitted, foretold, 0.0)
    trust = variance / max(_dynamical_variance(fitted, variance), variance / _MOST_TRUST)
    for _ in range(PASSES):
        state = state + _STEP * (trajectory(trace, state, fitted, trust) - state)
        fitted = fit_map(state)
        # The first map is too flat to see all of the noise.
        seen = observational_variance(_observed_errors(trace, state, fitted), fitted.slopes)
        variance = min(max(variance, seen), _MOST_VARIANCE)
        trust = variance / max(float(np.mean(fitted.errors**2)), variance / _MOST_TRUST)
    return Denoised(state, fitted, foretold, float(np.sqrt(variance)))


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
    """The trajectory that fits a map M, linear around ``state``.

    It is the argmin over x of Σ (observed - x)² + trust Σ (x_{i+1} - M(x_i))².
    """
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
