"""Multinomial logistic regression on features: the simplest of our classifiers.

scikit-learn minimises the mean log loss plus penalty / 2 · |weights|² on standardised features, by L-BFGS.
The penalty is the one of a few with the least log loss on runs left out.
"""

import warnings

import numpy as np

from howdah.recognition.classifier import Classifier, has, has_standardiser, scikit_learn
from howdah.recognition.features import features, names
from howdah.recognition.rows import Floats, Standardiser, linear, softmax
from howdah.recognition.windows import Codes, Names, Windows, whole_folds

_PENALTIES = (1e-3, 1e-2, 1e-1)
_FOLDS = 3


def regress(rows: Floats, codes: Codes, penalty: float) -> Floats:
    """Weights of shape (columns + 1, classes), the last row being constants.

    Raises HowdahError where scikit-learn is missing.
    """
    two = int(codes.max()) == 1
    # Of two classes scikit-learn regresses the second alone: our weights are half of that, one each way, and
    # a penalty on both is half of one on theirs.
    inverse = (2 if two else 1) / (penalty * len(codes))
    regression = scikit_learn("linear_model", "logistic").LogisticRegression(C=inverse)
    with warnings.catch_warnings():
        # A hundred iterations are its default, whether they converge or not.
        warnings.simplefilter("ignore")
        regression.fit(rows, codes)
    weights = np.ascontiguousarray(np.vstack([regression.coef_.T, regression.intercept_]))
    return np.hstack([-weights / 2, weights / 2]) if two else weights


def _best_penalty(rows: Floats, codes: Codes, groups: Names, rng: np.random.Generator) -> float:
    """The penalty of least log loss on groups left out, or the middle one when there are too few groups."""
    losses = np.zeros(len(_PENALTIES))
    for train, test in whole_folds(codes, groups, _FOLDS, rng):
        for number, penalty in enumerate(_PENALTIES):
            likely = softmax(linear(rows[test], regress(rows[train], codes[train], penalty)))
            losses[number] -= np.sum(np.log(np.maximum(likely[np.arange(len(likely)), codes[test]], 1e-12)))
    return _PENALTIES[int(losses.argmin()) if losses.any() else 1]


class Logistic(Classifier):
    """Multinomial logistic regression on our features."""

    name = "logistic"
    what = "multinomial logistic regression on features"
    learnt = ("mean", "sd", "weights")
    longest_s = 10.0
    learns_between = True
    learns_own_base = True
    mean: Floats
    sd: Floats
    weights: Floats

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        found = features(windows)
        standardise = Standardiser.of(found)
        self.mean, self.sd = standardise
        rows = standardise(found)
        self.weights = regress(rows, codes, _best_penalty(rows, codes, groups, rng))

    def _predict(self, windows: Windows) -> Floats:
        return softmax(linear(Standardiser(self.mean, self.sd)(features(windows)), self.weights))

    def _is_consistent(self) -> bool:
        columns = len(names())
        return has_standardiser(self.mean, self.sd, columns) and has(
            self.weights, columns + 1, len(self.classes)
        )
