"""One contract over all classifiers, on synthetic series (no measurements), and a judge for each."""

import functools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rtts import recordings

from howdah import HowdahError
from howdah.recognition import kernels, logistic, paper, trees
from howdah.recognition.arrays import Arrays
from howdah.recognition.classifiers import CLASSIFIERS, classifier
from howdah.recognition.contract import Classifier
from howdah.recognition.features import features, names
from howdah.recognition.windows import Examples, examples

KINDS = ["nobody", "cubic", "bbr"]
ALL = pytest.mark.parametrize("name", CLASSIFIERS)


@functools.cache
def seen() -> Examples:
    return examples(recordings(KINDS, 4, duration_s=30.0), 10.0, 0.1)


@functools.cache
def unseen() -> Examples:
    return examples(recordings(KINDS, 3, duration_s=30.0, most=0.95), 10.0, 0.1)


@functools.cache
def fitted(name: str) -> Classifier:
    return CLASSIFIERS[name]().fit(*seen()[:3])


@ALL
def test_probabilities_are_of_the_classes_and_tell_runs_not_seen(name: str) -> None:
    likely = fitted(name).predict_proba(unseen().windows)
    assert fitted(name).classes == ["1 bbr", "1 cubic", "nobody"]
    assert likely.shape == (len(unseen().labels), 3)
    assert (likely >= 0).all()
    np.testing.assert_allclose(likely.sum(axis=1), 1)
    said = np.array(fitted(name).classes)[likely.argmax(axis=1)]
    # At one RTT a second little is left of BBR; chance is a third.
    assert np.mean(said == unseen().labels) > 0.6


@pytest.mark.parametrize("name", ["logistic", "trees"])
def test_a_long_window_is_judged_by_what_is_told_of_its_parts(name: str) -> None:
    long = examples(recordings(KINDS, 4, duration_s=30.0), 15.0, 0.1)
    one = CLASSIFIERS[name]().fit(*long[:3])
    short = CLASSIFIERS[name].restored(one.arrays(), one.classes, one.steps // 2, one.step_s)
    first, second = (short.predict_proba(long.windows.parts(2)[start::2]) for start in (0, 1))
    both = np.sqrt(np.maximum(first, 1e-6) * np.maximum(second, 1e-6))
    np.testing.assert_allclose(one.predict_proba(long.windows), both / both.sum(axis=1, keepdims=True))
    assert not np.allclose(first, second)
    # Of the first three, one half was not heard.
    deaf = long.windows[:3]
    deaf.rtt_s[:, deaf.rtt_s.shape[1] // 2 :] = np.nan
    half = np.sqrt(np.maximum(first[:3], 1e-6))
    np.testing.assert_allclose(one.predict_proba(deaf), half / half.sum(axis=1, keepdims=True))
    assert np.isfinite(CLASSIFIERS[name]().fit(*long[:3]).predict_proba(deaf)).all()


@ALL
def test_the_same_examples_make_the_same_classifier(name: str) -> None:
    again = CLASSIFIERS[name]().fit(*seen()[:3])
    for held, values in fitted(name).arrays().items():
        np.testing.assert_array_equal(again.arrays()[held], values)


@ALL
def test_the_arrays_are_all_of_it(name: str) -> None:
    one = fitted(name)
    held = {each: values.copy() for each, values in one.arrays().items()}
    back = CLASSIFIERS[name].restored(held, one.classes, one.steps, one.step_s)
    np.testing.assert_array_equal(back.predict_proba(unseen().windows), one.predict_proba(unseen().windows))


@ALL
def test_each_window_is_judged_by_itself(name: str) -> None:
    together = fitted(name).predict_proba(unseen().windows)
    alone = [fitted(name).predict_proba(unseen().windows[number : number + 1]) for number in (0, 11)]
    np.testing.assert_allclose(np.concatenate(alone), together[[0, 11]], atol=1e-9)
    assert fitted(name).predict_proba(unseen().windows[:0]).shape == (0, 3)


@ALL
def test_other_windows_are_refused(name: str) -> None:
    with pytest.raises(HowdahError, match=f"^{name} was trained on .*; train it on such windows$"):
        fitted(name).predict_proba(unseen().windows.first(5.0))
    one = seen().labels == "nobody"
    with pytest.raises(HowdahError, match="nothing to tell apart"):
        CLASSIFIERS[name]().fit(*seen().take(one)[:3])


@ALL
def test_arrays_that_do_not_fit_together_are_refused(name: str) -> None:
    one = fitted(name)
    held = one.arrays()

    def refused(changed: Arrays) -> None:
        with pytest.raises(ValueError, match=one.name):
            CLASSIFIERS[name].restored(changed, one.classes, one.steps, one.step_s)

    for each, values in held.items():
        refused({**held, each: values.astype(np.int8)})
        refused({**held, each: values[None]})
        refused({other: array for other, array in held.items() if other != each})
    refused({**held, "more": np.zeros(1)})
    first = next(iter(held))
    refused({**held, first: held[first][:0]})


@pytest.mark.parametrize(
    ("array", "index", "value"),
    [
        ("left", 0, 0),
        ("left", 0, 1 << 30),
        ("feature", 0, len(names())),
        ("feature", 0, -2),
        ("roots", 0, -1),
        ("share", -1, 0),
    ],
)
def test_trees_that_never_end_or_lead_outside_are_refused(array: str, index: int, value: int) -> None:
    one = fitted("trees")
    held = {name: values.copy() for name, values in one.arrays().items()}
    held[array][index] = value
    with pytest.raises(ValueError, match="arrays of trees"):
        trees.Trees.restored(held, one.classes, one.steps, one.step_s)


def test_what_no_class_is_for_is_refused() -> None:
    one = fitted("1-nn")
    held = {**one.arrays(), "codes": np.full(len(seen().labels), 3, np.int32)}
    with pytest.raises(ValueError, match="1-nn"):
        paper.NearestNeighbour.restored(held, one.classes, one.steps, one.step_s)
    with pytest.raises(HowdahError, match="no classifier is called 'cnn'; there are trees, logistic"):
        classifier("cnn")


def warped(first: list[float], second: list[float], warping: int) -> float:
    """Dynamic time warping as it is defined, one cell at a time."""

    @functools.cache
    def least(i: int, j: int) -> float:
        if i < 0 or j < 0 or abs(i - j) > warping:
            return 0.0 if i == j == -1 else np.inf
        return (first[i] - second[j]) ** 2 + min(least(i - 1, j), least(i, j - 1), least(i - 1, j - 1))

    return least(len(first) - 1, len(second) - 1)


SERIES = st.lists(st.floats(0, 10), min_size=8, max_size=8)


@settings(max_examples=20)
@given(SERIES, SERIES, SERIES, st.integers(0, 10))
def test_warping_is_as_defined(a: list[float], b: list[float], c: list[float], warping: int) -> None:
    found = paper.warped_distance(np.array([a, b]), np.array([b, c]), warping)
    np.testing.assert_allclose(
        found, [[warped(a, b, warping), warped(a, c, warping)], [0, warped(b, c, warping)]]
    )


def test_the_papers_are_told_as_scikit_learn_tells_them() -> None:
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.svm import SVC

    for kinds in (slice(None), seen().labels != "nobody"):
        some, other = (
            each.take(
                np.arange(len(each.labels))[kinds] if isinstance(kinds, slice) else each.labels != "nobody"
            )
            for each in (seen(), unseen())
        )
        rows, asked = (paper._rtt_ms(each.windows.coarser(1.0)) for each in (some, other))
        bayes = GaussianNB().fit(rows, some.labels).predict_proba(asked)
        np.testing.assert_allclose(
            paper.NaiveBayes().fit(*some[:3]).predict_proba(other.windows), bayes, atol=1e-9
        )
        ours = paper.SupportVectors().fit(*some[:3])
        said = np.array(ours.classes)[ours.predict_proba(other.windows).argmax(axis=1)]
        np.testing.assert_array_equal(said, SVC().fit(rows, some.labels).predict(asked))
        network = paper.Perceptron().fit(*some[:3], seed=5)
        state = int(np.random.default_rng(5).integers(1 << 31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = MLPClassifier((64, 64), random_state=state).fit(rows, some.labels)
        np.testing.assert_allclose(
            network.predict_proba(other.windows), theirs.predict_proba(asked), atol=1e-9
        )


def test_regressions_are_as_scikit_learn_has_them() -> None:
    from sklearn.linear_model import LogisticRegression, Ridge

    rng = np.random.default_rng(3)
    rows, codes = rng.standard_normal((90, 5)), np.arange(90) % 3
    rows[:, 0] += codes
    theirs = LogisticRegression(C=1 / (0.1 * 90), tol=1e-8).fit(rows, codes).predict_proba(rows)
    ours = logistic.softmax(logistic.scores(rows, logistic.regress(rows, codes, 3, 0.1)))
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    wide, wanted = rng.standard_normal((20, 50)), np.eye(3)[np.arange(20) % 3]
    weights = next(kernels._ridge(wide, wanted, np.array([0.5])))
    np.testing.assert_allclose(
        logistic.scores(wide, weights), Ridge(alpha=0.5 * 20).fit(wide, wanted).predict(wide), atol=1e-9
    )


def test_a_tree_alone_fits_what_it_was_grown_on() -> None:
    class One(trees.Trees):
        trees = 1

    one = One().fit(*seen()[:3])
    said = np.array(one.classes)[one.predict_proba(seen().windows).argmax(axis=1)]
    assert np.mean(said == seen().labels) > 0.9
    inner = one.feature >= 0
    used = features(seen().windows)[:, one.feature[inner]]
    assert (used.min(axis=0) <= one.threshold[inner] + 1e-6).all()
    assert (one.threshold[inner] <= used.max(axis=0) + 1e-6).all()


def test_without_scikit_learn_the_papers_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(HowdahError, match=r"pip install 'howdah\[train\]'"):
        paper.SupportVectors().fit(*seen()[:3])
    # What they have learnt needs none.
    assert fitted("svm").predict_proba(unseen().windows).shape == (len(unseen().labels), 3)
