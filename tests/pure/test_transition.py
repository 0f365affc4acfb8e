"""Transition RTTs: exact least squares, and the issue's synthetic profiles found again."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, least_squares, nnls

from bench.profile import exact, held, look
from bench.profile_families import (
    CONCAVE,
    CONVEX,
    RTTS_S,
    SIGMOID_PAIRS,
    TELLABLE,
    TURNING,
    Family,
    distance,
    turn,
)
from howdah import HowdahError
from howdah.profiles.profile import Profile, Shape, profile
from howdah.profiles.transition import transition
from howdah.profiles.transition.shapes import ConcaveConvex, never_rising, nonnegative
from howdah.profiles.transition.sigmoids import least_squares as fit_logistic
from howdah.profiles.transition.sigmoids import logistic, sigmoids

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(1, 7), st.integers(1, 9))
def test_block_pivoting_is_scipys_nnls(seed: int, columns: int, rows: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(columns + rows, columns))
    targets = generator.normal(size=(6, columns + rows))
    signs = np.where(generator.random((6, columns)) < 0.5, -1.0, 1.0)
    for found, target, sign in zip(nonnegative(matrix, targets, signs), targets, signs, strict=True):
        assert found * sign == pytest.approx(nnls(matrix * sign, target)[0], abs=1e-8)


@given(SEEDS, st.integers(3, 9))
def test_each_regression_is_the_best_of_its_shape(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    rtts = np.cumsum(generator.lognormal(size=count))
    errors, means = generator.lognormal(size=count), generator.normal(size=count) * 5
    regression = ConcaveConvex(rtts, errors)
    misfit = regression.misfit(means[None])[0]
    for bends in range(count - 1):
        fitted = regression.fit(means, bends)
        curved = np.diff(np.diff(fitted) / np.diff(rtts))
        assert np.all(curved[:bends] <= 1e-7)
        assert np.all(curved[bends:] >= -1e-7)
        assert misfit[bends] == pytest.approx(np.sum(((means - fitted) / errors) ** 2), abs=1e-7)
        line = np.stack([np.ones(count), rtts], axis=1)
        hinges = np.maximum(rtts[:, None] - rtts[1:-1], 0) * np.where(np.arange(count - 2) < bends, -1, 1)
        least = nnls(np.hstack([line, -line, hinges]) / errors[:, None], means / errors)[1]
        assert misfit[bends] == pytest.approx(least**2, abs=1e-6)


@given(SEEDS, st.integers(1, 12))
def test_the_monotone_regression_is_scipys(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    means, errors = generator.normal(size=count), generator.lognormal(size=count)
    known = isotonic_regression(means, weights=errors**-2.0, increasing=False).x
    assert never_rising(means, errors) == pytest.approx(known)


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 8))
@example(238, 3)
@example(735, 3)
@example(4696, 8)
def test_the_logistic_fit_is_no_worse_than_scipys_from_many_starts(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    places = np.cumsum(generator.lognormal(size=count))
    places -= places[0]
    series = np.clip(np.sort(generator.uniform(0.3, 1.1, count)), 0, 1)
    found = fit_logistic(places[None], series[None], np.ones((1, count), np.bool_))

    def miss(parameters: np.ndarray) -> np.ndarray:
        return logistic(parameters[0] * places + parameters[1]) - series

    starts = itertools.product((0.1, 3, 30), (0.1, 2))
    least = min(2 * least_squares(miss, start, bounds=([0, 0], [np.inf, np.inf])).cost for start in starts)
    assert found.slope[0, 0] >= 0
    assert found.shift[0, 0] >= 0
    assert found.sse[0, 0] == pytest.approx(
        np.sum(miss(np.array([found.slope[0, 0], found.shift[0, 0]])) ** 2)
    )
    assert found.sse[0, 0] <= least + 1e-5


def noiseless(means: np.ndarray) -> Profile:
    return profile(np.tile(RTTS_S, 2), np.tile(means, 2) * 1e10)


@given(SEEDS, st.integers(1, 5))
def test_a_pair_of_sigmoids_is_found_as_it_was_made(seed: int, at: int) -> None:
    means = SIGMOID_PAIRS.draw(np.random.default_rng(seed), at)
    found = sigmoids(noiseless(means), capacity_bps=1e10)
    assert found.transition_s == RTTS_S[at]
    assert found.predict(RTTS_S) == pytest.approx(means * 1e10, abs=1e6)
    for part, side in ((found.concave, 1), (found.convex, -1)):
        assert part is not None
        assert side * (part.centre_s - found.transition_s) >= -1e-9


def test_as_printed_a_pair_of_sigmoids_turns_where_the_profile_passes_half() -> None:
    means = np.array([0.95, 0.95, 0.95, 0.6, 0.4, 0.38, 0.37])
    assert turn(means) == 3
    assert sigmoids(noiseless(means), capacity_bps=1e10).transition_s == RTTS_S[3]
    assert sigmoids(noiseless(means), capacity_bps=2e10).transition_s < RTTS_S[3]
    assert transition(noiseless(means), draws=50).rtt_s == RTTS_S[3]


@cache
def runs(family: Family, count: int) -> list[dict[str, object]]:
    return list(look(family, count, np.random.default_rng(2017)))


def test_the_known_transition_rtt_is_found_in_95_percent() -> None:
    tellable = [run for family in TURNING for run in runs(family, 24) if run["errors_away"] >= TELLABLE]
    assert len(tellable) > 40
    assert exact(tellable) >= 95
    assert held([run for family in TURNING for run in runs(family, 24)]) >= 88
    assert exact(runs(SIGMOID_PAIRS, 24), "sigmoids_s", "drawn_s") >= 95


@pytest.mark.parametrize(("families", "at"), [(CONCAVE, 6), (CONVEX, 0)], ids=["concave", "convex"])
def test_a_wholly_curved_profile_is_recognised_in_95_percent(families: tuple[Family, ...], at: int) -> None:
    found = [run for family in families for run in runs(family, 24)]
    assert all(run["true_s"] == RTTS_S[at] for run in found)
    assert exact(found) >= 95


def test_what_can_be_told_is_judged_by_the_nearest_profile_that_turns_elsewhere() -> None:
    assert turn(np.array([9, 9, 9, 8, 5, 2, 1]) / 10) == 4
    straight = 1 - RTTS_S
    assert turn(straight) == 6
    assert distance(straight) == pytest.approx(0, abs=1e-6)
    bent = straight.copy()
    bent[0] += 0.1
    assert turn(bent) == 0
    assert 3 < distance(bent) < 0.1 / (0.04 * bent[0] / math.sqrt(10))


@pytest.mark.parametrize("rate", [0.0, 5e9])
def test_a_constant_profile_is_straight_and_makes_no_noise(rate: float) -> None:
    flat = profile(np.tile(RTTS_S, 3), np.full(21, rate))
    found = transition(flat, draws=50)
    assert found.shape is Shape.STRAIGHT
    assert found.interval_s == (RTTS_S[-1], RTTS_S[-1])
    assert found.fitted_bps == pytest.approx(np.full(7, rate))
    assert np.isfinite(sigmoids(flat).predict(RTTS_S)).all()


def test_one_rtt_has_no_transition() -> None:
    with pytest.raises(HowdahError, match="runs at 1 RTT have no transition RTT; measure at three or more"):
        transition(profile([0.01, 0.01], [1e9, 1.1e9]))


def test_the_same_seed_says_the_same() -> None:
    one = profile(np.tile(RTTS_S, 3), np.random.default_rng(1).uniform(1e9, 9e9, 21))
    first, second = transition(one, draws=100, seed=5), transition(one, draws=100, seed=5)
    assert first.shares.tolist() == second.shares.tolist()
    assert first.p_concave == second.p_concave


def test_a_straight_profile_of_few_repeats_is_not_given_a_turn() -> None:
    generator = np.random.default_rng(2)
    found = []
    for seed in range(60):
        rates = np.tile(9e9 - 1e10 * RTTS_S, 2) * (1 + 0.04 * generator.standard_normal(14))
        found.append(transition(profile(np.tile(RTTS_S, 2), rates), draws=50, seed=seed).rtt_s)
    assert np.mean(np.array(found) == RTTS_S[-1]) >= 0.95
