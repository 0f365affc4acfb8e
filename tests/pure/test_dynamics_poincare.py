"""The Poincaré map as numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.maps import autoregressive
from howdah import HowdahError
from howdah.profiles.dynamics import poincare
from howdah.profiles.dynamics.poincare import MapShape
from howdah.profiles.dynamics.traces import Traces, Undetermined

RATE_BPS = 1e9


def shape(trace: np.ndarray) -> MapShape:
    found = poincare.map_shape(trace)
    assert isinstance(found, MapShape)
    return found


def run(*traces: np.ndarray) -> Traces:
    return Traces(0.0, 1.0, np.arange(len(traces)), np.array(traces))


@given(arrays(float, st.integers(5, 60), elements=st.floats(1e6, 1e10)))
def test_the_shape_is_that_of_the_covariance(trace: np.ndarray) -> None:
    found = poincare.map_shape(trace)
    if isinstance(found, Undetermined):
        assert np.ptp(trace) <= 1e-9 * trace.max() or np.ptp(trace[:-1]) == 0
        return
    cloud = poincare.points(trace)
    covariance = np.cov(cloud.T, bias=True)
    turned = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    # A variance of nothing is rounded to 1e-16 of the other one, and may be below 0.
    spreads = np.sqrt(np.diag(turned @ covariance @ turned.T).clip(0)) / trace.mean()
    np.testing.assert_allclose([found.along, found.across], spreads, rtol=1e-6, atol=1e-7)
    variances, axes = np.linalg.eigh(covariance)
    if found.tilt_deg is not None and variances[1] > 1.001 * variances[0]:
        angle_rad = np.radians(45 + found.tilt_deg)
        assert abs(axes[:, 1] @ [np.cos(angle_rad), np.sin(angle_rad)]) == pytest.approx(1, abs=1e-6)
        assert -90 < found.tilt_deg <= 90


@given(
    st.floats(-0.9, 0.9).filter(lambda slope: abs(slope) > 0.3),
    st.floats(0.01, 100),
    st.integers(0, 1000),
)
def test_the_tilt_tells_a_rate_that_persists_from_one_that_turns(
    slope: float, unit: float, seed: int
) -> None:
    trace = RATE_BPS * (10 + autoregressive(np.random.default_rng(seed), 3000, slope))
    found = shape(trace)
    assert found.slope == pytest.approx(slope, abs=0.1)
    assert found.tilt_deg is not None
    assert abs(found.tilt_deg) < 5 if slope > 0 else abs(found.tilt_deg) > 85
    assert (found.along > found.across) == (slope > 0)
    np.testing.assert_allclose(shape(trace * unit)[2:], found[2:], rtol=1e-6, atol=1e-6)


def test_a_straight_ramp_lies_on_the_line() -> None:
    found = shape(np.linspace(1e8, 1e9, 50))
    assert found.tilt_deg == pytest.approx(0)
    assert found.across == pytest.approx(0, abs=1e-9)


def test_the_ramp_up_is_left_out_and_the_rest_is_not() -> None:
    sustained = RATE_BPS * (1 + 0.05 * np.random.default_rng(3).uniform(-1, 1, 80))
    doubling = RATE_BPS / 2.0 ** np.arange(12, 1, -1)
    np.testing.assert_array_equal(poincare.sustained(np.r_[doubling, sustained]), sustained)
    np.testing.assert_array_equal(poincare.sustained(sustained), sustained)


@given(st.integers(2, 10), st.integers(0, 1000))
def test_streams_that_jump_alone_steady_their_aggregate(streams: int, seed: int) -> None:
    rates = RATE_BPS * (1 + 0.01 * np.random.default_rng(seed).normal(size=(streams, 2000)))
    alone = poincare.of_run(run(*rates)).across_ratio
    together = poincare.of_run(run(*[rates[0]] * streams)).across_ratio
    assert alone == pytest.approx(1 / np.sqrt(streams), rel=0.15)
    assert together == pytest.approx(1)


def test_what_has_no_map_says_why() -> None:
    steady = np.full(20, RATE_BPS)
    varying = RATE_BPS * (1 + 0.01 * (np.arange(20) % 3))
    assert poincare.map_shape(steady) == Undetermined("the trace is constant")
    assert poincare.map_shape(varying[:3]) == Undetermined("3 samples, and 4 are needed")
    assert poincare.map_shape(np.r_[np.zeros(19), -1.0]) == Undetermined("the mean rate is not above zero")
    assert poincare.of_run(run(varying)).across_ratio == Undetermined("one stream is its own aggregate")
    assert poincare.of_run(run(varying, steady)).across_ratio == Undetermined("a stream has no map")
    with pytest.raises(HowdahError, match="sample 2 of the trace is nan"):
        poincare.map_shape([1, 2, float("nan"), 4])
    with pytest.raises(HowdahError, match="2 dimensions"):
        poincare.points(np.ones((3, 3)))
