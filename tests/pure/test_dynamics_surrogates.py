"""Surrogates, and verdicts that noise must not pass and chaos must."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.signal import lfilter

from bench.maps import LINEAR, MAPS, NOISE, autoregressive, orbit
from howdah import HowdahError
from howdah.profiles.dynamics import verdict
from howdah.profiles.dynamics.lyapunov import Exponents, exponents
from howdah.profiles.dynamics.traces import Undetermined, standardised
from howdah.profiles.dynamics.verdict import ChaosVerdict, ExponentComparisons, describe

SAMPLES = 100
COUNT = 19
varied = arrays(float, st.integers(30, 80), elements=st.floats(0, 1e10)).filter(
    lambda trace: np.ptp(trace) > 1e-6 * trace.max()
)


def judged(trace: np.ndarray, seed: int) -> ChaosVerdict:
    found = exponents(trace)
    assert isinstance(found, Exponents)
    return verdict.chaos_verdict(found, verdict.draw_surrogates(trace, seed, COUNT))


@given(varied, st.integers(0, 100))
def test_surrogates_have_the_traces_values(trace: np.ndarray, seed: int) -> None:
    drawn = verdict.draw_surrogates(trace, seed, COUNT)
    for kind in drawn:
        assert kind.shape == (COUNT, trace.size)
        np.testing.assert_array_equal(np.sort(kind, axis=1), np.tile(np.sort(trace), (COUNT, 1)))
    np.testing.assert_array_equal(
        drawn.autoregressive, verdict.draw_surrogates(trace, seed, COUNT).autoregressive
    )


def test_the_process_is_found_with_its_order() -> None:
    rng = np.random.default_rng(8)
    coefficients = np.array([0.5, -0.3, 0.4])
    trace = lfilter([1], np.r_[1, -coefficients], rng.normal(scale=2, size=21_000))[1000:]
    found = verdict.autoregression(trace - trace.mean())
    assert found.coefficients.size >= 3
    np.testing.assert_allclose(found.coefficients[:3], coefficients, atol=0.03)
    np.testing.assert_allclose(found.coefficients[3:], 0, atol=0.03)
    assert found.variance == pytest.approx(4, rel=0.03)


def test_the_order_of_independent_noise_is_zero_more_often_than_not() -> None:
    rng = np.random.default_rng(9)
    orders = [verdict.autoregression(rng.normal(size=SAMPLES)).coefficients.size for _ in range(100)]
    assert np.median(orders) == 0


@given(varied)
def test_every_process_is_stationary(trace: np.ndarray) -> None:
    coefficients = verdict.autoregression(standardised(trace)).coefficients
    if coefficients.size:
        assert np.abs(np.roots(np.r_[1, -coefficients])).max() < 1


@pytest.mark.parametrize("amplitude_adjusted", [True, False])
@pytest.mark.parametrize("coefficient", [0.7, -0.5])
def test_surrogates_are_as_correlated_as_the_trace(coefficient: float, amplitude_adjusted: bool) -> None:
    rng = np.random.default_rng(10)
    trace = 5 + autoregressive(rng, 2000, coefficient)
    runs = verdict.autoregressive(trace, 20, rng, amplitude_adjusted=amplitude_adjusted)
    np.testing.assert_allclose(runs.mean(), trace.mean(), atol=0.1)
    np.testing.assert_allclose(runs.std(), trace.std(), rtol=0.1)
    lagged = [np.corrcoef(each[:-1], each[1:])[0, 1] for each in runs]
    assert np.mean(lagged) == pytest.approx(coefficient, abs=0.05)


def test_the_rank_test_counts_ties_against_the_trace() -> None:
    found = verdict.compare_with_surrogates(3.0, [1.0, 2.0, 3.0, 4.0])
    assert (found.p, found.median, found.surrogates) == (3 / 5, 2.5, 4)
    assert verdict.compare_with_surrogates(5.0, np.arange(4)).p == 1 / 5


@pytest.mark.parametrize("distribution", NOISE)
def test_independent_noise_is_not_called_chaotic(distribution: str) -> None:
    verdicts = [
        judged(NOISE[distribution](np.random.default_rng(seed), SAMPLES), seed).chaotic for seed in range(8)
    ]
    assert sum(verdicts) <= 1


def test_a_linear_process_is_more_than_noise_and_no_chaos() -> None:
    for name in LINEAR:
        verdicts = [judged(LINEAR[name](np.random.default_rng(seed), SAMPLES), seed) for seed in range(5)]
        assert sum(each.predictability.shuffled.p <= 0.05 for each in verdicts) >= 4
        assert sum(each.beyond for each in verdicts) <= 1
        assert not any(each.chaotic for each in verdicts)


@pytest.mark.parametrize("kind", ["observational", "dynamical"])
def test_the_logistic_map_is_called_chaotic_under_noise(kind: str) -> None:
    for seed in range(5):
        trace = orbit(MAPS["logistic"], np.random.default_rng(seed), SAMPLES, **{kind: 0.1}).trace
        found = judged(trace, seed)
        assert found.chaotic
        assert found.nonlinearity.autoregressive.p == 1 / (COUNT + 1)


def test_a_trace_is_described_whole() -> None:
    trace = 1e9 * (2 + orbit(MAPS["logistic"], np.random.default_rng(1), SAMPLES).trace)
    ramp = 2e9 * np.linspace(0, 0.8, 9)
    found = describe(np.r_[ramp, trace], seed=4, count=COUNT)
    assert (found.samples, found.ramp_up_samples) == (109, 9)
    assert isinstance(found.exponents, Exponents)
    assert isinstance(found.verdict, ChaosVerdict)
    assert found.verdict.chaotic
    assert isinstance(found.exponent_comparisons, ExponentComparisons)
    assert found.exponent_comparisons.rosenstein.shuffled.p == 1 / (COUNT + 1)
    assert found.exponent_comparisons.rosenstein.shuffled.high < found.exponents.rosenstein


def test_what_cannot_be_described_says_why() -> None:
    short = describe(np.arange(1, 11), seed=1)
    assert isinstance(short.exponents, Undetermined)
    assert "30 are needed" in short.exponents.reason
    constant = describe(np.full(100, 1e9), seed=1)
    assert constant.verdict == constant.map == Undetermined("the trace is constant")
    with pytest.raises(HowdahError, match="sample 0 of the trace is inf"):
        describe([float("inf")] * 50, seed=1)
    with pytest.raises(HowdahError, match="18 surrogates decide nothing"):
        describe(np.random.default_rng(1).normal(10, 1, 50), seed=1, count=18)
    with pytest.raises(HowdahError, match="no surrogates: the trace is constant"):
        verdict.draw_surrogates(np.full(100, 1e9), seed=1)
