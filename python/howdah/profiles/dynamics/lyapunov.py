"""Lyapunov exponents of a throughput trace, per step (HPDC 2017, section 4.1, figures 13 and 14).

Two estimates, of the same trace without its noise of observation (``local_map.denoised``):

local       the paper's ln|dM/dX|, with the slope of the locally fitted map (``local_map``), averaged over
            the states. The paper does not say how it took the slope. Two naive ways are wrong: the ratio of
            consecutive differences (X_{i+2} - X_{i+1}) / (X_{i+1} - X_i) telescopes to zero on average, and
            differences between sorted neighbours measure the noise.
rosenstein  how fast nearest neighbours part (Rosenstein, Collins and De Luca, Physica D 1993): the slope
            over 0 to 5 steps of the mean logarithm of their distance, in m = 2 delay coordinates. States
            within the Theiler window of each other in time are no neighbours. It saturates at fast
            divergence: an exponent of 1.1 reads as 0.8 with 100 samples.

A positive exponent alone is no evidence of chaos: Rosenstein's is positive for independent noise.
``verdict`` says whether there is.

Throughput is set against them (section 4.2, figure 14) by Spearman's rank correlation. Ranks, because the
paper's claim is that one falls as the other grows, and not along which line. The interval is Fisher's with
the standard error of Bonett and Wright (Psychometrika 2000), which holds its level from ten runs on.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.profiles.dynamics.local_map import Forecast, denoised
from howdah.profiles.dynamics.traces import (
    Trace,
    Undetermined,
    checked_trace,
    mean_ranks,
    standardised,
    why_undetermined,
)
from howdah.text import count

LEAST_SAMPLES = 30
DIMENSION = 2
LENGTH = 5
THEILER_WINDOW = 1
"""The most steps between delay vectors that share a sample."""

_LEAST_SLOPE = 1e-3
"""A contraction by more in one step is counted as this: the logarithm of a slope of zero says nothing."""


class Exponents(NamedTuple):
    """Both estimates, in nats per step of the trace: divide by the bin's seconds for a rate in time."""

    local: float
    rosenstein: float
    states: NDArray[np.float64]
    """The states without noise of observation, in the unit of the trace and the order of time: shape (n -
    1,)."""
    local_at_states: NDArray[np.float64]
    """The local exponents ln|dM/dX| at each state: shape (n - 1,), as figure 13 shows it."""
    noise: float
    """Standard deviation of the noise of observation taken out, in the unit of the trace."""
    forecast: Forecast
    """The forecast of the map before noise is taken out."""


def exponents(trace: ArrayLike) -> Exponents | Undetermined:
    """The exponents of a trace of shape (n,), n ≥ 30, without ramp-up (``poincare.sustained``)."""
    values = checked_trace(trace)
    reason = why_undetermined(values, LEAST_SAMPLES)
    if reason is not None:
        return reason
    clean = denoised(standardised(values))
    at_states = np.log(np.maximum(np.abs(clean.map.slopes), _LEAST_SLOPE))
    divergence = rosenstein(clean.trace)
    if isinstance(divergence, Undetermined):
        return divergence
    return Exponents(
        local=float(at_states.mean()),
        rosenstein=divergence,
        states=clean.trace[:-1] * values.std() + values.mean(),
        local_at_states=at_states,
        noise=clean.noise * float(values.std()),
        forecast=clean.forecast,
    )


def rosenstein(trace: Trace, theiler_window: int = THEILER_WINDOW) -> float | Undetermined:
    """Rosenstein's exponent of a trace of shape (n,), in nats per step, as it is: no noise is taken out."""
    vectors = np.lib.stride_tricks.sliding_window_view(trace, DIMENSION)
    first = np.arange(len(vectors) - LENGTH)
    if first.size <= 2 * theiler_window + 1:
        return Undetermined(
            f"{trace.size} samples leave no neighbours outside a Theiler window of {theiler_window}"
        )
    distances = np.sqrt(sum((each[first, None] - each[None, first]) ** 2 for each in vectors.T))
    near = np.abs(first[:, None] - first[None, :]) <= theiler_window
    # States that are equal to the last bit never part: they are one state.
    distances[near | (distances == 0)] = np.inf
    nearest = distances.argmin(axis=1)
    some = np.isfinite(distances[first, nearest])
    return _slope([_parted(vectors, first[some] + step, nearest[some] + step) for step in range(LENGTH + 1)])


def _parted(vectors: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]) -> float | None:
    """Mean logarithm of the distances that are not zero; None when all are."""
    distances = np.linalg.norm(vectors[one] - vectors[other], axis=1)
    distances = distances[distances > 0]
    return float(np.log(distances).mean()) if distances.size else None


def _slope(curve: list[float | None]) -> float | Undetermined:
    known = [each for each in curve if each is not None]
    if len(known) < len(curve):
        return Undetermined("neighbouring states meet and do not part")
    steps = np.arange(len(known)) - (len(known) - 1) / 2
    return float(steps @ np.array(known) / (steps @ steps))


LEAST_RUNS = 5
CONFIDENCE = 0.95


class Relation(NamedTuple):
    """Spearman's correlation of throughput with exponent; below zero as the paper has it."""

    correlation: float
    low: float
    high: float
    runs: int

    @property
    def decreasing(self) -> bool | None:
        """True where throughput falls as the exponent grows; None while the interval holds zero."""
        return None if self.low <= 0 <= self.high else self.high < 0


def relation(
    exponent: ArrayLike, rate_bps: ArrayLike, confidence: float = CONFIDENCE
) -> Relation | Undetermined:
    """The relation over runs: both of shape (runs,). A run whose exponent is nan (unknown) is left out.

    HowdahError: arrays of unequal length, a rate that is not finite, a confidence outside (0, 1).
    """
    exponents, rates = _columns(exponent, rate_bps)
    if not 0 < confidence < 1:
        raise HowdahError(f"a confidence of {confidence} is not between 0 and 1; take for example 0.95")
    known = np.isfinite(exponents)
    exponents, rates = exponents[known], rates[known]
    if exponents.size < LEAST_RUNS:
        return Undetermined(f"{count(exponents.size, 'run')} with an exponent, and {LEAST_RUNS} are needed")
    if np.ptp(exponents) == 0 or np.ptp(rates) == 0:
        return Undetermined("all runs have the same exponent or the same rate")
    correlation = float(np.corrcoef(mean_ranks(exponents), mean_ranks(rates))[0, 1])
    low, high = _interval(correlation, exponents.size, confidence)
    return Relation(correlation, low, high, exponents.size)


def _columns(exponent: ArrayLike, rate_bps: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    exponents = np.asarray(exponent, dtype=np.float64)
    rates = np.asarray(rate_bps, dtype=np.float64)
    if exponents.ndim != 1 or exponents.shape != rates.shape:
        raise HowdahError(
            f"{exponents.shape} exponents for {rates.shape} rates; give one of each for each run"
        )
    if not np.isfinite(rates).all():
        raise HowdahError(f"the rate of run {int(np.argmin(np.isfinite(rates)))} is not finite; leave it out")
    return exponents, rates


def _interval(correlation: float, runs: int, confidence: float) -> tuple[float, float]:
    # Half of what one exchange of neighbours would take from a perfect order: Fisher's scale ends there.
    most = 1 - 6 / (runs * (runs**2 - 1))
    centre = np.arctanh(np.clip(correlation, -most, most))
    error = np.sqrt((1 + correlation**2 / 2) / (runs - 3))
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * error
    low, high = np.tanh([centre - reach, centre + reach])
    return float(min(low, correlation)), float(max(high, correlation))
