import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.profiles.profile import (
    Shape,
    bootstrap,
    curvature,
    profile,
    profiles,
    second_differences,
    standard_errors,
)

RTTS = st.sampled_from([0.0004, 0.0118, 0.0226, 0.0456])
RATES = st.floats(0, 1e10, allow_subnormal=False)
RUNS = st.lists(st.tuples(st.integers(0, 3), RTTS, RATES), min_size=1, max_size=60)


@given(RUNS)
def test_the_statistics_are_those_of_each_group_and_rtt_alone(runs: list[tuple[int, float, float]]) -> None:
    found = profiles(*(np.array(column) for column in zip(*runs, strict=True)))
    groups = sorted({group for group, _, _ in runs})
    assert len(found) == len(groups)
    for group, one in zip(groups, found, strict=True):
        cells = {rtt: [r for g, t, r in runs if g == group and t == rtt] for g, rtt, _ in runs if g == group}
        assert one.rtt_s.tolist() == sorted(cells)
        for at, rtt in enumerate(sorted(cells)):
            rates = np.array(cells[rtt])
            assert one.runs[at] == len(rates)
            assert one.mean_bps[at] == pytest.approx(rates.mean())
            spread = statistics.stdev(rates) if len(rates) > 1 else np.nan
            assert one.sd_bps[at] == pytest.approx(spread, nan_ok=True, abs=1e-3)
            low, median, high = np.quantile(rates, [0.25, 0.5, 0.75])
            assert one.median_bps[at] == pytest.approx(median)
            assert one.quartiles_bps[at] == pytest.approx([low, high])
            inside = (rates >= low - 1.5 * (high - low)) & (rates <= high + 1.5 * (high - low))
            if high > low:
                assert one.whiskers_bps[at] == pytest.approx([rates[inside].min(), rates[inside].max()])
                assert one.outliers_bps[at] == pytest.approx(np.sort(rates[~inside]))


@pytest.mark.parametrize(
    ("rtt", "rate", "words"),
    [
        (0.01, np.nan, "run 2 of 3 has a rate of nan b/s at an RTT of 10 ms"),
        (0.01, np.inf, "a rate of inf b/s"),
        (0.01, -1.0, "a rate of -1.0 b/s"),
        (np.nan, 1e9, "an RTT of nan s"),
        (0.0, 1e9, "an RTT of 0.0 s"),
    ],
)
def test_what_was_not_measured_is_refused_with_its_place(rtt: float, rate: float, words: str) -> None:
    with pytest.raises(HowdahError, match=words):
        profile([0.02, rtt, 0.02], [1e9, rate, 1e9])


def test_no_runs_and_single_runs_are_refused_in_words() -> None:
    with pytest.raises(HowdahError, match="howdah sweep"):
        profile([], [])
    with pytest.raises(HowdahError, match="measure each at least twice"):
        standard_errors(profile([0.01, 0.02, 0.04], [3e9, 2e9, 1e9]))


def test_standard_errors_lie_between_the_runs_own_and_the_pooled_ones() -> None:
    generator = np.random.default_rng(3)
    rtts = np.repeat([0.01, 0.02, 0.04], 10)
    rates = np.repeat([8e9, 4e9, 1e9], 10) * (
        1 + np.repeat([0.01, 0.04, 0.1], 10) * generator.normal(size=30)
    )
    one = profile(rtts, rates)
    own = one.sd_bps / np.sqrt(10)
    pooled = one.mean_bps * np.sqrt(np.mean((one.sd_bps / one.mean_bps) ** 2) / 10)
    found = standard_errors(one)
    assert np.all((found > np.minimum(own, pooled)) & (found < np.maximum(own, pooled)))


def test_means_drawn_again_spread_as_means_of_new_runs_do() -> None:
    generator = np.random.default_rng(4)
    spreads = [
        bootstrap(profile(np.full(5, 0.01), generator.normal(1e9, 4e7, 5)), 400, generator).var()
        for _ in range(300)
    ]
    assert np.mean(spreads) == pytest.approx(4e7**2 / 5, rel=0.1)


@given(
    st.lists(st.floats(0.5, 3), min_size=2, max_size=6), st.floats(-5, 5), st.floats(-5, 5), st.floats(-5, 5)
)
def test_second_differences_of_a_parabola_are_its_second_derivative(
    gaps: list[float], constant: float, slope: float, square: float
) -> None:
    rtts = np.concatenate([[0.4], 0.4 + np.cumsum(gaps)])
    values = constant + slope * rtts + square * rtts**2
    assert second_differences(rtts, values) == pytest.approx(np.full(len(rtts) - 2, 2 * square), abs=1e-9)


def test_regions_are_where_the_bend_is_beyond_the_noise() -> None:
    rtts = np.array([0.4, 11.8, 22.6, 45.6, 91.6, 183, 366]) / 1e3
    means = np.array([9.5, 9.5, 9.5, 9.4, 7.0, 2.5, 1.0]) * 1e9
    generator = np.random.default_rng(5)
    rates = np.tile(means, 10) * (1 + 0.04 * generator.normal(size=70))
    found = curvature(profile(np.tile(rtts, 10), rates))
    concave, convex = found.regions()[-2:]
    assert (concave.shape, concave.to_s) == (Shape.CONCAVE, 0.0916)
    assert (convex.shape, convex.to_s) == (Shape.CONVEX, 0.366)
    assert found.concave_share[2] == 1
    assert np.all((found.low <= found.value) & (found.value <= found.high))


def test_two_rtts_have_no_curvature() -> None:
    few = profile(np.repeat([0.01, 0.02], 3), [9e9, 8.9e9, 9.1e9, 7e9, 7.2e9, 6.9e9])
    assert curvature(few).regions() == []
