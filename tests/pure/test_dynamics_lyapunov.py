"""Lyapunov exponents of systems that have known ones."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bench.maps import MAPS, NOISE, Orbit, autoregressive, orbit
from howdah import HowdahError
from howdah.profiles.dynamics import local_map
from howdah.profiles.dynamics.lyapunov import Exponents, exponents, rosenstein
from howdah.profiles.dynamics.traces import Undetermined, standardised

SAMPLES = 100
LOGISTIC = MAPS["logistic"]
LN_2 = np.log(2)


def found(trace: np.ndarray) -> Exponents:
    result = exponents(trace)
    assert isinstance(result, Exponents)
    return result


def orbits(system: str, count: int, **levels: float) -> list[Orbit]:
    return [orbit(MAPS[system], np.random.default_rng(seed), SAMPLES, **levels) for seed in range(count)]


def estimates(traces: list[Orbit]) -> tuple[np.ndarray, np.ndarray]:
    """Local and Rosenstein's exponents of each."""
    both = np.array([found(each.trace)[:2] for each in traces])
    return both[:, 0], both[:, 1]


def test_each_trace_without_noise_gives_ln_2() -> None:
    for values in estimates(orbits("logistic", 40)):
        np.testing.assert_allclose(values, LN_2, atol=0.1)


@pytest.mark.parametrize("level", [0.02, 0.05, 0.1])
def test_noise_of_observation_leaves_ln_2(level: float) -> None:
    for values in estimates(orbits("logistic", 40, observational=level)):
        assert values.mean() == pytest.approx(LN_2, abs=0.1)
        assert np.mean(np.abs(values - LN_2) <= 0.1) >= 0.75


@pytest.mark.parametrize("level", [0.05, 0.1])
def test_noise_in_the_dynamics_gives_the_exponent_along_the_states(level: float) -> None:
    traces = orbits("logistic", 30, dynamical=level)
    own = np.array([each.exponent for each in traces])
    local, diverging = estimates(traces)
    assert np.abs(local - own).mean() < 0.06
    assert diverging.mean() == pytest.approx(LN_2, abs=0.1)


@pytest.mark.parametrize("system", [each for each in MAPS if each != "logistic"])
def test_other_maps_give_their_own_exponents(system: str) -> None:
    for level in (0.0, 0.05):
        local, _ = estimates(orbits(system, 20, observational=level))
        assert local.mean() == pytest.approx(MAPS[system].exponent, abs=0.1)


@pytest.mark.parametrize("coefficient", [0.3, 0.6, -0.6, 0.9])
def test_a_linear_process_gives_the_logarithm_of_its_coefficient(coefficient: float) -> None:
    traces = [autoregressive(np.random.default_rng(seed), 400, coefficient) for seed in range(12)]
    local = [found(each).local for each in traces]
    assert np.median(local) == pytest.approx(np.log(abs(coefficient)), abs=0.3)


def test_the_slope_of_the_map_is_found_where_it_is() -> None:
    trace = orbits("logistic", 1)[0].trace
    result = found(trace)
    np.testing.assert_allclose(result.states, trace[:-1], atol=1e-6)
    exact = np.log(np.abs([LOGISTIC.slope(each) for each in trace[:-1]]))
    steep = exact > 0
    np.testing.assert_allclose(result.local_at_states[steep], exact[steep], atol=0.05)
    assert result.local == pytest.approx(result.local_at_states.mean())


def test_the_two_naive_forms_are_as_wrong_as_the_module_says() -> None:
    trace = orbits("logistic", 1)[0].trace
    steps = np.diff(trace)
    telescoping = np.log(np.abs(steps[1:] / steps[:-1])).mean()
    assert abs(telescoping) < 0.1
    independent = np.random.default_rng(2).uniform(size=SAMPLES)
    order = independent[:-1].argsort()
    neighbours = np.diff(independent[1:][order]) / np.diff(independent[:-1][order])
    assert np.log(np.abs(neighbours)).mean() > 3
    assert found(independent).local < 0


@pytest.mark.parametrize("kind", ["observational", "dynamical"])
def test_the_two_kinds_of_noise_are_told_apart(kind: str) -> None:
    traces = orbits("logistic", 30, **{kind: 0.05})
    shares = [found(each.trace).noise / each.trace.std() for each in traces]
    if kind == "observational":
        assert np.median(shares) == pytest.approx(0.05, abs=0.015)
    else:
        assert np.median(shares) < 0.015


def test_taking_noise_out_brings_the_trace_nearer_to_its_orbit() -> None:
    for seed in range(15):
        clean = orbit(LOGISTIC, np.random.default_rng(seed), SAMPLES).trace
        seen = clean + 0.05 * clean.std() * np.random.default_rng(seed + 1000).normal(size=SAMPLES)
        result = found(seen)
        assert np.std(result.states - clean[:-1]) < 0.9 * np.std(seen - clean)


def test_independent_values_are_not_cleaned_into_a_map() -> None:
    rng = np.random.default_rng(12)
    results = [found(rng.permutation(each.trace)) for each in orbits("logistic", 30)]
    assert sum(each.noise > 0 for each in results) <= 2
    assert sum(each.local > 0 for each in results) <= 2


@settings(max_examples=25)
@given(st.floats(1e-3, 1e9), st.floats(-10, 10), st.integers(0, 20))
def test_units_do_not_matter(unit: float, offset: float, seed: int) -> None:
    trace = orbit(LOGISTIC, np.random.default_rng(seed), 60, observational=0.05).trace
    np.testing.assert_allclose(found((trace + offset) * unit)[:2], found(trace)[:2], atol=1e-4)


def test_the_map_of_a_line_is_the_line() -> None:
    rng = np.random.default_rng(4)
    trace = standardised(autoregressive(rng, 300, 0.8))
    fitted = local_map.fit_map(trace)
    assert fitted.neighbours == round(local_map.SHARES[-1] * 299)
    slope = np.polyfit(trace[:-1], trace[1:], 1)[0]
    assert np.median(fitted.slopes) == pytest.approx(slope, abs=0.1)
    forecast = local_map.forecast(trace, fitted)
    assert forecast.predictability == pytest.approx(0.64, abs=0.12)
    assert forecast.nonlinearity == pytest.approx(0, abs=0.05)


def test_fitting_at_knots_is_fitting_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = standardised(orbit(LOGISTIC, np.random.default_rng(1), 500, dynamical=0.05).trace)
    few = local_map.fit_map(trace)
    monkeypatch.setattr(local_map, "KNOTS", 500)
    every = local_map.fit_map(trace)
    np.testing.assert_allclose(few.values, every.values, atol=0.01)
    np.testing.assert_allclose(few.slopes, every.slopes, atol=0.05)


def test_the_trajectory_is_the_least_squares_one() -> None:
    rng = np.random.default_rng(6)
    observed, state = rng.normal(size=(2, 40))
    fitted = local_map.LocalMap(rng.normal(size=39), rng.normal(size=39), np.zeros(39), 10)
    trust = 3.0
    steps = np.zeros((39, 40))
    rows = np.arange(39)
    steps[rows, rows + 1] = 1
    steps[rows, rows] = -fitted.slopes
    design = np.vstack((np.eye(40), np.sqrt(trust) * steps))
    target = np.r_[observed, np.sqrt(trust) * (fitted.values - fitted.slopes * state[:-1])]
    expected = np.linalg.lstsq(design, target, rcond=None)[0]
    np.testing.assert_allclose(local_map.trajectory(observed, state, fitted, trust), expected, atol=1e-9)


@given(st.integers(0, 1000), st.sampled_from([0, 1, 4, 12]))
@settings(max_examples=20)
def test_rosensteins_exponent_is_its_definition(seed: int, window: int) -> None:
    trace = autoregressive(np.random.default_rng(seed), 50, 0.9)
    pairs = list(itertools.pairwise(trace))
    followed = len(pairs) - 5
    curves = []
    for one in range(followed):
        others = [other for other in range(followed) if abs(one - other) > window]
        nearest = min(others, key=lambda other: math.dist(pairs[one], pairs[other]))
        curves.append([math.log(math.dist(pairs[one + step], pairs[nearest + step])) for step in range(6)])
    expected = np.polyfit(range(6), np.mean(curves, axis=0), 1)[0]
    assert rosenstein(trace, window) == pytest.approx(expected)


def test_a_positive_exponent_alone_is_no_evidence() -> None:
    for make in NOISE.values():
        assert found(make(np.random.default_rng(0), SAMPLES)).rosenstein > 0.2


@given(
    arrays(
        float, st.integers(30, 60), elements=st.one_of(st.sampled_from([0.0, 1.0, 9.4e9]), st.floats(0, 1e11))
    )
)
def test_any_trace_has_exponents_or_a_reason(trace: np.ndarray) -> None:
    result = exponents(trace)
    if isinstance(result, Undetermined):
        assert result.reason
    else:
        assert np.isfinite(result[:2]).all()
        assert np.isfinite(result.local_at_states).all()


def test_traces_of_which_nothing_can_be_said() -> None:
    assert exponents(np.arange(10)) == Undetermined("10 samples, and 30 are needed")
    assert exponents(np.full(100, 9.4e9)) == Undetermined("the trace is constant")
    for spike in (0, 49):
        trace = np.where(np.arange(50) == spike, 0.0, 9.4e9)
        assert exponents(trace) == Undetermined("neighbouring states meet and do not part")
    assert rosenstein(np.arange(9.0)) == Undetermined(
        "9 samples leave no neighbours outside a Theiler window of 1"
    )
    with pytest.raises(HowdahError, match="sample 5 of the trace is nan"):
        exponents(np.where(np.arange(100) == 5, np.nan, 1.0))
