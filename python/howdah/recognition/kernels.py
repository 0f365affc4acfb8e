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
from numpy.typing import NDArray

from howdah.recognition.contract import Classifier, Codes, has
from howdah.recognition.folds import whole
from howdah.recognition.logistic import Standard, scores, softmax
from howdah.recognition.recording import Floats
from howdah.recognition.windows import Windows

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
"""Scores are 1 and 0 at best; softmax of these alone would hardly tell them apart."""


class Kernels(Classifier):
    """Shares of convolutions above biases, and ridge regression on them."""

    name = "kernels"
    what = "convolution kernels (MiniRocket) and ridge regression"
    learns_between = True
    biases: Floats
    """Shape (dilations, 84, biases of each)."""
    mean: Floats
    sd: Floats
    weights: Floats

    @classmethod
    def _learnt(cls) -> tuple[str, ...]:
        return ("biases", "mean", "sd", "weights")

    def _fit(
        self, windows: Windows, codes: Codes, groups: NDArray[np.str_], rng: np.random.Generator
    ) -> None:
        series = _series(windows)
        number = len(dilations(self.steps))
        each = max(1, _FEATURES // (number * len(_KERNELS)))
        sample = series[rng.permutation(len(series))[:_SAMPLED]]
        shares = (np.arange(each) + 0.5) / each
        self.biases = np.stack([np.quantile(value, shares, axis=(1, 2)).T for value in _convolved(sample)])
        found = self._transformed(windows)
        standard = Standard.of(found)
        self.mean, self.sd = standard.mean, standard.sd
        rows = standard(found)
        wanted = np.eye(len(self.classes))[codes]
        losses = np.zeros(len(_PENALTIES))
        for train, test in whole(codes, groups, _FOLDS, rng):
            for number, weights in enumerate(_ridge(rows[train], wanted[train], _PENALTIES)):
                losses[number] += np.sum((scores(rows[test], weights) - wanted[test]) ** 2)
        best = int(losses.argmin()) if losses.any() else len(_PENALTIES) // 2
        self.weights = next(_ridge(rows, wanted, _PENALTIES[[best]]))

    def _predict(self, windows: Windows) -> Floats:
        rows = Standard(self.mean, self.sd)(self._transformed(windows))
        return softmax(_SHARPNESS * scores(rows, self.weights))

    def _transformed(self, windows: Windows) -> Floats:
        """Shape (n, dilations × 84 × biases + 5)."""
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

    def _sound(self) -> bool:
        number = len(dilations(self.steps))
        if not has(self.biases, np.float64, number, len(_KERNELS), None):
            return False
        columns = self.biases.size + len(_LEVELS)
        return (
            has(self.mean, np.float64, columns)
            and has(self.sd, np.float64, columns)
            and bool((self.sd > 0).all())
            and has(self.weights, np.float64, columns + 1, len(self.classes))
        )


def _ridge(rows: Floats, wanted: Floats, penalties: Floats) -> Iterator[Floats]:
    """Weights for each penalty (times the number of rows): shape (columns + 1, classes), the last row
    constants.

    Minimises |rows · weights + constants − wanted|² + penalty |weights|².
    """
    mean, middle = rows.mean(axis=0), wanted.mean(axis=0)
    left, values, right = np.linalg.svd(rows - mean, full_matrices=False)
    turned = left.T @ (wanted - middle)
    for penalty in penalties:
        weights = right.T @ (turned * (values / (values**2 + penalty * len(rows)))[:, None])
        yield np.vstack([weights, middle - mean @ weights])


def dilations(steps: int) -> list[int]:
    """For windows of so many steps: 1 at least, the widest kernel no wider than a window, ascending."""
    widest = max(1, (steps - 1) // (_LENGTH - 1))
    return sorted({int(each) for each in np.geomspace(1, widest, _MOST_DILATIONS)})


def _series(windows: Windows) -> Floats:
    queue = windows.queue
    centred = queue - queue.mean(axis=1, keepdims=True)
    found: Floats = centred / np.maximum(queue.std(axis=1, keepdims=True), _QUIET)
    return found


def _convolved(series: Floats) -> Iterator[Floats]:
    """For each dilation all kernels: shape (84, n, m). Weights are −1, in three places 2 = −1 + 3."""
    steps = series.shape[1]
    for dilation in dilations(steps):
        reach = dilation * (_LENGTH // 2)
        padded = np.pad(series, ((0, 0), (reach, reach)), mode="edge")
        shifted = [padded[:, dilation * place : dilation * place + steps] for place in range(_LENGTH)]
        total = -np.sum(shifted, axis=0)
        yield np.stack([total + 3 * (shifted[a] + shifted[b] + shifted[c]) for a, b, c in _KERNELS])
