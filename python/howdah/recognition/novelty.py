"""Whether a window is like anything a model was trained on.

Distance to the nearest class in feature space: Mahalanobis', with one covariance within classes, shrunk
towards its diagonal (Lee, Lee, Lee and Shin, NeurIPS 2018, take the same of a network's features). How far is
too far is set by classes left out in turn: where they are told best from windows of known classes in runs not
seen, but no nearer than what would call more than 5 % of those new. To stop listening early a window has to
be as near as nine in ten of those are: what is left out next may be nearer than what was left out here,
and going on costs a known window no more than time.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec
import numpy as np

from howdah.recognition.arrays import Arrays
from howdah.recognition.contract import Codes, has
from howdah.recognition.features import features, names
from howdah.recognition.folds import Fold
from howdah.recognition.logistic import Standard
from howdah.recognition.recording import Floats
from howdah.recognition.windows import Windows

MOST_FALSE = 0.05
NEAR = 0.9
_SHRUNK = 0.2
LEARNT = ("mean", "sd", "whitening", "centres")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """How well what was left out was told from what was known."""

    false_alarms: float
    """Share of windows of known classes, in runs not seen, that are called new."""
    found: dict[str, float]
    """Of each class, left out of training, the share of its windows called new."""


class Familiar:
    """What was seen: the centre of each class and the spread about them."""

    def __init__(self, mean: Floats, sd: Floats, whitening: Floats, centres: Floats) -> None:
        self.mean, self.sd, self.whitening, self.centres = mean, sd, whitening, centres

    @classmethod
    def of(cls, rows: Floats, codes: Codes) -> Self:
        """Of features (n, columns) and their classes."""
        standard = Standard.of(rows)
        scaled = standard(rows)
        known, place = np.unique(codes, return_inverse=True)
        centres = np.stack([scaled[codes == code].mean(axis=0) for code in known])
        away = scaled - centres[place]
        spread = away.T @ away / len(away)
        diagonal = np.diag(np.diag(spread)) + 1e-3 * np.eye(len(spread))
        whitening = np.linalg.inv(np.linalg.cholesky((1 - _SHRUNK) * spread + _SHRUNK * diagonal))
        return cls(standard.mean, standard.sd, whitening, centres)

    def distance(self, windows: Windows) -> Floats:
        """From the nearest class, about 1 for what is familiar: shape (n,)."""
        return self.distance_of(features(windows))

    def distance_of(self, rows: Floats) -> Floats:
        """The same of features."""
        placed = Standard(self.mean, self.sd)(rows) @ self.whitening.T
        centres = self.centres @ self.whitening.T
        square = np.stack([((placed - centre) ** 2).sum(axis=1) for centre in centres])
        found: Floats = np.sqrt(square.min(axis=0) / len(self.mean))
        return found

    def arrays(self) -> Arrays:
        """All of it; of the whitening, which is lower triangular, what is not zero."""
        held = {name: getattr(self, name) for name in LEARNT}
        return {**held, "whitening": self.whitening[np.tril_indices(len(self.mean))]}

    @classmethod
    def restored(cls, held: Arrays) -> Self:
        """From its arrays. Raises ValueError when they do not fit together."""
        columns = len(names())
        sound = (
            set(held) == set(LEARNT)
            and has(held["mean"], np.float64, columns)
            and has(held["sd"], np.float64, columns)
            and bool((held["sd"] > 0).all())
            and has(held["whitening"], np.float64, columns * (columns + 1) // 2)
            and has(held["centres"], np.float64, None, columns)
        )
        if not sound:
            raise ValueError("the arrays of what is familiar do not fit together")
        whitening = np.zeros((columns, columns))
        whitening[np.tril_indices(columns)] = held["whitening"]
        return cls(**{**held, "whitening": whitening})


class Limits(NamedTuple):
    """How far is too far, and what that is worth."""

    new: float
    """Beyond it a window is like nothing seen."""
    near: float
    """Up to it a window is surely like something seen; at most ``new``."""
    told: Told
    distances: Floats
    """Of each window when its run is left out; infinite where no fold tests it: shape (n,)."""


def limits(rows: Floats, codes: Codes, classes: Sequence[str], folds: Sequence[Fold]) -> Limits:
    """From features (n, columns), their codes, the names of these, and folds that keep runs whole."""
    distances = np.full(len(rows), np.inf)
    for train, test in folds:
        distances[test] = Familiar.of(rows[train], codes[train]).distance_of(rows[test])
    known = distances[np.isfinite(distances)]
    found = {
        name: Familiar.of(rows[codes != code], codes[codes != code]).distance_of(rows[codes == code])
        for code, name in enumerate(classes)
    }
    strange = np.concatenate(list(found.values()))
    new = max(float(np.quantile(known, 1 - MOST_FALSE)), _parting(known, strange))
    near = min(float(np.quantile(known, NEAR)), new)
    told = Told(
        false_alarms=float(np.mean(known > new)),
        found={name: float(np.mean(each > new)) for name, each in found.items()},
    )
    return Limits(new, near, told, distances)


def _parting(near: Floats, far: Floats) -> float:
    """Where the share of ``far`` above less that of ``near`` above is largest (Youden's J)."""
    places = np.sort(np.concatenate([near, far]))
    above_far = 1 - np.searchsorted(np.sort(far), places, side="right") / len(far)
    above_near = 1 - np.searchsorted(np.sort(near), places, side="right") / len(near)
    return float(places[int(np.argmax(above_far - above_near))])
