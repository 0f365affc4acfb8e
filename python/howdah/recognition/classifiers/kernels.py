"""Convolution kernels and ridge regression, after MiniRocket (Dempster, Schmidt and Webb, KDD 2021).

All 84 kernels of nine weights, six of −1 and three of 2, at dilations from 1 to (m − 1) / 8 steps; a feature
is the share of a window where the convolution is above a bias, taken from quantiles of the convolution over
training windows. Deviations: at most 8 dilations, each with the same number of biases; ends are padded with
the nearest value always; windows are centred and scaled by their own deviation, so that paths with other
queues look alike, and five quantiles of the queue say what that hides; the penalty is chosen on runs left
out, not on single windows; the regression's scores become probabilities by softmax.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from howdah.recognition.classifier import Classifier, has, has_standardiser, scikit_learn
from howdah.recognition.rows import Floats, Standardiser, linear, softmax
from howdah.recognition.windows import Codes, Names, Windows, whole_folds

_LENGTH = 9
_KERNELS = tuple(combinations(range(_LENGTH), 3))
_MOST_DILATIONS = 8
_FEATURES = 1000
_SAMPLED = 64
_AT_ONCE = 128
_QUIET = 0.01
_LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
_PENALTIES = np.logspace(-3, 3, 7)
_FOLDS = 3
_SHARPNESS = 4.0
"""Scores are 1 and 0 at best; the softmax of these alone would hardly tell them apart."""


class Kernels(Classifier):
    """Shares of convolutions above biases, and ridge regression on them."""

    name = "kernels"
    what = "convolution kernels (MiniRocket) and ridge regression"
    learnt = ("biases", "mean", "sd", "weights")
    learns_between = True
    biases: Floats
    """The biases: shape (dilations, 84, biases of each)."""
    mean: Floats
    sd: Floats
    weights: Floats

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        series = _series(windows)
        each = max(1, _FEATURES // (len(dilations(self.steps)) * len(_KERNELS)))
        sample = series[rng.permutation(len(series))[:_SAMPLED]]
        shares = (np.arange(each) + 0.5) / each
        self.biases = np.stack([np.quantile(value, shares, axis=(1, 2)).T for value in _convolved(sample)])
        found = self._transformed(windows)
        standardise = Standardiser.of(found)
        self.mean, self.sd = standardise
        rows = standardise(found)
        wanted = np.eye(len(self.classes))[codes]
        losses = np.zeros(len(_PENALTIES))
        for train, test in whole_folds(codes, groups, _FOLDS, rng):
            for number, penalty in enumerate(_PENALTIES):
                scores = linear(rows[test], ridge(rows[train], wanted[train], penalty))
                losses[number] += np.sum((scores - wanted[test]) ** 2)
        best = int(losses.argmin()) if losses.any() else len(_PENALTIES) // 2
        self.weights = ridge(rows, wanted, _PENALTIES[best])

    def _predict(self, windows: Windows) -> Floats:
        rows = Standardiser(self.mean, self.sd)(self._transformed(windows))
        return softmax(_SHARPNESS * linear(rows, self.weights))

    def _transformed(self, windows: Windows) -> Floats:
        """The features of each window: shape (n, dilations × 84 × biases + 5)."""
        series = _series(windows)
        parts = range(0, len(series), _AT_ONCE)
        shares = np.concatenate([self._columns(series[start : start + _AT_ONCE]) for start in parts])
        return np.hstack([shares, np.quantile(windows.queue, _LEVELS, axis=1).T])

    def _columns(self, series: Floats) -> Floats:
        columns = [
            (value > bias[:, None, None]).mean(axis=2)
            for value, biases in zip(_convolved(series), self.biases, strict=True)
            for bias in biases.T
        ]
        return np.concatenate(columns).T

    def _is_consistent(self) -> bool:
        if not has(self.biases, len(dilations(self.steps)), len(_KERNELS), None):
            return False
        columns = self.biases.size + len(_LEVELS)
        return has_standardiser(self.mean, self.sd, columns) and has(
            self.weights, columns + 1, len(self.classes)
        )


def ridge(rows: Floats, wanted: Floats, penalty: float) -> Floats:
    """Weights of shape (columns + 1, classes), the last row being constants.

    They minimise |rows · weights + constants − wanted|² + penalty · rows · |weights|². Raises HowdahError
    where scikit-learn is missing.
    """
    regression = scikit_learn("linear_model", "kernels").Ridge(alpha=penalty * len(rows)).fit(rows, wanted)
    return np.ascontiguousarray(np.vstack([regression.coef_.T, regression.intercept_]))


def dilations(steps: int) -> list[int]:
    """The dilations for windows of so many steps, ascending; the widest kernel is no wider than a window."""
    widest = max(1, (steps - 1) // (_LENGTH - 1))
    return sorted({int(each) for each in np.geomspace(1, widest, _MOST_DILATIONS)})


def _series(windows: Windows) -> Floats:
    queue = windows.queue
    centred = queue - queue.mean(axis=1, keepdims=True)
    found: Floats = centred / np.maximum(queue.std(axis=1, keepdims=True), _QUIET)
    return found


def _convolved(series: Floats) -> Iterator[Floats]:
    """Convolves with all kernels, for each dilation: shape (84, n, m). Weights are −1, in three places 2."""
    steps = series.shape[1]
    for dilation in dilations(steps):
        reach = dilation * (_LENGTH // 2)
        padded = np.pad(series, ((0, 0), (reach, reach)), mode="edge")
        shifted = [padded[:, dilation * place : dilation * place + steps] for place in range(_LENGTH)]
        total = -np.sum(shifted, axis=0)
        yield np.stack([total + 3 * (shifted[a] + shifted[b] + shifted[c]) for a, b, c in _KERNELS])
