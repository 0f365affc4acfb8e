"""Interpolation and prediction from the runs of a sweep."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.select_families import FAMILIES, RTT_S, sweep
from howdah import HowdahError
from howdah.archive.runs import Runs
from howdah.profiles.selection.evaluate import draw, evaluate
from howdah.profiles.selection.predict import Interpolation, MedianCurve, Predictor

INNER = RTT_S[1:-1]
REGIMES = {
    "window": lambda rtt_s: 2e6 * 8 / rtt_s,
    "fixed size": lambda rtt_s: 8e9 / (1 + 20 * rtt_s),
    "ramp of a fixed duration": lambda rtt_s: 9e9 * (1 - 1.5 * rtt_s),
    "loss": lambda rtt_s: 1e8 / rtt_s**0.6,
}


def runs_of(rates_bps: dict[float, list[float]]) -> Runs:
    """One configuration, these rates at these RTTs."""
    whole = sweep(FAMILIES["windows"], np.random.default_rng(0), 1)
    rows = [(rtt_s, rate_bps) for rtt_s, rates in rates_bps.items() for rate_bps in rates]
    found = whole[np.zeros(len(rows), np.int64)]
    rtt_s, rate_bps = (np.array(column) for column in zip(*rows, strict=True))
    unknown = np.full(len(rows), np.nan)
    return dataclasses.replace(found, rtt_s=rtt_s, rate_bps=rate_bps, capacity_bps=unknown)


@pytest.mark.parametrize("regime", REGIMES)
def test_each_regime_is_followed_through_the_gap_of_three_rtts(regime: str) -> None:
    rate = REGIMES[regime]
    for left_out in combinations(INNER, 3):
        kept = np.setdiff1d(RTT_S, left_out)
        interpolation = Interpolation([MedianCurve(kept, np.log(rate(kept)))])
        for rtt_s in left_out:
            assert interpolation.at(0, rtt_s).log_rate == pytest.approx(np.log(rate(rtt_s)), abs=0.08)


@given(st.lists(st.floats(7, 23), min_size=2, max_size=7), st.data())
def test_interpolation_stays_between_its_neighbours_and_is_exact_at_them(
    log_rates: list[float], data: st.DataObject
) -> None:
    curve = MedianCurve(RTT_S[: len(log_rates)], np.array(log_rates))
    interpolation = Interpolation([curve])
    left = data.draw(st.integers(0, len(log_rates) - 2))
    rtt_s = data.draw(st.floats(curve.rtt_s[left], curve.rtt_s[left + 1]))
    low, high = sorted(log_rates[left : left + 2])
    assert low - 1e-9 <= interpolation.at(0, rtt_s).log_rate <= high + 1e-9
    at_measured = interpolation.at(0, curve.rtt_s[left])
    assert at_measured.log_rate == pytest.approx(log_rates[left])
    assert at_measured.scale == pytest.approx(0, abs=1e-6)


def test_the_interval_widens_between_rtts_and_with_the_spread_of_runs() -> None:
    def width(spread: float, rtt_s: float) -> float:
        rates = {x: [9e9 * (1 + z * spread) for z in (-1, -0.3, 0.3, 1)] for x in RTT_S.tolist()}
        (found,) = Predictor(runs_of(rates)).at(rtt_s)
        return found.rate_high_bps - found.rate_low_bps

    assert width(0.05, 0.0456) < width(0.05, 0.065)
    assert width(0.05, 0.0456) < width(0.2, 0.0456)


def test_what_the_interval_promises_of_the_next_run_is_kept_at_measured_rtts() -> None:
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(20):
        whole = sweep(FAMILIES["fixed_sizes"], rng, 11)
        next_ones = whole.where(repeat=10)
        predictor = Predictor(whole[whole.repeat < 10])
        for rtt_s in RTT_S:
            predictions = {each.configuration: each for each in predictor.at(float(rtt_s))}
            there = next_ones.where(rtt_s=float(rtt_s))
            for configuration in there.configurations():
                found = predictions[configuration]
                rate_bps = there.where(**configuration._asdict()).rate_bps[0]
                inside.append(found.rate_low_bps <= rate_bps <= found.rate_high_bps)
    # 3780 runs; those of one sweep share its quantiles, so the margin is not that of independent ones.
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("repeats", [3, 10])
def test_at_three_rtts_left_out_the_targets_are_met_on_average(repeats: int) -> None:
    rng = np.random.default_rng(11)
    found = [
        evaluate(runs, left_out)
        for name, family in FAMILIES.items()
        if name != "bumps"
        for runs in (sweep(family, rng, repeats) for _ in range(2))
        for left_out in combinations(INNER.tolist(), 3)
    ]
    assert np.mean([each.share_mean for each in found]) >= 0.95
    assert np.mean([each.error_median for each in found]) <= 0.08
    assert 0.85 <= np.mean([each.coverage for each in found]) <= 0.97


def test_a_choice_is_judged_by_what_was_measured_there() -> None:
    runs = sweep(FAMILIES["losses"], np.random.default_rng(2), 5)
    found = evaluate(runs, [INNER[1]])
    (choice,) = found.choices
    there = runs.where(rtt_s=INNER[1])
    means = {
        configuration: there.where(**configuration._asdict()).rate_bps.mean()
        for configuration in there.configurations()
    }
    assert choice.chosen_bps == pytest.approx(means[choice.chosen])
    assert choice.best_bps == pytest.approx(max(means.values()))
    assert choice.share == found.share_worst == found.share_mean <= 1
    assert sum(each.runs for each in found.predictions) == len(there)


def test_three_rtts_are_drawn_from_those_inside() -> None:
    runs = sweep(FAMILIES["windows"], np.random.default_rng(0), 1)
    drawn = {tuple(draw(runs, seed)) for seed in range(200)}
    assert drawn == {tuple(each) for each in combinations(INNER.tolist(), 3)}
    with pytest.raises(HowdahError, match="too few to leave 6 out"):
        draw(runs, 0, count=6)


def test_an_end_of_the_profile_cannot_be_left_out() -> None:
    runs = sweep(FAMILIES["windows"], np.random.default_rng(0), 2)
    with pytest.raises(HowdahError, match=r"rtt 366 ms is above the 183 ms this profile covers once"):
        evaluate(runs, [0.366])


@pytest.mark.parametrize(
    ("rtt_s", "says"), [(0.0002, "below the 400 µs"), (0.5, "above the 366 ms"), (0.41, "above the 366 ms")]
)
def test_nothing_is_said_outside_the_profile(rtt_s: float, says: str) -> None:
    predictor = Predictor(runs_of({x: [5e9] for x in RTT_S.tolist()}))
    problem = predictor.uncovered(rtt_s)
    assert problem is not None
    assert says in problem.what
    assert predictor.at(rtt_s) == []


def test_one_rtt_is_enough_for_that_rtt_and_a_little_beside_it() -> None:
    predictor = Predictor(runs_of({0.09: [5e9, 5.1e9, 4.9e9]}))
    (there,), (beside,) = predictor.at(0.09), predictor.at(0.093)
    assert there.rate_mid_bps == beside.rate_mid_bps == pytest.approx(5e9)
    assert there.rate_low_bps / beside.rate_low_bps == pytest.approx(0.093 / 0.09)
    assert (there.basis, there.runs) == ("measured", 3)


def test_a_configuration_not_measured_around_the_rtt_is_not_predicted() -> None:
    whole = sweep(FAMILIES["windows"], np.random.default_rng(0), 2)
    without = whole[~((whole.streams == 4) & (whole.rtt_s > 0.04))]
    assert {each.configuration.streams for each in Predictor(without).at(0.1)} == {1, 10}


def test_a_run_without_a_rate_is_refused_by_name() -> None:
    with pytest.raises(HowdahError, match="run synthetic-000000 has no positive rate; leave it out"):
        Predictor(runs_of({0.01: [np.nan]}))
