"""Synthetic profiles whose transition RTT is known, made without the code that looks for it.

Only the true means at the measured RTTs can tell a profile, so those define where it turns: they bend
down until one RTT and up from the next, which is the transition RTT; the last RTT where they never bend
up, the first where they never bend down. (The second RTT is none: two points are always concave.)

A turn that noise hides is no fair question. Two profiles Δ standard errors apart can be told by no rule
more often than Φ(Δ/2), so a profile counts as tellable when all that turn elsewhere are 3.29 or more away,
where that is 95 %.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
"""Scaled means at RTTS_S, of a curve that turns at the RTT of this number."""

RTTS_S = np.array([0.4, 11.8, 22.6, 45.6, 91.6, 183.0, 366.0]) / 1e3
CAPACITY_BPS = 10e9
SIGMA = 0.04
"""Of one run, as a share of the mean."""
REPEATS = 10
TURNS = (2, 3, 4, 5)
TELLABLE = 2 * 1.6449


class Family(NamedTuple):
    """Curves of one kind."""

    name: str
    draw: Draw


def turn(means: Floats) -> int:
    """The number of the transition RTT of these true means."""
    bends = np.diff(np.diff(means) / np.diff(RTTS_S))
    flat = 1e-9 * np.abs(bends).max(initial=1.0)
    if np.all(bends <= flat):
        return len(means) - 1
    down = np.flatnonzero(bends < -flat)
    return int(down[-1]) + 2 if len(down) else 0


def distance(means: Floats) -> float:
    """To the nearest means that turn elsewhere, in standard errors of measured means."""
    errors = np.maximum(means, 1e-6 * means.max()) * SIGMA / np.sqrt(REPEATS)
    line = np.stack([np.ones_like(means), RTTS_S], axis=1)
    hinges = np.maximum(RTTS_S[:, None] - RTTS_S[1:-1], 0) / np.ptp(RTTS_S)
    found = []
    for bends in range(len(means) - 1):
        if (bends + 1 if bends else 0) == turn(means):
            continue
        signed = np.where(np.arange(hinges.shape[1]) < bends, -hinges, hinges)
        columns = np.hstack([line, -line, signed]) / errors[:, None]
        found.append(nnls(columns, means / errors)[1])
    return float(min(found))


def runs(means: Floats, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """RTTs and rates of REPEATS runs at each, in b/s."""
    rates = CAPACITY_BPS * means * (1 + SIGMA * generator.standard_normal((REPEATS, len(means))))
    return np.tile(RTTS_S, REPEATS), rates.ravel()


def _between(generator: np.random.Generator, low: float, high: float) -> float:
    """Evenly spread in the logarithm."""
    return float(np.exp(generator.uniform(np.log(low), np.log(high))))


def sigmoid_pair(generator: np.random.Generator, at: int) -> Floats:
    """The paper's: two flipped sigmoids that meet at ½."""
    turn_s = RTTS_S[at]
    before, after = (_between(generator, 1.5, 8) / turn_s for _ in range(2))
    slope = np.where(turn_s >= RTTS_S, before, after)
    return np.asarray(1 / (1 + np.exp(slope * (RTTS_S - turn_s))))


def hill(generator: np.random.Generator, at: int) -> Floats:
    """top / (1 + (τ/τ₀)^p), whose inflection is at τ₀ ((p − 1)/(p + 1))^(1/p)."""
    power = generator.uniform(1.5, 5)
    middle = RTTS_S[at] / ((power - 1) / (power + 1)) ** (1 / power)
    return np.asarray(generator.uniform(0.7, 1) / (1 + (RTTS_S / middle) ** power))


def gaussian(generator: np.random.Generator, at: int) -> Floats:
    """A half bell over a floor, whose inflection is at its standard deviation."""
    floor = generator.uniform(0, 0.3)
    top = generator.uniform(0.6, 0.95)
    return np.asarray(floor + (top - floor) * np.exp(-((RTTS_S / RTTS_S[at]) ** 2) / 2))


def ramp_up_then_loss(generator: np.random.Generator, at: int) -> Floats:
    """Section 3 of the paper: 1 − d τ^(1+ε) while the peak is held, then a + b/τ^c with the same slope."""
    lost, faster, power = generator.uniform(0.08, 0.5), generator.uniform(0.3, 2), generator.uniform(0.5, 2)
    share = RTTS_S / RTTS_S[at]
    least = min(lost * (1 + faster) / power, 0.98 * (1 - lost))
    after = 1 - lost - least + least * share**-power
    return np.asarray(
        generator.uniform(0.8, 1) * np.where(share <= 1, 1 - lost * share ** (1 + faster), after)
    )


def random_bends(generator: np.random.Generator, at: int) -> Floats:
    """Straight pieces, steepest before the turn and flatter by random factors away from it on both sides."""
    pieces = len(RTTS_S) - 1
    flatter = generator.uniform(0.1, 0.9, pieces)
    steps = np.abs(np.arange(pieces) - (at - 1))
    order = [flatter[min(at - 1, piece) : max(at - 1, piece)].prod() for piece in range(pieces)]
    drops = np.where(steps == 0, 1.0, order) * np.diff(RTTS_S)
    fallen = np.concatenate([[0.0], np.cumsum(drops)]) / drops.sum()
    return np.asarray(generator.uniform(0.8, 1) * (1 - generator.uniform(0.3, 0.95) * fallen))


def buffer_limited(generator: np.random.Generator, _: int) -> Floats:
    """The link's share that a ramp-up leaves, or n B / τ where that is less; the knee lies anywhere."""
    knee = _between(generator, RTTS_S[1], RTTS_S[5])
    return np.asarray(np.minimum(1 - generator.uniform(0, 0.3) * RTTS_S / RTTS_S[-1], knee / RTTS_S))


def _whole(curve: Callable[[np.random.Generator], Floats]) -> Draw:
    return lambda generator, _: curve(generator)


def _ramp_up(generator: np.random.Generator) -> Floats:
    return np.asarray(1 - generator.uniform(0.1, 0.95) * RTTS_S / RTTS_S[-1])


def _faster_ramp_up(generator: np.random.Generator) -> Floats:
    lost, faster = generator.uniform(0.1, 0.9), generator.uniform(0.1, 2)
    return np.asarray(1 - lost * (RTTS_S / RTTS_S[-1]) ** (1 + faster))


def _cosine(generator: np.random.Generator) -> Floats:
    depth = generator.uniform(0.1, 0.9)
    return np.asarray(1 - depth + depth * np.cos(np.pi / 2 * RTTS_S / RTTS_S[-1]))


def _loss(generator: np.random.Generator) -> Floats:
    power = generator.uniform(0.3, 1.2)
    floor, top = generator.uniform(0, 0.1), generator.uniform(0.3, 0.9)
    return np.asarray(floor + top * (RTTS_S[0] / RTTS_S) ** power)


def _hyperbola(generator: np.random.Generator) -> Floats:
    return np.asarray(1 / (1 + RTTS_S / _between(generator, 2e-3, 0.3)))


def _exponential(generator: np.random.Generator) -> Floats:
    floor, top = generator.uniform(0, 0.2), generator.uniform(0.5, 0.8)
    return np.asarray(floor + top * np.exp(-RTTS_S / _between(generator, 0.01, 0.25)))


SIGMOID_PAIRS = Family("sigmoid pairs", sigmoid_pair)
TURNING = (
    SIGMOID_PAIRS,
    Family("Hill curves", hill),
    Family("half bells", gaussian),
    Family("ramp-up, then a + b/τ^c", ramp_up_then_loss),
    Family("random bends", random_bends),
    Family("buffer-limited", buffer_limited),
)
CONCAVE = (
    Family("C (1 − τ log C / T)", _whole(_ramp_up)),
    Family("C (1 − τ^(1+ε) log C / T)", _whole(_faster_ramp_up)),
    Family("cosine", _whole(_cosine)),
)
CONVEX = (
    Family("a + b/τ^c", _whole(_loss)),
    Family("1 / (1 + τ/τ₀)", _whole(_hyperbola)),
    Family("exponential", _whole(_exponential)),
)
