"""The map X_{i+1} = M(X_i) and its slope, fitted locally.

At each state a parabola is fitted by weighted least squares (tricube weights) to the k nearest points of the
map (Cleveland, JASA 1979; Fan and Gijbels, 1996). A line would do without noise, but noise asks for many
neighbours, and across many the map bends. k is chosen by leave-one-out error: the largest whose error is
within one standard error of the smallest (Breiman et al., 1984), because the slope needs more smoothing than
the value does.

At most ``KNOTS`` states are fitted, at equal ranks, and the rest interpolated.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.profiles.dynamics.usable import Trace

SHARES = (0.1, 0.15, 0.2, 0.3, 0.45, 0.65, 0.85)
"""Neighbours tried, as shares of all points."""
LEAST_NEIGHBOURS = 10
KNOTS = 120

_RIDGE = 1e-9
"""Keeps neighbourhoods of a few equal states solvable; their slope is then zero."""
_LEAST_FREEDOM = 0.05


class LocalMap(NamedTuple):
    """A fitted map at the n - 1 states of a trace that have a successor, in the order of time."""

    values: NDArray[np.float64]
    slopes: NDArray[np.float64]
    errors: NDArray[np.float64]
    """What came less what was fitted without it."""
    neighbours: int


class Forecast(NamedTuple):
    """How well this sample tells the next, by leave-one-out errors; below 0 when the map misleads."""

    predictability: float
    """Share of the variance of the next sample that the map explains."""
    nonlinearity: float
    """Share of what the best straight line leaves unexplained that the map explains."""


def fit(trace: Trace) -> LocalMap:
    """The map of a trace of shape (n,), n ≥ 12, not constant, of mean near 0 and spread near 1."""
    now, then = trace[:-1], trace[1:]
    knots = _knots(now)
    distances = np.abs(now[None, :] - knots[:, None])
    ranked = np.sort(distances, axis=1)
    counts = sorted({min(now.size, max(LEAST_NEIGHBOURS, round(share * now.size))) for share in SHARES})
    maps = [_fit(now, then, knots, ranked[:, count - 1], count) for count in counts]
    return _smoothest(maps)


def forecast(trace: Trace, fitted: LocalMap) -> Forecast:
    """What the map of a trace of shape (n,) foretells."""
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
