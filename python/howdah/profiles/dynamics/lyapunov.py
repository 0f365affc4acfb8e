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
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah.profiles.dynamics.local_map import Forecast, denoised
from howdah.profiles.dynamics.traces import Trace, Undetermined, checked_trace, standardised, why_undetermined

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
