import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from howdah import HowdahError
from howdah.profiles.selection.answer import (
    covering_bound,
    lower_prediction_bound,
    median_confidence,
    median_interval,
)

RATES = st.lists(st.floats(1e6, 1e10), min_size=2, max_size=40).map(np.array)


def test_ten_repeats_by_hand() -> None:
    ten = np.arange(10.0, 0.0, -1.0)
    found = median_interval(ten)
    assert (found.low, found.high, found.rank) == (2.0, 9.0, 2)
    assert found.confidence == pytest.approx(0.979, abs=5e-4)
    assert lower_prediction_bound(ten) == (1.0, pytest.approx(10 / 11))


@given(st.integers(2, 200), st.data())
def test_the_confidence_of_an_interval_is_the_exact_binomial(n: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, n // 2))
    assert median_confidence(n, rank) == pytest.approx(1 - 2 * stats.binom.cdf(rank - 1, n, 0.5), abs=1e-12)


@given(RATES, st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_the_interval_is_the_narrowest_that_suffices(rates: np.ndarray, confidence: float) -> None:
    n, found = len(rates), median_interval(rates, confidence)
    assert found.low <= np.median(rates) <= found.high
    if found.confidence < confidence:
        assert found.rank == 1
    if found.rank < n // 2:
        assert median_confidence(n, found.rank + 1) < confidence


@pytest.mark.parametrize("n", [3, 5, 10, 40])
def test_the_median_is_held_as_often_as_said_whatever_the_distribution(n: int) -> None:
    rng = np.random.default_rng(7)
    draws = rng.pareto(1.5, (4000, n))
    median = 2 ** (1 / 1.5) - 1
    found = [median_interval(each, 0.9) for each in draws]
    held = np.mean([each.low <= median <= each.high for each in found])
    assert held == pytest.approx(found[0].confidence, abs=4 * 0.5 / 4000**0.5)


@pytest.mark.parametrize("n", [1, 3, 10, 19, 20, 100])
def test_the_next_run_reaches_its_bound_as_often_as_said(n: int) -> None:
    rng = np.random.default_rng(8)
    draws = rng.lognormal(0, 2, (4000, n + 1))
    bounds = [lower_prediction_bound(each[:-1], 0.95) for each in draws]
    reached = np.mean([each[-1] >= bound.low for each, bound in zip(draws, bounds, strict=True)])
    assert reached == pytest.approx(bounds[0].confidence, abs=4 * 0.5 / 4000**0.5)
    assert (bounds[0].confidence >= 0.95 - 1e-12) == (n >= 19)


def test_the_bound_of_the_paper_says_nothing_for_any_sweep() -> None:
    bound = covering_bound(1890, epsilon=1, capacity_gbps=10)
    assert bound.vacuous
    assert bound.log10_probability > 100
    assert 2.5e5 < bound.runs_needed < 3.5e5


@given(st.floats(0.05, 1), st.floats(1, 100))
def test_it_says_something_from_the_number_of_runs_told_and_not_before(share: float, capacity: float) -> None:
    epsilon = share * capacity
    needed = covering_bound(1, epsilon=epsilon, capacity_gbps=capacity).runs_needed
    assert not covering_bound(needed, epsilon=epsilon, capacity_gbps=capacity).vacuous
    assert not covering_bound(3 * needed, epsilon=epsilon, capacity_gbps=capacity).vacuous
    assert needed == 1 or covering_bound(needed - 1, epsilon=epsilon, capacity_gbps=capacity).vacuous


def test_as_printed_it_would_be_sure_after_two_runs() -> None:
    assert covering_bound(1, epsilon=1, capacity_gbps=10, as_printed=True).runs_needed == 2
    finer = covering_bound(2, epsilon=0.5, capacity_gbps=10, as_printed=True)
    coarser = covering_bound(2, epsilon=1, capacity_gbps=10, as_printed=True)
    assert finer.log10_probability < coarser.log10_probability, "the finer claim is the surer: the slip"


@pytest.mark.parametrize(
    ("values", "says"), [([1.0], "too few"), ([1.0, np.nan], "run 2 of 2"), ([np.inf, 1.0], "run 1 of 2")]
)
def test_what_cannot_be_bounded_is_refused(values: list[float], says: str) -> None:
    with pytest.raises(HowdahError, match=says):
        median_interval(np.array(values))


@pytest.mark.parametrize(("n", "epsilon"), [(0, 1.0), (10, 0.0), (10, 11.0)])
def test_no_bound_outside_its_range(n: int, epsilon: float) -> None:
    with pytest.raises(HowdahError, match="at least one run"):
        covering_bound(n, epsilon=epsilon, capacity_gbps=10)
