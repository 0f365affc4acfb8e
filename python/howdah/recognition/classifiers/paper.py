"""The paper's four classifiers: Anvari, Huard and Lu, Computers 10 (2021) 76, sections 4.2 and 5.4.

1-NN     the class of the nearest training window by dynamic time warping, warping 10 (a band of ±10 steps).
MLP      two hidden layers of 64 with ReLU, softmax.
SVM      RBF kernel, defaults of scikit-learn.
GNB      Gaussian naive Bayes, defaults of scikit-learn.

All look at RTTs in milliseconds, one a second: the mean of that second (theirs is of ten pings in its first
10 ms). What the paper does not say (optimiser, units) is scikit-learn's default and ping's. SVM and MLP are
trained by scikit-learn and judge by their arrays, without it.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.classifier import Classifier, has, scikit_learn
from howdah.recognition.rows import Floats, interpolated, softmax
from howdah.recognition.windows import Codes, Names, Windows

_WARPING = 10
_SMOOTHING = 1e-9
"""This part of the largest variance is added to all: scikit-learn's var_smoothing."""
_HIDDEN = (64, 64)
_SURE = 1 - 1e-3
_PAIRS_AT_ONCE = 1 << 17


def _rtt_ms(windows: Windows) -> Floats:
    base_rtt_s = windows.base_rtt_s[:, None]
    return 1e3 * base_rtt_s * interpolated(windows.rtt_s / base_rtt_s, empty=1.0)


class _OfThePaper(Classifier):
    least_step_s = 1.0


class NearestNeighbour(_OfThePaper):
    """The class of the nearest training window, with all but certainty, which calibration needs."""

    name = "1-nn"
    what = "the paper's: nearest neighbour by dynamic time warping, w = 10"
    learnt = ("series_ms", "codes")
    series_ms: Floats
    """The training windows in milliseconds: shape (training windows, steps)."""
    codes: NDArray[np.int32]

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        self.series_ms, self.codes = _rtt_ms(windows), codes.astype(np.int32)

    def _predict(self, windows: Windows) -> Floats:
        series = _rtt_ms(windows)
        batch = max(1, _PAIRS_AT_ONCE // len(self.codes))
        nearest = np.concatenate(
            [
                warped_distance(series[start : start + batch], self.series_ms).argmin(axis=1)
                for start in range(0, len(series), batch)
            ]
        )
        classes = len(self.classes)
        return np.where(
            np.arange(classes) == self.codes[nearest][:, None], _SURE, (1 - _SURE) / (classes - 1)
        )

    def _is_consistent(self) -> bool:
        if not has(self.series_ms, None, self.steps):
            return False
        known = has(self.codes, len(self.series_ms), dtype=np.int32)
        return known and bool(((self.codes >= 0) & (self.codes < len(self.classes))).all())


def warped_distance(first: Floats, second: Floats, warping: int = _WARPING) -> Floats:
    """The dynamic time warping of each of (a, m) with each of (b, m): shape (a, b).

    The least sum of squared differences along a path of steps (1, 0), (0, 1), (1, 1) that stays within
    ``warping`` steps of the diagonal (Sakoe and Chiba, 1978). Its square root is often called the distance;
    the order is the same.
    """
    steps = first.shape[1]
    far = np.full((len(first), len(second)), np.inf)
    before = {-1: np.zeros_like(far)}
    for row in range(steps):
        now: dict[int, Floats] = {}
        for column in range(max(0, row - warping), min(steps, row + warping + 1)):
            least = np.minimum(before.get(column, far), before.get(column - 1, far))
            np.minimum(least, now.get(column - 1, far), out=least)
            now[column] = (first[:, row, None] - second[None, :, column]) ** 2 + least
        before = now
    return before[steps - 1]


class NaiveBayes(_OfThePaper):
    """Gaussian naive Bayes; the RTTs of a class are not independent, as the paper says itself."""

    name = "gnb"
    what = "the paper's: Gaussian naive Bayes"
    learnt = ("means", "variances", "log_prior")
    means: Floats
    variances: Floats
    log_prior: Floats

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        series = _rtt_ms(windows)
        classes = range(len(self.classes))
        self.means = np.stack([series[codes == code].mean(axis=0) for code in classes])
        floor = max(_SMOOTHING * float(series.var(axis=0).max()), 1e-12)
        self.variances = np.stack([series[codes == code].var(axis=0) for code in classes]) + floor
        self.log_prior = np.log(np.bincount(codes) / len(codes))

    def _predict(self, windows: Windows) -> Floats:
        away = (_rtt_ms(windows)[:, None] - self.means) ** 2 / self.variances
        return softmax(self.log_prior - 0.5 * (away + np.log(self.variances)).sum(axis=2))

    def _is_consistent(self) -> bool:
        shape = len(self.classes), self.steps
        rows = has(self.means, *shape) and has(self.variances, *shape)
        return rows and has(self.log_prior, shape[0]) and bool((self.variances > 0).all())


class SupportVectors(_OfThePaper):
    """A support vector machine, one class against one: each pair has a vote; of equals the first wins."""

    name = "svm"
    what = "the paper's: support vector machine, RBF kernel"
    learnt = ("vectors_ms", "counts", "duals", "offsets", "gamma")
    vectors_ms: Floats
    """The vectors in milliseconds, class after class: shape (vectors, steps)."""
    counts: NDArray[np.int32]
    """The number of vectors of each class."""
    duals: Floats
    """The ``dual_coef_`` of scikit-learn: shape (classes − 1, vectors)."""
    offsets: Floats
    """The constant of each pair (0, 1), (0, 2), …"""
    gamma: Floats
    """The factor in exp(−gamma |x − y|²): shape (1,)."""

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        series = _rtt_ms(windows)
        spread = float(series.var())
        self.gamma = np.array([1 / (series.shape[1] * spread) if spread > 0 else 1.0])
        machine = scikit_learn("svm", self.name).SVC(gamma=self.gamma[0]).fit(series, codes)
        self.vectors_ms, self.duals = machine.support_vectors_, np.ascontiguousarray(machine.dual_coef_)
        self.counts, self.offsets = machine.n_support_.astype(np.int32), machine.intercept_.copy()
        if len(self.classes) == 2:
            # Of two classes scikit-learn turns the signs round.
            self.duals, self.offsets = -self.duals, -self.offsets

    def _predict(self, windows: Windows) -> Floats:
        series = _rtt_ms(windows)
        square = (series**2).sum(axis=1)[:, None] + (self.vectors_ms**2).sum(axis=1)
        near = np.exp(-self.gamma[0] * np.maximum(square - 2 * series @ self.vectors_ms.T, 0))
        ends = np.cumsum(self.counts)
        parts = [slice(end - count, end) for end, count in zip(ends, self.counts, strict=True)]
        votes = np.zeros((len(series), len(self.classes)))
        pair = 0
        for one in range(len(self.classes)):
            for other in range(one + 1, len(self.classes)):
                side = near[:, parts[one]] @ self.duals[other - 1, parts[one]]
                side = side + near[:, parts[other]] @ self.duals[one, parts[other]] + self.offsets[pair]
                votes[:, one] += side > 0
                votes[:, other] += side <= 0
                pair += 1
        return softmax(votes)

    def _is_consistent(self) -> bool:
        if not (has(self.vectors_ms, None, self.steps) and has(self.gamma, 1)):
            return False
        classes, vectors = len(self.classes), len(self.vectors_ms)
        return (
            has(self.counts, classes, dtype=np.int32)
            and bool((self.counts > 0).all())
            and int(self.counts.sum()) == vectors
            and has(self.duals, classes - 1, vectors)
            and has(self.offsets, classes * (classes - 1) // 2)
        )


class Perceptron(_OfThePaper):
    """A perceptron with two hidden layers of 64."""

    name = "mlp"
    what = "the paper's: perceptron, two hidden layers of 64"
    learnt = ("first", "second", "last")
    first: Floats
    """The first layer: shape (steps + 1, 64). The last row is constants, as in the others."""
    second: Floats
    last: Floats

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        trainer = scikit_learn("neural_network", self.name)
        made = trainer.MLPClassifier(_HIDDEN, random_state=int(rng.integers(1 << 31)))
        with warnings.catch_warnings():
            # 200 rounds are its default, whether they settle or not.
            warnings.simplefilter("ignore")
            made.fit(_rtt_ms(windows), codes)
        self.first, self.second, self.last = (
            np.vstack([weights, constants])
            for weights, constants in zip(made.coefs_, made.intercepts_, strict=True)
        )
        if len(self.classes) == 2:
            # scikit-learn has one output for two classes: the score of the second.
            self.last = np.hstack([np.zeros_like(self.last), self.last])

    def _predict(self, windows: Windows) -> Floats:
        values = _rtt_ms(windows)
        for layer in (self.first, self.second):
            values = np.maximum(values @ layer[:-1] + layer[-1], 0)
        return softmax(values @ self.last[:-1] + self.last[-1])

    def _is_consistent(self) -> bool:
        one, two = _HIDDEN
        return (
            has(self.first, self.steps + 1, one)
            and has(self.second, one + 1, two)
            and has(self.last, two + 1, len(self.classes))
        )
