"""What every classifier is: ``fit``, ``predict_proba``, and arrays that are all it has learnt.

Labels come as names and are codes inside, so that classifiers are small. What must hold of each
(probabilities sum to one, arrays tell the same, windows of another kind are refused) is tested once over all.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.recognition.arrays import Arrays
from howdah.recognition.recording import Floats
from howdah.recognition.windows import Windows

Codes = NDArray[np.int64]
SEED = 20210608
_SUMS = 1e-6
_LEAST = 1e-6
"""No part of a window alone makes a class less likely than that."""


class Classifier(ABC):
    """Says how likely each class is for each window."""

    name: ClassVar[str]
    what: ClassVar[str]
    """In a line, for people."""
    own_step_s: ClassVar[float] = 0.0
    """Windows are judged in steps of at least this: the paper's classifiers know one RTT a second."""

    own_length_s: ClassVar[float] = math.inf
    """Longer windows are judged by equal parts of at most this, each for itself: a class is as likely as the
    geometric mean over them. So there is more to learn from, and what sounds like another for a while counts
    for no more than that."""

    learns_between: ClassVar[bool] = False
    """From windows that overlap, too. The paper's learn from those that are judged alone, as they did."""

    learns_twice: ClassVar[bool] = False
    """With the base RTT known, and with the least RTT of a window for it, as where nobody knows better."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.steps = 0
        self.step_s = 0.0

    def fit(
        self, windows: Windows, labels: NDArray[np.str_], groups: NDArray[np.str_], seed: int = SEED
    ) -> Self:
        """Learns from windows of shape (n, m) with labels and groups (runs) of shape (n,).

        Whatever is chosen inside (a penalty, say) is chosen by groups kept whole. The same arguments give the
        same classifier. Raises HowdahError with fewer than two classes.
        """
        if not len(windows) == len(labels) == len(groups):
            raise ValueError("each window needs a label and a group")
        known, codes = np.unique(labels, return_inverse=True)
        if len(known) < 2:
            raise HowdahError(
                f"there is nothing to tell apart: all windows are of {len(known)} class; record others"
            )
        seen = windows.coarser(self.own_step_s)
        self.classes, self.steps, self.step_s = known.tolist(), seen.rtt_s.shape[1], seen.step_s
        count = self._parts(seen)
        seen, codes, groups = seen.parts(count), codes.astype(np.int64).repeat(count), groups.repeat(count)
        heard = seen.heard
        seen, codes, groups = seen[heard], codes[heard], groups[heard]
        if self.learns_twice:
            seen, codes, groups = seen.twice(), np.tile(codes, 2), np.tile(groups, 2)
        self._fit(seen, codes, groups, np.random.default_rng(seed))
        return self

    def predict_proba(self, windows: Windows) -> Floats:
        """Probability of each of ``classes``: shape (n, classes); rows sum to 1.

        Raises HowdahError for windows of another length or step than those it was fitted to.
        """
        seen = windows.coarser(self.own_step_s)
        if seen.rtt_s.shape[1] != self.steps or abs(seen.step_s / self.step_s - 1) > _SUMS:
            raise HowdahError(
                f"{self.name} was trained on {self.steps} steps of {self.step_s:g} s and cannot judge "
                f"{seen.rtt_s.shape[1]} of {seen.step_s:g} s; train it on such windows"
            )
        if not len(seen):
            return np.empty((0, len(self.classes)))
        count = self._parts(seen)
        with np.errstate(all="ignore"):
            parts = seen.parts(count)
            found = self._predict(parts)
            if count > 1:
                # What was not heard tells nothing.
                found[~parts.heard] = 1.0
                found = np.maximum(found / found.sum(axis=1, keepdims=True), _LEAST)
                found = np.exp(np.log(found).reshape(len(seen), count, -1).mean(axis=1))
            found /= found.sum(axis=1, keepdims=True)
        if not np.isfinite(found).all():
            raise HowdahError(f"what {self.name} has learnt is beyond what numbers can hold; train it again")
        return found

    def _parts(self, windows: Windows) -> int:
        return max(1, math.ceil(windows.length_s / self.own_length_s - _SUMS))

    def arrays(self) -> Arrays:
        """All that was learnt; with ``classes``, ``steps`` and ``step_s`` it is the classifier."""
        return {name: np.asarray(getattr(self, name)) for name in self._learnt()}

    @classmethod
    def restored(
        cls, held: Mapping[str, NDArray[np.generic]], classes: list[str], steps: int, step_s: float
    ) -> Self:
        """The classifier of these arrays. Raises ValueError when they do not fit together."""
        self = cls()
        if set(held) != set(cls._learnt()):
            raise ValueError(f"{cls.name} needs the arrays {', '.join(cls._learnt())}")
        self.classes, self.steps, self.step_s = classes, steps, step_s
        for name, values in held.items():
            setattr(self, name, values)
        if not self._sound():
            raise ValueError(f"the arrays of {cls.name} do not fit together")
        return self

    @classmethod
    @abstractmethod
    def _learnt(cls) -> tuple[str, ...]:
        """Names of its arrays, which are attributes."""

    @abstractmethod
    def _fit(
        self, windows: Windows, codes: Codes, groups: NDArray[np.str_], rng: np.random.Generator
    ) -> None: ...

    @abstractmethod
    def _predict(self, windows: Windows) -> Floats:
        """Not negative, and each row above zero: shape (n, classes)."""

    @abstractmethod
    def _sound(self) -> bool:
        """Whether arrays from a file have shapes and values that prediction can rely on."""


def has(values: object, dtype: type[np.generic], *shape: int | None) -> bool:
    """Whether these are an array of that dtype and shape; None is any length but zero."""
    if not (isinstance(values, np.ndarray) and values.dtype == dtype and values.ndim == len(shape)):
        return False
    return all(
        found == wanted if wanted is not None else found > 0
        for found, wanted in zip(values.shape, shape, strict=True)
    )
