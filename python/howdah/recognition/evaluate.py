"""How good a classifier is on what it has not seen, in three ways: windows at random, whole runs, whole
paths.

The first is the paper's protocol and flatters; the second says what is to be expected on a path like those
trained on, the third on one unlike them. Probabilities are calibrated on the other folds.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.recognition import calibration, folds
from howdah.recognition.contract import SEED, Classifier, Codes
from howdah.recognition.folds import Fold
from howdah.recognition.recording import Floats, holds
from howdah.recognition.windows import Examples

Protocol = Literal["random", "runs", "paths"]
PROTOCOLS: tuple[Protocol, ...] = ("runs", "paths", "random")
FOLDS = 5
"""The paper's."""

Tick = Callable[[str], None]
"""Told what begins, for those who wait."""


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Of one classifier by one protocol."""

    protocol: Protocol
    windows: int
    """Judged, each once."""
    folds: int
    accuracy: float
    accuracy_bbr: float | None
    """Of "is there BBR"; null where all classes or none have it."""
    calibration_error: float
    """Expected, over 15 bins."""
    confusion: list[list[int]]
    """Rows are what was there, columns what was said, in the order of the classes."""


class Judged(NamedTuple):
    """Windows judged by classifiers that had not seen their fold."""

    rows: NDArray[np.intp]
    """Of the examples, ascending."""
    codes: Codes
    probabilities: Floats
    """Not calibrated: shape (rows, classes)."""
    fold: NDArray[np.intp]


def folds_of(examples: Examples, protocol: Protocol) -> list[Fold]:
    """Train and test rows of a protocol. Raises HowdahError when the examples do not allow it."""
    codes, rng = np.unique(examples.labels, return_inverse=True)[1], np.random.default_rng(SEED)
    match protocol:
        case "random":
            return list(folds.random(codes, FOLDS, rng))
        case "paths":
            found = _paths(examples)
            if not found:
                raise HowdahError(
                    "no path can be left out so that two classes remain on others; record on another path"
                )
            return found
        case "runs":
            _check_runs(examples)
            return list(folds.whole(codes, examples.runs, FOLDS, rng))


def judge(
    make: type[Classifier], examples: Examples, parts: Sequence[Fold], tick: Tick = lambda what: None
) -> Judged:
    """Fits and asks, fold by fold. A class missing from what a fold is trained on has probability 0 there."""
    classes, codes = np.unique(examples.labels, return_inverse=True)
    probabilities, fold = np.zeros((len(codes), len(classes))), np.full(len(codes), -1)
    for number, (train, test) in enumerate(parts):
        tick(f"{make.name}, {examples.windows.length_s:g} s, fold {number + 1} of {len(parts)}")
        fitted = fit(make, examples, train, test)
        known = np.searchsorted(classes, fitted.classes)
        probabilities[np.ix_(test, known)] = fitted.predict_proba(examples.windows[test])
        fold[test] = number
    rows = np.flatnonzero(fold >= 0)
    return Judged(rows, codes[rows].astype(np.int64), probabilities[rows], fold[rows])


def fit(
    make: type[Classifier], examples: Examples, train: NDArray[np.intp], test: NDArray[np.intp]
) -> Classifier:
    """One that has learnt from ``train`` and, if it can, from what is between, but nothing of ``test``."""
    own = examples if make.learns_between else examples._replace(between=None)
    learnt = own.to_learn(train, test)
    return make().fit(learnt.windows, learnt.labels, learnt.runs)


def score(judged: Judged, classes: Sequence[str], protocol: Protocol) -> Scores:
    """What came of it, calibrated across folds."""
    likely = calibration.cross_fitted(judged.probabilities, judged.codes, judged.fold)
    said = likely.argmax(axis=1)
    confusion = np.zeros((len(classes), len(classes)), int)
    np.add.at(confusion, (judged.codes, said), 1)
    bbr = np.array([holds(name, "bbr") for name in classes])
    mixed = bool(bbr.any() and not bbr.all())
    return Scores(
        protocol=protocol,
        windows=len(judged.codes),
        folds=len(np.unique(judged.fold)),
        accuracy=float(np.mean(said == judged.codes)),
        accuracy_bbr=float(np.mean((likely[:, bbr].sum(axis=1) > 0.5) == bbr[judged.codes]))
        if mixed
        else None,
        calibration_error=calibration.expected_calibration_error(likely, judged.codes),
        confusion=confusion.tolist(),
    )


def evaluate(
    make: type[Classifier],
    examples: Examples,
    protocols: Iterable[Protocol] = PROTOCOLS,
    tick: Tick = lambda what: None,
) -> list[Scores]:
    """By each protocol. Raises HowdahError when the examples do not allow one."""
    classes = np.unique(examples.labels).tolist()
    return [
        score(judge(make, examples, folds_of(examples, protocol), tick), classes, protocol)
        for protocol in protocols
    ]


def possible(examples: Examples) -> list[Protocol]:
    """The protocols that examples allow: paths can be left out when there are others."""
    return [each for each in PROTOCOLS if each != "paths" or _paths(examples)]


def _paths(examples: Examples) -> list[Fold]:
    """Paths left out, as long as there are classes to tell apart on the others."""
    left_out = (fold for _, fold in folds.leave_out(examples.paths))
    return [fold for fold in left_out if len(np.unique(examples.labels[fold[0]])) > 1]


def _check_runs(examples: Examples) -> None:
    for run in np.unique(examples.runs):
        if len(found := np.unique(examples.labels[examples.runs == run])) > 1:
            raise HowdahError(
                f"run {str(run)!r} is of {' and of '.join(map(repr, map(str, found)))}; name runs apart"
            )
    for name in np.unique(examples.labels):
        if len(np.unique(examples.runs[examples.labels == name])) < 2:
            raise HowdahError(
                f"class {str(name)!r} has one run, so none can be kept for testing; record it twice at least"
            )
