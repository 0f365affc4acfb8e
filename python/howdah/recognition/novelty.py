"""Novelty: whether a window resembles anything that a model was trained on.

The distance is that to the nearest class in feature space: Mahalanobis', with one covariance within classes,
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

from howdah.recognition.classifier import Arrays, has, has_standardiser
from howdah.recognition.features import features, names
from howdah.recognition.rows import Floats, Standardiser
from howdah.recognition.windows import Codes, Fold, Windows

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
    def restored(cls, held: Arrays) -> Self:
        """The distance of these arrays. Raises ValueError when they do not fit together."""
        columns = len(names())
        consistent = (
            set(held) == set(cls._fields)
            and has_standardiser(held["mean"], held["sd"], columns)
            and has(held["whitening"], columns * (columns + 1) // 2)
            and has(held["centres"], None, columns)
        )
        if not consistent:
            raise ValueError("the arrays of what is familiar do not fit together")
        whitening = np.zeros((columns, columns))
        whitening[np.tril_indices(columns)] = held["whitening"]
        return cls(**{**held, "whitening": whitening})


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
