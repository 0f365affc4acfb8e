"""One contract over all classifiers, on synthetic series (no measurements), and a judge for each."""

import functools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rtts import recordings

from howdah import HowdahError
from howdah.recognition.classifier import Arrays, Classifier
from howdah.recognition.classifiers import CLASSIFIERS, classifier, kernels, logistic, paper, trees
from howdah.recognition.features import features, names
from howdah.recognition.rows import linear, softmax
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
    return classifier(name)().fit(*seen()[:3])


@ALL
def test_probabilities_are_of_the_classes_and_tell_runs_not_seen(name: str) -> None:
    likely = fitted(name).predict_proba(unseen().windows)
    assert fitted(name).name == name
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
    one = classifier(name)().fit(*long[:3])
    short = classifier(name).restored(one.arrays(), one.classes, one.steps // 2, one.step_s)
    first, second = (short.predict_proba(long.windows.parts(2)[start::2]) for start in (0, 1))
    both = np.sqrt(np.maximum(first, 1e-6) * np.maximum(second, 1e-6))
    np.testing.assert_allclose(one.predict_proba(long.windows), both / both.sum(axis=1, keepdims=True))
    assert not np.allclose(first, second)
    # Of the first three, one half was not heard.
    deaf = long.windows[:3]
    deaf.rtt_s[:, deaf.rtt_s.shape[1] // 2 :] = np.nan
    half = np.sqrt(np.maximum(first[:3], 1e-6))
    np.testing.assert_allclose(one.predict_proba(deaf), half / half.sum(axis=1, keepdims=True))
    assert np.isfinite(classifier(name)().fit(*long[:3]).predict_proba(deaf)).all()


@ALL
def test_the_same_examples_make_the_same_classifier(name: str) -> None:
    again = classifier(name)().fit(*seen()[:3])
    for held, values in fitted(name).arrays().items():
        np.testing.assert_array_equal(again.arrays()[held], values)


@ALL
def test_the_arrays_are_all_of_it(name: str) -> None:
    one = fitted(name)
    held = {each: values.copy() for each, values in one.arrays().items()}
    back = classifier(name).restored(held, one.classes, one.steps, one.step_s)
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
    with pytest.raises(HowdahError, match="nothing to distinguish"):
        classifier(name)().fit(*seen().take(one)[:3])


@ALL
def test_arrays_that_do_not_fit_together_are_refused(name: str) -> None:
    one = fitted(name)
    held = one.arrays()

    def refused(changed: Arrays) -> None:
        with pytest.raises(ValueError, match=one.name):
            classifier(name).restored(changed, one.classes, one.steps, one.step_s)

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
    ours = softmax(linear(rows, logistic.regress(rows, codes, 0.1)))
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    wide, wanted = rng.standard_normal((20, 50)), np.eye(3)[np.arange(20) % 3]
    weights = kernels.ridge(wide, wanted, 0.5)
    np.testing.assert_allclose(
        linear(wide, weights), Ridge(alpha=0.5 * 20).fit(wide, wanted).predict(wide), atol=1e-9
    )


@pytest.mark.parametrize("kinds", [3, 2])
def test_trees_are_judged_as_scikit_learn_judges_them(kinds: int) -> None:
    from sklearn.ensemble import ExtraTreesClassifier

    known = np.unique(seen().labels)[:kinds]
    some = seen().take(np.isin(seen().labels, known))
    codes = np.searchsorted(known, some.labels)
    forest = ExtraTreesClassifier(20, min_samples_split=4, random_state=1).fit(features(some.windows), codes)
    asked = features(unseen().windows)

    def ours(prior: np.ndarray) -> np.ndarray:
        arrays = trees.nodes_of(forest, prior)
        one = trees.Trees.restored(arrays, known.tolist(), some.windows.rtt_s.shape[1], 0.1)
        return one.predict_proba(unseen().windows)

    np.testing.assert_allclose(ours(np.zeros(kinds)), forest.predict_proba(asked), atol=1e-6)
    # One more example of each leaf, spread as the classes are, is what we add.
    prior = np.bincount(codes) / len(codes)
    expected = np.zeros((len(asked), kinds))
    for each in forest.estimators_:
        leaves, grown = each.apply(asked), each.apply(features(some.windows))
        for row, leaf in enumerate(leaves):
            counted = np.bincount(codes[grown == leaf], minlength=kinds) + prior
            expected[row] += counted / counted.sum() / len(forest.estimators_)
    np.testing.assert_allclose(ours(prior), expected, atol=1e-6)


def test_a_logistic_regression_is_judged_as_scikit_learn_judges_it() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    for kinds in (2, 3):
        rows, codes = rng.standard_normal((90, 5)), np.arange(90) % kinds
        rows[:, 0] += codes
        ours = logistic.regress(rows, codes, 0.1)
        # Of two classes, a penalty on the weights of both is half of that on their difference.
        inverse = (2 if kinds == 2 else 1) / (0.1 * 90)
        theirs = LogisticRegression(C=inverse, tol=1e-8).fit(rows, codes).predict_proba(rows)
        np.testing.assert_allclose(softmax(linear(rows, ours)), theirs, atol=2e-3)

        # The least of what the file says is minimised.
        def loss(weights: np.ndarray, rows: np.ndarray = rows, codes: np.ndarray = codes) -> float:
            likely = softmax(linear(rows, weights))[np.arange(90), codes]
            return -np.log(likely).mean() + 0.1 / 2 * np.sum(weights[:-1] ** 2)

        for _ in range(20):
            assert loss(ours) <= loss(ours + 0.03 * rng.standard_normal(ours.shape)) + 1e-6


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


@pytest.mark.parametrize("name", ["trees", "logistic", "kernels", "svm", "mlp"])
def test_without_scikit_learn_training_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    one = fitted(name)
    for module in ("ensemble", "linear_model", "svm", "neural_network"):
        monkeypatch.setitem(sys.modules, f"sklearn.{module}", None)
    with pytest.raises(HowdahError, match=rf"{name} is trained by .*pip install 'WHEEL\[train\]'"):
        classifier(name)().fit(*seen()[:3])
    # What they have learnt needs none.
    assert one.predict_proba(unseen().windows).shape == (len(unseen().labels), 3)
