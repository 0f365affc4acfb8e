"""Calibration, early stopping, what is new, and the three ways to leave examples out."""

import functools
from typing import Self

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rtts import recording, recordings

from howdah import HowdahError
from howdah.recognition import confidence
from howdah.recognition.classifiers.paper import NearestNeighbour
from howdah.recognition.classifiers.trees import Trees
from howdah.recognition.confidence import ClassDistance, StageProbabilities
from howdah.recognition.features import features
from howdah.recognition.rows import softmax
from howdah.recognition.training import Protocol, evaluate, fit, folds_of, possible
from howdah.recognition.windows import Examples, Windows, examples, random_folds, whole_folds


class Few(Trees):
    """Enough for these tests."""

    trees = 15


@functools.cache
def some() -> Examples:
    return examples(recordings(["nobody", "cubic", "bbr", "udp"], 3, duration_s=30.0), 10.0, 0.1)


def said(truth: float, count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Scores of three classes and codes drawn so that softmax(scores / truth) is calibrated."""
    rng = np.random.default_rng(1)
    scores = 3 * rng.standard_normal((count, 3))
    likely = softmax(scores / truth)
    return softmax(scores), (likely.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1)


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_the_temperature_that_was_is_found(truth: float) -> None:
    probabilities, codes = said(truth)
    found = confidence.temperature(probabilities, codes)
    assert found == pytest.approx(truth, rel=0.1)
    after = confidence.expected_calibration_error(confidence.cooled(probabilities, found), codes)
    assert after < 0.03
    if truth == 3.0:
        assert confidence.expected_calibration_error(probabilities, codes) > 0.2


def test_the_calibration_error_is_as_defined() -> None:
    # Two windows said with 0.9, one right; two with 0.6, both right: (2 · 0.4 + 2 · 0.4) / 4.
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    assert confidence.expected_calibration_error(probabilities, np.array([0, 1, 0, 0])) == pytest.approx(0.4)


def test_a_fold_is_calibrated_by_the_others() -> None:
    probabilities, codes = said(3.0, 600)
    fold = np.arange(600) // 300
    found = confidence.calibrated_across(fold, probabilities, codes)
    other = confidence.temperature(probabilities[fold == 1], codes[fold == 1])
    np.testing.assert_array_equal(found[fold == 0], confidence.cooled(probabilities[fold == 0], other))
    assert (found.argmax(axis=1) == probabilities.argmax(axis=1)).all()


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=4, max_size=12), st.integers(2, 5))
def test_whole_folds_split_no_run_and_test_each_window_once(runs: list[tuple[int, int]], count: int) -> None:
    codes = np.concatenate([np.full(windows, code) for code, windows in runs])
    groups = np.concatenate([np.full(windows, f"run {n}") for n, (_, windows) in enumerate(runs)])
    tested: list[int] = []
    for train, test in whole_folds(codes, groups, count, np.random.default_rng(0)):
        assert not set(groups[train]) & set(groups[test])
        assert set(codes[test]) <= set(codes[train])
        tested += test.tolist()
    assert len(set(tested)) == len(tested)
    several = [code for code in set(codes) if len(set(groups[codes == code])) >= 2]
    if len(several) == len(set(codes)):
        assert sorted(tested) == list(range(len(codes)))


def test_random_folds_have_their_share_of_each_class() -> None:
    codes = np.repeat([0, 1], [50, 25])
    for train, test in random_folds(codes, 5, np.random.default_rng(0)):
        assert np.bincount(codes[test]).tolist() == [10, 5]
        assert len(train) == 60


def test_listening_ends_when_it_is_sure() -> None:
    # Five windows, three stages. The second is sure at once, the third at the second stage and wrong;
    # the last would be sure at once, but is like nothing seen.
    codes = np.array([0, 0, 0, 1, 1])
    stages = np.array(
        [
            [[0.6, 0.4], [0.95, 0.05], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0]],
            [[0.7, 0.3], [0.95, 0.05], [0.1, 0.9], [0.4, 0.6], [0.0, 1.0]],
            [[0.8, 0.2], [0.95, 0.05], [0.9, 0.1], [0.3, 0.7], [0.0, 1.0]],
        ]
    )
    near = np.tile([True, True, True, True, False], (3, 1))
    heard = StageProbabilities(stages, near, np.array([1.0, 2.0, 4.0]), codes)
    assert confidence.stops(heard, 0.9).tolist() == [2, 0, 1, 2, 2]
    known = confidence.stopping_curve(heard)
    at = {each.threshold: each for each in known}
    assert at[0.9].mean_s == (4 + 1 + 2 + 4 + 4) / 5
    assert at[0.9].accuracy == 0.8
    assert (at[confidence.NEVER].mean_s, at[confidence.NEVER].accuracy) == (4, 1)
    assert confidence.choose(known) == at[0.95]


def test_a_threshold_is_judged_on_other_folds() -> None:
    # In the first fold an early answer is right, in the second it is wrong, sure as it is.
    early, late = np.tile([0.9, 0.1], (20, 1)), np.tile([0.6, 0.4], (20, 1))
    codes, fold = np.zeros(20, int), np.arange(20) // 10
    early[10:] = [0.1, 0.9]
    heard = StageProbabilities(np.stack([early, late]), np.ones((2, 20), bool), np.array([1.0, 2.0]), codes)
    found = confidence.stopped_across(fold, heard)
    assert found.threshold == 0.95
    assert found.accuracy == 0.5
    assert found.mean_s == 1.5


def test_few_windows_allow_less_confidence_than_many() -> None:
    probabilities, codes = np.tile([0.9, 0.1], (1000, 1)), np.zeros(1000, int)
    surest = [
        confidence.cooled(
            probabilities[:1], confidence.temperature(probabilities[:count], codes[:count])
        ).max()
        for count in (10, 100, 1000)
    ]
    assert surest[0] == pytest.approx(1 - 0.5 / 11, abs=1e-3)
    assert sorted(surest) == surest


def test_what_was_left_out_is_told_from_what_was_seen() -> None:
    codes = np.unique(some().labels, return_inverse=True)[1]
    rows, parts = features(some().windows), folds_of(some(), "runs")
    limits = confidence.limits(rows, codes, np.unique(some().labels).tolist(), parts)
    told = limits.scores
    assert told.false_alarms <= confidence.MOST_FALSE
    assert set(told.found) == {"1 bbr", "1 cubic", "1 udp", "nobody"}
    assert np.mean(list(told.found.values())) > 0.5
    assert limits.near <= limits.new
    assert np.mean(limits.distances <= limits.near) >= 0.5
    known = some().labels != "1 bbr"
    familiar = ClassDistance.of(rows[known], codes[known])
    strange = examples([recording("bbr", "other", 77)], 10.0, 0.1).windows
    assert (familiar.of_windows(strange) > limits.new).all()
    again = examples([recording("udp", "other", 78)], 10.0, 0.1).windows
    assert np.mean(familiar.of_windows(again) > limits.new) < 0.5


@pytest.mark.parametrize("protocol", ["random", "runs"])
def test_what_is_learnt_from_between_windows_was_not_kept_for_a_test(protocol: Protocol) -> None:
    whole = some()
    more = 0
    for train, test in folds_of(whole, protocol):
        learnt, tested = whole.to_learn(train, test), whole.take(test)
        more += len(learnt.labels) - len(train)
        np.testing.assert_array_equal(learnt.starts_s[: len(train)], whole.starts_s[train])
        assert set(learnt.runs) == set(whole.runs[train])
        for run, start_s in zip(tested.runs, tested.starts_s, strict=True):
            apart_s = np.abs(learnt.starts_s[learnt.runs == run] - start_s)
            assert (apart_s > 9.9).all(), "windows of 10 s in steps of 0.1 s"
        for run, label in zip(learnt.runs, learnt.labels, strict=True):
            assert label == whole.labels[whole.runs == run][0]
    assert more > len(whole.labels)


def test_the_papers_classifiers_learn_from_what_is_judged_alone() -> None:
    train, test = folds_of(some(), "runs")[0]
    seen: list[int] = []

    class Counts(NearestNeighbour):
        def fit(self, windows: Windows, *rest: NDArray[np.str_]) -> Self:
            seen.append(len(windows))
            return super().fit(windows, *rest)

    class CountsBetween(Counts):
        learns_between = True

    fit(Counts, some(), train, test)
    fit(CountsBetween, some(), train, test)
    assert seen[0] == len(train) < seen[1]


def test_random_folds_flatter() -> None:
    # The class is a coin thrown for each run, and each run has a level of its own: there is nothing to learn.
    heard = [
        recording(kind, f"{kind}-{number}", number, most=1 + 0.1 * number + 0.05 * at, duration_s=40.0)
        for number in range(6)
        for at, kind in enumerate(["udp", "udp"])
    ]
    whole = examples(heard, 10.0, 0.1)
    coin = np.repeat(np.array(["udp", "bbr"])[np.arange(12) % 2], 4)
    runs = np.repeat([f"run {number}" for number in range(12)], 4)
    scores = evaluate(NearestNeighbour, whole._replace(labels=coin, runs=runs), ("random", "runs"))
    assert scores[0].accuracy > scores[1].accuracy + 0.3


def test_a_path_never_seen_needs_features() -> None:
    near = recordings(["cubic", "udp", "bbr"], 2, duration_s=30.0)
    far = [
        recording(
            kind, f"far {kind} {number}", number, path="far", base_rtt_s=0.15, most=0.7, duration_s=30.0
        )
        for kind in ("cubic", "udp", "bbr")
        for number in range(2)
    ]
    whole = examples(near + far, 10.0, 0.1)
    assert possible(whole) == ["runs", "paths", "random"]
    ours, theirs = (evaluate(kind, whole, ["paths"])[0] for kind in (Few, NearestNeighbour))
    assert ours.accuracy > theirs.accuracy + 0.3
    assert ours.folds == 2
    assert ours.windows == np.sum(ours.confusion) == len(whole.labels)
    assert ours.accuracy_bbr is not None
    assert ours.accuracy == np.trace(ours.confusion) / np.sum(ours.confusion)


def test_examples_that_allow_no_judgement_are_refused() -> None:
    with pytest.raises(HowdahError, match="no path can be left out"):
        folds_of(some(), "paths")
    apart = np.where(some().labels == "nobody", "here", "there")
    only = some()._replace(paths=apart).take(np.isin(some().labels, ["nobody", "1 bbr"]))
    assert possible(only) == ["runs", "random"]
    once = some().take(~np.isin(some().runs, ["bbr-1", "bbr-2"]))
    with pytest.raises(HowdahError, match=r"class '1 bbr' has one run.*record at least two"):
        folds_of(once, "runs")
    mixed = some()._replace(runs=np.full(len(some().runs), "run"))
    with pytest.raises(HowdahError, match="run 'run' is of '1 bbr' and of '1 cubic'"):
        folds_of(mixed, "runs")
