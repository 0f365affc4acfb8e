"""The interface of classifiers: ``fit``, ``predict_proba``, and arrays that are all it has learnt.

Labels come as names and are codes inside, so that classifiers are small. What must hold of each one
(probabilities sum to one, the arrays tell the same, windows of another kind are refused) is tested once over
all. Training needs scikit-learn (the extra ``train``) for most of them; judging needs NumPy
alone.
"""

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.recognition.rows import Floats
from howdah.recognition.windows import Codes, Names, Windows
from howdah.text import with_extra

Arrays = dict[str, NDArray[Any]]
SEED = 20210608
_TOLERANCE = 1e-6
_LEAST = 1e-6
"""No part of a window alone makes a class less likely than this."""


class Classifier(ABC):
    """Judges how likely each class is for each window."""

    name: ClassVar[str]
    what: ClassVar[str]
    """A description of one line, for people."""
    learnt: ClassVar[tuple[str, ...]]
    """The names of its arrays, which are attributes."""
    least_step_s: ClassVar[float] = 0.0
    """Windows are judged in steps of at least this; the paper's classifiers take one RTT a second."""
    longest_s: ClassVar[float] = math.inf
    """Longer windows are judged by equal parts of at most this length, and a class is as likely as the
    geometric mean over the parts. So there is more to learn from, and what resembles another class for a
    while counts for no more than that."""
    learns_between: ClassVar[bool] = False
    """Whether it also learns from windows that overlap. The paper's learn from those that are judged, as
    theirs did."""
    learns_own_base: ClassVar[bool] = False
    """Whether it learns each window a second time with the window's least RTT as its base RTT, for paths
    whose base RTT is not known."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.steps = 0
        self.step_s = 0.0

    def fit(self, windows: Windows, labels: Names, groups: Names, seed: int = SEED) -> Self:
        """Learns from windows of shape (n, m) with labels and groups (runs) of shape (n,).

        Whatever is chosen inside (a penalty, say) is chosen by groups kept whole. The same arguments give the
        same classifier. Raises HowdahError with fewer than two classes, and where scikit-learn is needed and
        missing.
        """
        if not len(windows) == len(labels) == len(groups):
            raise ValueError("each window needs a label and a group")
        known, codes = np.unique(labels, return_inverse=True)
        if len(known) < 2:
            raise HowdahError(
                f"there is nothing to distinguish: all windows are of {len(known)} class; record others"
            )
        seen = windows.coarser(self.least_step_s)
        self.classes, self.steps, self.step_s = known.tolist(), seen.rtt_s.shape[1], seen.step_s
        count = self._parts(seen)
        seen, codes, groups = seen.parts(count), codes.astype(np.int64).repeat(count), groups.repeat(count)
        answered = seen.answered
        seen, codes, groups = seen[answered], codes[answered], groups[answered]
        if self.learns_own_base:
            seen, codes, groups = seen.with_own_base(), np.tile(codes, 2), np.tile(groups, 2)
        self._fit(seen, codes, groups, np.random.default_rng(seed))
        return self

    def predict_proba(self, windows: Windows) -> Floats:
        """The probability of each of ``classes``: shape (n, classes), rows sum to 1.

        Raises HowdahError for windows of another length or step than those it was fitted to.
        """
        seen = windows.coarser(self.least_step_s)
        if seen.rtt_s.shape[1] != self.steps or abs(seen.step_s / self.step_s - 1) > _TOLERANCE:
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
                # A part without answers favours no class.
                found[~parts.answered] = 1.0
                found = np.maximum(found / found.sum(axis=1, keepdims=True), _LEAST)
                found = np.exp(np.log(found).reshape(len(seen), count, -1).mean(axis=1))
            found /= found.sum(axis=1, keepdims=True)
        if not np.isfinite(found).all():
            raise HowdahError(f"{self.name} has numbers that overflow; train it again")
        return found

    def _parts(self, windows: Windows) -> int:
        return max(1, math.ceil(windows.length_s / self.longest_s - _TOLERANCE))

    def arrays(self) -> Arrays:
        """All that was learnt; with ``classes``, ``steps`` and ``step_s`` it is the classifier."""
        return {name: np.asarray(getattr(self, name)) for name in self.learnt}

    @classmethod
    def restored(
        cls, arrays: Mapping[str, NDArray[np.generic]], classes: list[str], steps: int, step_s: float
    ) -> Self:
        """The classifier of these arrays. Raises ValueError when they do not fit together."""
        self = cls()
        if set(arrays) != set(cls.learnt):
            raise ValueError(f"{cls.name} needs the arrays {', '.join(cls.learnt)}")
        self.classes, self.steps, self.step_s = classes, steps, step_s
        for name, values in arrays.items():
            setattr(self, name, values)
        if not self._is_consistent():
            raise ValueError(f"the arrays of {cls.name} do not fit together")
        return self

    @abstractmethod
    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        """Sets the arrays by windows, their codes and their groups."""

    @abstractmethod
    def _predict(self, windows: Windows) -> Floats:
        """Weights of the classes, not negative, each row above zero: shape (n, classes)."""

    @abstractmethod
    def _is_consistent(self) -> bool:
        """Whether arrays from a file have shapes and values that prediction can rely on."""


def has(values: object, *shape: int | None, dtype: type[np.generic] = np.float64) -> bool:
    """Whether values are an array of that shape and dtype; None is any length but zero."""
    if not (isinstance(values, np.ndarray) and values.dtype == dtype and values.ndim == len(shape)):
        return False
    return all(
        found == wanted if wanted is not None else found > 0
        for found, wanted in zip(values.shape, shape, strict=True)
    )


def has_standardiser(mean: object, sd: object, columns: int) -> bool:
    """Whether arrays are means and deviations of so many columns."""
    return has(mean, columns) and has(sd, columns) and bool((np.asarray(sd) > 0).all())


def scikit_learn(module: str, classifier: str) -> Any:  # noqa: ANN401
    """A module of scikit-learn. Raises HowdahError, naming the classifier, where it is not installed."""
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise HowdahError(
            f"{classifier} is trained by scikit-learn; install it with: {with_extra('train')}"
        ) from None
