"""Early stopping: listen no longer than it takes to be sure.

A window is judged at several lengths, each by a classifier of its own; the first that gives a class at least
``threshold``, to a window near what was seen in training, is the answer; the last one answers in any case.
The threshold is the one that takes the least time and is less accurate than whole windows by one window in
200 at most, on runs that were not seen.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah.recognition.contract import Codes
from howdah.recognition.recording import Floats

NEVER = 1.0
"""No probability reaches it before the last stage."""
MOST_LOST = 0.005
"""Of accuracy, for stopping early."""
_THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, NEVER)
"""Less than the first is not sure, however right it was on few windows."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What a threshold costs and gives."""

    threshold: float
    accuracy: float
    mean_s: float
    """Listened to, on average."""


class Heard(NamedTuple):
    """n windows judged at all stages."""

    probabilities: NDArray[np.float64]
    """Shape (stages, n, classes)."""
    near: NDArray[np.bool_]
    """What was seen in training: shape (stages, n)."""
    lengths_s: Floats
    """Shape (stages,)."""
    codes: Codes
    """What was there: shape (n,)."""

    def of(self, chosen: NDArray[np.bool_]) -> "Heard":
        """Some of the windows."""
        return Heard(self.probabilities[:, chosen], self.near[:, chosen], self.lengths_s, self.codes[chosen])

    def right(self, stages: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which windows are right when each is answered at its stage of (n,)."""
        said = self.probabilities[stages, np.arange(len(stages))].argmax(axis=1)
        found: NDArray[np.bool_] = said == self.codes
        return found


def is_sure(probabilities: Floats, near: NDArray[np.bool_], threshold: float) -> NDArray[np.bool_]:
    """Which windows need no more listening: of probabilities (…, n, classes), shape (…, n)."""
    sure: NDArray[np.bool_] = (probabilities.max(axis=-1) >= threshold) & (threshold < NEVER) & near
    return sure


def stops(heard: Heard, threshold: float) -> NDArray[np.intp]:
    """The stage at which each window is answered: shape (n,)."""
    sure = is_sure(heard.probabilities, heard.near, threshold)
    sure[-1] = True
    found: NDArray[np.intp] = sure.argmax(axis=0)
    return found


def curve(heard: Heard) -> list[Stopped]:
    """Accuracy against seconds, threshold by threshold; the last is that of whole windows."""
    found = []
    for threshold in _THRESHOLDS:
        at = stops(heard, threshold)
        found.append(
            Stopped(
                threshold=threshold,
                accuracy=float(heard.right(at).mean()),
                mean_s=float(heard.lengths_s[at].mean()),
            )
        )
    return found


def choose(known: Sequence[Stopped]) -> Stopped:
    """Of a curve the quickest that is as accurate as whole windows, but for ``MOST_LOST``."""
    enough = known[-1].accuracy - MOST_LOST
    return min((each for each in known if each.accuracy >= enough), key=lambda each: each.mean_s)


def cross_fitted(heard: Heard, fold: NDArray[np.intp]) -> Stopped:
    """Each fold stopped by the threshold of all others; ``threshold`` is that of all together."""
    at = np.full(len(heard.codes), len(heard.lengths_s) - 1)
    for number in np.unique(fold):
        inside = fold == number
        if not inside.all():
            at[inside] = stops(heard.of(inside), choose(curve(heard.of(~inside))).threshold)
    return Stopped(
        threshold=choose(curve(heard)).threshold,
        accuracy=float(heard.right(at).mean()),
        mean_s=float(heard.lengths_s[at].mean()),
    )
