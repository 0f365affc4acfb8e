"""Multinomial logistic regression on features: the simplest of our classifiers, and the last step of another.

Minimises the mean log loss plus penalty / 2 · |weights|² on standardised features, by L-BFGS. The penalty is
the one of a few with the least log loss on runs left out.
"""

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.contract import Classifier, Codes, has
from howdah.recognition.features import features, names
from howdah.recognition.folds import whole
from howdah.recognition.recording import Floats
from howdah.recognition.windows import Windows

_PENALTIES = (1e-3, 1e-2, 1e-1)
_FOLDS = 3
_FARTHEST = 8.0
"""In standard deviations; a feature farther out counts no more."""


class Standard:
    """Features less their mean, in standard deviations, those too far out drawn in."""

    def __init__(self, mean: Floats, sd: Floats) -> None:
        self.mean, self.sd = mean, sd

    @classmethod
    def of(cls, rows: Floats) -> "Standard":
        """By the rows given; what never varies becomes 0."""
        sd = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(sd > 1e-9, sd, 1.0))

    def __call__(self, rows: Floats) -> Floats:
        """Of features (n, columns)."""
        found: Floats = np.clip((rows - self.mean) / self.sd, -_FARTHEST, _FARTHEST)
        return found


def softmax(scores: Floats) -> Floats:
    """Along the last axis, without overflow."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return found


def regress(rows: Floats, codes: Codes, classes: int, penalty: float) -> Floats:
    """Weights of shape (columns + 1, classes), the last row being the constant."""
    from scipy.optimize import minimize  # noqa: PLC0415

    design = np.hstack([rows, np.ones((len(rows), 1))])
    wanted = np.eye(classes)[codes]
    shape = (design.shape[1], classes)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        likely = softmax(design @ weights)
        held = weights.copy()
        held[-1] = 0
        miss = -np.mean(np.log(np.maximum(likely[np.arange(len(codes)), codes], 1e-300)))
        slope = design.T @ (likely - wanted) / len(codes) + penalty * held
        return float(miss + penalty / 2 * np.sum(held**2)), slope.ravel()

    found = minimize(
        loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100, "ftol": 1e-7}
    )
    weights: Floats = found.x.reshape(shape)
    return weights


def scores(rows: Floats, weights: Floats) -> Floats:
    """Of rows (n, columns) by weights as of ``regress``: shape (n, classes)."""
    found: Floats = rows @ weights[:-1] + weights[-1]
    return found


def best_penalty(
    rows: Floats, codes: Codes, groups: NDArray[np.str_], classes: int, rng: np.random.Generator
) -> float:
    """Of ``_PENALTIES``, by log loss on groups left out; the middle one when there are too few groups."""
    losses = np.zeros(len(_PENALTIES))
    for train, test in whole(codes, groups, _FOLDS, rng):
        for number, penalty in enumerate(_PENALTIES):
            likely = softmax(scores(rows[test], regress(rows[train], codes[train], classes, penalty)))
            losses[number] -= np.sum(np.log(np.maximum(likely[np.arange(len(likely)), codes[test]], 1e-12)))
    return _PENALTIES[int(losses.argmin()) if losses.any() else 1]


class Logistic(Classifier):
    """Multinomial logistic regression on our features."""

    name = "logistic"
    what = "multinomial logistic regression on features"
    own_length_s = 10.0
    learns_between = True
    learns_twice = True
    mean: Floats
    sd: Floats
    weights: Floats

    @classmethod
    def _learnt(cls) -> tuple[str, ...]:
        return ("mean", "sd", "weights")

    def _fit(
        self, windows: Windows, codes: Codes, groups: NDArray[np.str_], rng: np.random.Generator
    ) -> None:
        found = features(windows)
        standard = Standard.of(found)
        self.mean, self.sd = standard.mean, standard.sd
        rows = standard(found)
        penalty = best_penalty(rows, codes, groups, len(self.classes), rng)
        self.weights = regress(rows, codes, len(self.classes), penalty)

    def _predict(self, windows: Windows) -> Floats:
        return softmax(scores(Standard(self.mean, self.sd)(features(windows)), self.weights))

    def _sound(self) -> bool:
        columns = len(names())
        return (
            has(self.mean, np.float64, columns)
            and has(self.sd, np.float64, columns)
            and bool((self.sd > 0).all())
            and has(self.weights, np.float64, columns + 1, len(self.classes))
        )
