"""Throughput against exponent: Spearman's correlation and its interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from howdah import HowdahError
from howdah.profiles.dynamics.lyapunov import Relation, relation
from howdah.profiles.dynamics.traces import Undetermined, mean_ranks, normal_scores

few = st.integers(-5, 5).map(float)


@given(st.lists(few, min_size=1, max_size=40))
def test_ranks_are_scipys(values: list[float]) -> None:
    np.testing.assert_allclose(mean_ranks(np.array(values)), stats.rankdata(values))
    scores = stats.norm.ppf((stats.rankdata(values) - 0.5) / len(values))
    np.testing.assert_allclose(normal_scores(np.array(values)), scores, atol=1e-12)


@given(st.lists(st.tuples(few, few), min_size=5, max_size=40))
def test_the_correlation_is_scipys(pairs: list[tuple[float, float]]) -> None:
    exponents, rates = np.array(pairs).T
    found = relation(exponents, rates)
    if np.ptp(exponents) == 0 or np.ptp(rates) == 0:
        assert isinstance(found, Undetermined)
        return
    assert isinstance(found, Relation)
    assert found.correlation == pytest.approx(stats.spearmanr(exponents, rates).statistic, abs=1e-12)
    assert -1 <= found.low <= found.correlation <= found.high <= 1


@pytest.mark.parametrize("runs", [10, 40])
@pytest.mark.parametrize("pearson", [0.0, -0.6, 0.9])
def test_the_interval_holds_the_truth_as_often_as_it_says(runs: int, pearson: float) -> None:
    rng = np.random.default_rng(11)
    truth = 6 / np.pi * np.arcsin(pearson / 2)
    trials = 1500
    held = 0
    for one, other in rng.normal(size=(trials, 2, runs)):
        found = relation(one, pearson * one + np.sqrt(1 - pearson**2) * other)
        assert isinstance(found, Relation)
        held += found.low <= truth <= found.high
    assert 0.925 <= held / trials <= 0.985


def test_runs_of_an_unknown_exponent_are_left_out() -> None:
    falling = relation(np.r_[np.arange(10.0), np.nan], np.r_[-np.arange(10.0), 7.0])
    rising = relation(np.arange(10.0), np.arange(10.0))
    assert isinstance(falling, Relation)
    assert isinstance(rising, Relation)
    assert (falling.correlation, falling.runs, falling.decreasing) == (pytest.approx(-1), 10, True)
    assert (rising.correlation, rising.decreasing) == (pytest.approx(1), False)
    assert falling.high > -1
    assert relation([0.0], [1.0]) == Undetermined("1 run with an exponent, and 5 are needed")


def test_nothing_is_said_of_the_sign_while_the_interval_holds_zero() -> None:
    found = relation([1, 2, 3, 4, 5, 6], [1, 3, 2, 6, 4, 2])
    assert isinstance(found, Relation)
    assert found.low < 0 < found.high
    assert found.decreasing is None


def test_columns_that_do_not_fit() -> None:
    with pytest.raises(HowdahError, match="one of each for each run"):
        relation([1, 2, 3], [1, 2])
    with pytest.raises(HowdahError, match="run 1 is not finite"):
        relation([1, 2, 3], [1, float("inf"), 2])
    with pytest.raises(HowdahError, match="between 0 and 1"):
        relation([1, 2, 3], [1, 2, 3], confidence=95)
