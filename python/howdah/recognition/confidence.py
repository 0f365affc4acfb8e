"""Confidence: probabilities that mean what they say, and when they are enough to answer early.

Calibration: of what is said with probability p, a share p is so. Temperature scaling (Guo, Pleiss, Sun and
Weinberger, ICML 2017) takes probabilities to the power of 1 / T, with T of the least log loss on windows of
runs the classifier had not seen. One number hardly overfits and never changes which class is first. It is
fitted as if one more window had been of any class (Platt's targets, 1999): where all windows are right, few
allow less confidence than many.

Early stopping: a window is judged at several lengths, each by a classifier of its own. The first that gives a
class at least ``threshold``, to a window near what was seen in training, is the answer; the last one answers
in any case. The threshold is the one that takes the least time and is less accurate than whole windows by one
window in 200 at most, on runs that were not seen.

Novelty: whether a window resembles anything that a model was trained on. The distance is that to the nearest
class in feature space: Mahalanobis', with one covariance within classes,
shrunk towards its diagonal (Lee, Lee, Lee and Shin, NeurIPS 2018, take the same of a network's features).
How far is too far is set by classes left out in turn: where they are told best from windows of known classes
in runs not seen, but no nearer than what would call more than 5 % of those new. To stop listening early a
window has to be as near as nine in ten of those are: what is left out next may be nearer than what was left
out here, and going on costs a known window no more than time.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah.recognition.classifier import Arrays, has, has_standardiser
from howdah.recognition.features import features, names
from howdah.recognition.rows import Floats, Mask, Standardiser, softmax
from howdah.recognition.windows import Codes, Fold, Rows, Windows

BINS = 15
COOLEST, HOTTEST = 0.05, 20.0
NEVER = 1.0
"""A threshold that no probability reaches before the last stage."""
MOST_LOST = 0.005
"""The accuracy that stopping early may cost."""
_THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, NEVER)
"""A probability below the first is not sure, however right it was on few windows."""
_LEAST = 1e-6


def cooled(probabilities: Floats, temperature: float) -> Floats:
    """Probabilities at a temperature, above 1 less sure and below 1 surer: shape (n, classes)."""
    return softmax(np.log(np.maximum(probabilities, _LEAST)) / temperature)


def temperature(probabilities: Floats, codes: Codes) -> float:
    """The temperature of least log loss, from ``COOLEST`` to ``HOTTEST``, or 1 for no windows."""
    if not len(codes):
        return 1.0
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    windows, classes = probabilities.shape
    wanted = (windows * np.eye(classes)[codes] + 1 / classes) / (windows + 1)

    def loss(log_temperature: float) -> float:
        likely = cooled(probabilities, float(np.exp(log_temperature)))
        return float(-np.mean(np.sum(wanted * np.log(np.maximum(likely, 1e-300)), axis=1)))

    found = minimize_scalar(loss, bounds=(np.log(COOLEST), np.log(HOTTEST)), method="bounded")
    return float(np.exp(found.x))


def calibrated_across(fold: NDArray[np.intp], probabilities: Floats, codes: Codes) -> Floats:
    """Cools each fold by the temperature of all others, so that its calibration can be judged."""
    found = probabilities.copy()
    for number in np.unique(fold):
        inside = fold == number
        found[inside] = cooled(probabilities[inside], temperature(probabilities[~inside], codes[~inside]))
    return found


def expected_calibration_error(probabilities: Floats, codes: Codes) -> float:
    """The mean distance of confidence and accuracy over ``BINS`` equal bins, weighted by their windows."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == codes
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    away = np.bincount(place, confidence - right, minlength=BINS)
    return float(np.abs(away).sum() / len(codes))


class StoppingScore(msgspec.Struct, frozen=True, kw_only=True):
    """The cost and the gain of a threshold."""

    threshold: float
    accuracy: float
    mean_s: float
    """The mean time listened to."""


class StageProbabilities(NamedTuple):
    """The probabilities of n windows at all stages."""

    probabilities: NDArray[np.float64]
    """The probabilities: shape (stages, n, classes)."""
    near: Mask
    """Whether a window is near what was seen in training: shape (stages, n)."""
    lengths_s: Floats
    """The length of each stage: shape (stages,)."""
    codes: Codes
    """The true classes: shape (n,)."""

    def of(self, chosen: Mask) -> "StageProbabilities":
        """The answers on some of the windows."""
        return StageProbabilities(
            self.probabilities[:, chosen], self.near[:, chosen], self.lengths_s, self.codes[chosen]
        )

    def score(self, threshold: float, stages: Rows) -> StoppingScore:
        """The score when each window is answered at its stage of (n,)."""
        said = self.probabilities[stages, np.arange(len(stages))].argmax(axis=1)
        return StoppingScore(
            threshold=threshold,
            accuracy=float((said == self.codes).mean()),
            mean_s=float(self.lengths_s[stages].mean()),
        )


def is_sure(probabilities: Floats, near: Mask, threshold: float) -> Mask:
    """Whether windows need no more listening: of probabilities (…, n, classes), shape (…, n)."""
    sure: Mask = (probabilities.max(axis=-1) >= threshold) & (threshold < NEVER) & near
    return sure


def stops(judged: StageProbabilities, threshold: float) -> Rows:
    """The stage at which each window is answered: shape (n,)."""
    sure = is_sure(judged.probabilities, judged.near, threshold)
    sure[-1] = True
    found: Rows = sure.argmax(axis=0)
    return found


def stopping_curve(judged: StageProbabilities) -> list[StoppingScore]:
    """Accuracy against seconds, threshold by threshold; the last is that of whole windows."""
    return [judged.score(threshold, stops(judged, threshold)) for threshold in _THRESHOLDS]


def choose(curve: Sequence[StoppingScore]) -> StoppingScore:
    """The quickest of a curve that is as accurate as whole windows, but for ``MOST_LOST``."""
    enough = curve[-1].accuracy - MOST_LOST
    return min((each for each in curve if each.accuracy >= enough), key=lambda each: each.mean_s)


def stopped_across(fold: NDArray[np.intp], judged: StageProbabilities) -> StoppingScore:
    """Stops each fold by the threshold of all others; ``threshold`` is that of all together."""
    at = np.full(len(judged.codes), len(judged.lengths_s) - 1)
    for number in np.unique(fold):
        inside = fold == number
        if not inside.all():
            at[inside] = stops(judged.of(inside), choose(stopping_curve(judged.of(~inside))).threshold)
    return judged.score(choose(stopping_curve(judged)).threshold, at)


MOST_FALSE = 0.05
NEAR = 0.9
_SHRUNK = 0.2


class NoveltyScores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of telling classes left out of training from known ones."""

    false_alarms: float
    """The share of windows of known classes, in runs not seen, that are called new."""
    found: dict[str, float]
    """The share of windows that are called new, by class left out of training."""


class ClassDistance(NamedTuple):
    """The distance from the classes seen: the centre of each and the spread about them."""

    mean: Floats
    sd: Floats
    whitening: Floats
    """The inverse of the spread's Cholesky factor: shape (columns, columns), lower triangular."""
    centres: Floats
    """The centres of classes, standardised: shape (classes, columns)."""

    @classmethod
    def of(cls, rows: Floats, codes: Codes) -> Self:
        """The distance from classes with these features (n, columns)."""
        standardise = Standardiser.of(rows)
        scaled = standardise(rows)
        known, place = np.unique(codes, return_inverse=True)
        centres = np.stack([scaled[codes == code].mean(axis=0) for code in known])
        away = scaled - centres[place]
        spread = away.T @ away / len(away)
        diagonal = np.diag(np.diag(spread)) + 1e-3 * np.eye(len(spread))
        whitening = np.linalg.inv(np.linalg.cholesky((1 - _SHRUNK) * spread + _SHRUNK * diagonal))
        return cls(*standardise, whitening, centres)

    def of_windows(self, windows: Windows) -> Floats:
        """The distance of windows from the nearest class, about 1 for what is known: shape (n,)."""
        return self.of_rows(features(windows))

    def of_rows(self, rows: Floats) -> Floats:
        """The distance of features (n, columns) from the nearest class: shape (n,)."""
        placed = Standardiser(self.mean, self.sd)(rows) @ self.whitening.T
        centres = self.centres @ self.whitening.T
        square = np.stack([((placed - centre) ** 2).sum(axis=1) for centre in centres])
        found: Floats = np.sqrt(square.min(axis=0) / len(self.mean))
        return found

    def arrays(self) -> Arrays:
        """The arrays that are kept; of the triangular whitening, what is not zero."""
        return {**self._asdict(), "whitening": self.whitening[np.tril_indices(len(self.mean))]}

    @classmethod
    def restored(cls, arrays: Arrays) -> Self:
        """The distance of these arrays. Raises ValueError when they do not fit together."""
        columns = len(names())
        consistent = (
            set(arrays) == set(cls._fields)
            and has_standardiser(arrays["mean"], arrays["sd"], columns)
            and has(arrays["whitening"], columns * (columns + 1) // 2)
            and has(arrays["centres"], None, columns)
        )
        if not consistent:
            raise ValueError("the arrays of what is familiar do not fit together")
        whitening = np.zeros((columns, columns))
        whitening[np.tril_indices(columns)] = arrays["whitening"]
        return cls(**{**arrays, "whitening": whitening})


class DistanceLimits(NamedTuple):
    """How far is too far, and what that is worth."""

    new: float
    """A window beyond it is like nothing seen."""
    near: float
    """A window up to it is surely like something seen; at most ``new``."""
    scores: NoveltyScores
    distances: Floats
    """The distance of each window when its run is left out, infinite where no fold tests it: shape (n,)."""


def limits(rows: Floats, codes: Codes, classes: Sequence[str], folds: Sequence[Fold]) -> DistanceLimits:
    """The limits by features (n, columns), their codes and names, and folds that keep runs whole."""
    distances = np.full(len(rows), np.inf)
    for train, test in folds:
        distances[test] = ClassDistance.of(rows[train], codes[train]).of_rows(rows[test])
    known = distances[np.isfinite(distances)]
    found = {
        name: ClassDistance.of(rows[codes != code], codes[codes != code]).of_rows(rows[codes == code])
        for code, name in enumerate(classes)
    }
    strange = np.concatenate(list(found.values()))
    new = max(float(np.quantile(known, 1 - MOST_FALSE)), _parting(known, strange))
    near = min(float(np.quantile(known, NEAR)), new)
    scores = NoveltyScores(
        false_alarms=float(np.mean(known > new)),
        found={name: float(np.mean(each > new)) for name, each in found.items()},
    )
    return DistanceLimits(new, near, scores, distances)


def _parting(near: Floats, far: Floats) -> float:
    """The place where the share of ``far`` above it exceeds that of ``near`` the most (Youden's J)."""
    places = np.sort(np.concatenate([near, far]))
    above_far = 1 - np.searchsorted(np.sort(far), places, side="right") / len(far)
    above_near = 1 - np.searchsorted(np.sort(near), places, side="right") / len(near)
    return float(places[int(np.argmax(above_far - above_near))])
