"""Training of a model from recordings whose background is known, and what the model is worth.

How good a classifier is on what it has not seen is judged in three ways: windows at random, whole runs, whole
paths. The first is the paper's protocol and flatters; the second says what is to be expected on a path like
those trained on, the third on one unlike them. Probabilities are calibrated on the other folds. The model
itself is then trained on everything.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError, __version__
from howdah.recognition import confidence
from howdah.recognition.classifier import SEED, Classifier
from howdah.recognition.confidence import ClassDistance, NoveltyScores, StageProbabilities, StoppingScore
from howdah.recognition.features import features
from howdah.recognition.model import Model, Stage, stage_lengths
from howdah.recognition.recording import Recording, includes
from howdah.recognition.rows import Floats
from howdah.recognition.windows import (
    Codes,
    Examples,
    Fold,
    Rows,
    default_step_s,
    examples,
    leave_out,
    random_folds,
    whole_folds,
)

SCHEMA = 1
FOLDS = 5
"""The number of folds, which is the paper's."""
PARTS = (0.25, 0.5, 0.75, 1.0)
"""The parts of a window at which it is judged."""

Protocol = Literal["random", "runs", "paths"]
PROTOCOLS: tuple[Protocol, ...] = ("runs", "paths", "random")
Tick = Callable[[str], None]
"""Takes what begins, for those who wait."""


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one classifier by one protocol."""

    protocol: Protocol
    windows: int
    """The number of windows judged, each once."""
    folds: int
    accuracy: float
    accuracy_bbr: float | None
    """The accuracy of "is there BBR"; null where all classes or none have it."""
    calibration_error: float
    """The expected calibration error over 15 bins."""
    confusion: list[list[int]]
    """Rows are what was there, columns what was said, in the order of the classes."""


class TrainingRecording(msgspec.Struct, frozen=True, kw_only=True):
    """One recording that was trained on."""

    run: str
    path: str
    background: str
    digest: str
    windows: int


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """The training record, kept beside the model."""

    schema: int = SCHEMA
    howdah: str = __version__
    model: str
    """The digest of the model's file."""
    classifier: str
    seed: int = SEED
    took_s: float
    window_s: float
    step_s: float
    ours: str
    """The situation: what of ours ran beside those that the model recognises."""
    classes: list[str]
    windows: int
    scores: list[Scores]
    """The scores of whole windows: by runs, by paths where there are two, at random."""
    stopped: StoppingScore
    """The score with early stopping, on runs not seen."""
    curve: list[StoppingScore]
    new: NoveltyScores
    recordings: list[TrainingRecording]


class Trained(NamedTuple):
    """The model, and its record but for the digest."""

    model: Model
    record: Training


class ClassifierScores(msgspec.Struct, frozen=True, kw_only=True):
    """One classifier by all protocols that the recordings allow."""

    classifier: str
    what: str
    scores: list[Scores]


class Comparison(NamedTuple):
    """Classifiers on the same windows."""

    windows: int
    window_s: float
    classifiers: list[ClassifierScores]


class HeldOut(NamedTuple):
    """The windows judged by classifiers that had not seen their fold."""

    rows: Rows
    """The rows of the examples, ascending."""
    codes: Codes
    probabilities: Floats
    """Probabilities that are not calibrated: shape (rows, classes)."""
    fold: NDArray[np.intp]


def train(
    recordings: Sequence[tuple[Recording, str]],
    kind: type[Classifier],
    window_s: float,
    step_s: float | None = None,
    tick: Tick = lambda what: None,
) -> Trained:
    """A model of recordings (and their digests), judging windows of ``window_s`` in steps of ``step_s``.

    Raises HowdahError when they are not enough.
    """
    began = time.monotonic()
    known = [each for each, _ in recordings]
    ours = _one_situation(known)
    step_s = step_s or default_step_s(known)
    whole = examples(known, window_s, step_s)
    lengths_s = stage_lengths(whole.windows.length_s, step_s, kind, PARTS)
    if not lengths_s:
        raise HowdahError(
            f"{kind.name} cannot judge {window_s:g} s in steps of {step_s:g} s; take longer windows"
        )
    parts = folds_of(whole, "runs")
    classes, codes = np.unique(whole.labels, return_inverse=True)
    everything, nothing = np.arange(len(codes)), np.arange(0)
    judged = [judge(kind, whole.first(length_s), parts, tick) for length_s in lengths_s]
    rows, true, fold = judged[-1].rows, judged[-1].codes, judged[-1].fold
    stages, limits = [], []
    for length_s, each in zip(lengths_s, judged, strict=True):
        tick(f"{kind.name}, {length_s:g} s, all runs")
        seen = whole.first(length_s)
        columns = features(seen.windows)
        limits.append(confidence.limits(columns, codes, classes.tolist(), parts))
        stages.append(
            Stage(
                length_s=length_s,
                classifier=fit(kind, seen, everything, nothing),
                temperature=confidence.temperature(each.probabilities, true),
                distance=ClassDistance.of(columns, codes),
                new=limits[-1].new,
                near=limits[-1].near,
            )
        )
    staged = StageProbabilities(
        np.stack([confidence.calibrated_across(fold, each.probabilities, true) for each in judged]),
        np.stack([each.distances[rows] <= each.near for each in limits]),
        np.array(lengths_s),
        true,
    )
    stopped = confidence.stopped_across(fold, staged)
    others = [each for each in possible(whole) if each != "runs"]
    return Trained(
        Model(classes.tolist(), step_s, stages, stopped.threshold, ours),
        Training(
            model="",
            classifier=kind.name,
            took_s=time.monotonic() - began,
            window_s=whole.windows.length_s,
            step_s=step_s,
            ours=ours,
            classes=classes.tolist(),
            windows=len(whole.windows),
            scores=[score(judged[-1], classes.tolist(), "runs"), *evaluate(kind, whole, others, tick)],
            stopped=stopped,
            curve=confidence.stopping_curve(staged),
            new=limits[-1].scores,
            recordings=[
                TrainingRecording(
                    run=each.run,
                    path=each.path,
                    background=str(each.label),
                    digest=digest,
                    windows=int(np.sum(whole.runs == each.run)),
                )
                for each, digest in recordings
            ],
        ),
    )


def record_file(model: Path) -> Path:
    """The file of a model's training record."""
    return model.with_suffix(".json")


def evaluate(
    kind: type[Classifier],
    examples: Examples,
    protocols: Iterable[Protocol] = PROTOCOLS,
    tick: Tick = lambda what: None,
) -> list[Scores]:
    """The scores by each protocol. Raises HowdahError when the examples do not allow one."""
    classes = np.unique(examples.labels).tolist()
    return [
        score(judge(kind, examples, folds_of(examples, protocol), tick), classes, protocol)
        for protocol in protocols
    ]


def comparison(
    recordings: Sequence[Recording],
    kinds: Iterable[type[Classifier]],
    window_s: float,
    step_s: float | None = None,
    tick: Tick = lambda what: None,
) -> Comparison:
    """Each classifier by each protocol that the recordings allow, on windows as ``train`` cuts them.

    Raises HowdahError when the recordings are not enough.
    """
    whole = examples(recordings, window_s, step_s or default_step_s(recordings))
    found = [
        ClassifierScores(
            classifier=kind.name, what=kind.what, scores=evaluate(kind, whole, possible(whole), tick)
        )
        for kind in kinds
    ]
    return Comparison(len(whole.labels), whole.windows.length_s, found)


def possible(examples: Examples) -> list[Protocol]:
    """The protocols that examples allow: paths can be left out when there are others."""
    return [each for each in PROTOCOLS if each != "paths" or _paths(examples)]


def folds_of(examples: Examples, protocol: Protocol) -> list[Fold]:
    """The folds of a protocol. Raises HowdahError when the examples do not allow it."""
    codes, rng = np.unique(examples.labels, return_inverse=True)[1], np.random.default_rng(SEED)
    match protocol:
        case "random":
            return list(random_folds(codes, FOLDS, rng))
        case "paths":
            found = _paths(examples)
            if not found:
                raise HowdahError(
                    "no path can be left out so that two classes remain on others; record on another path"
                )
            return found
        case "runs":
            _check_runs(examples)
            return list(whole_folds(codes, examples.runs, FOLDS, rng))


def judge(
    kind: type[Classifier], examples: Examples, parts: Sequence[Fold], tick: Tick = lambda what: None
) -> HeldOut:
    """Judges each fold by a classifier that has learnt from the others.

    A class missing from what a fold is trained on has probability 0 there.
    """
    classes, codes = np.unique(examples.labels, return_inverse=True)
    probabilities, fold = np.zeros((len(codes), len(classes))), np.full(len(codes), -1)
    for number, (train, test) in enumerate(parts):
        tick(f"{kind.name}, {examples.windows.length_s:g} s, fold {number + 1} of {len(parts)}")
        fitted = fit(kind, examples, train, test)
        known = np.searchsorted(classes, fitted.classes)
        probabilities[np.ix_(test, known)] = fitted.predict_proba(examples.windows[test])
        fold[test] = number
    rows = np.flatnonzero(fold >= 0)
    return HeldOut(rows, codes[rows].astype(np.int64), probabilities[rows], fold[rows])


def fit(kind: type[Classifier], examples: Examples, train: Rows, test: Rows) -> Classifier:
    """A classifier fitted to ``train`` and, if it can be, to windows between, but to nothing of ``test``."""
    own = examples if kind.learns_between else examples._replace(between=None)
    learnt = own.to_learn(train, test)
    return kind().fit(learnt.windows, learnt.labels, learnt.runs)


def score(judged: HeldOut, classes: Sequence[str], protocol: Protocol) -> Scores:
    """The scores of windows judged, calibrated across folds."""
    likely = confidence.calibrated_across(judged.fold, judged.probabilities, judged.codes)
    said = likely.argmax(axis=1)
    confusion = np.zeros((len(classes), len(classes)), int)
    np.add.at(confusion, (judged.codes, said), 1)
    bbr = np.array([includes(name, "bbr") for name in classes])
    mixed = bool(bbr.any() and not bbr.all())
    right_bbr = (likely[:, bbr].sum(axis=1) > 0.5) == bbr[judged.codes]
    return Scores(
        protocol=protocol,
        windows=len(judged.codes),
        folds=len(np.unique(judged.fold)),
        accuracy=float(np.mean(said == judged.codes)),
        accuracy_bbr=float(np.mean(right_bbr)) if mixed else None,
        calibration_error=confidence.expected_calibration_error(likely, judged.codes),
        confusion=confusion.tolist(),
    )


def _paths(examples: Examples) -> list[Fold]:
    """The folds of paths left out, where there are classes to tell apart on the others."""
    return [fold for fold in leave_out(examples.paths) if len(np.unique(examples.labels[fold[0]])) > 1]


def _check_runs(examples: Examples) -> None:
    for run in np.unique(examples.runs):
        if len(found := np.unique(examples.labels[examples.runs == run])) > 1:
            raise HowdahError(
                f"run {str(run)!r} is of {' and of '.join(map(repr, map(str, found)))}; give each a name"
            )
    for name in np.unique(examples.labels):
        if len(np.unique(examples.runs[examples.labels == name])) < 2:
            raise HowdahError(
                f"class {str(name)!r} has one run, so none can be kept for testing; record at least two"
            )


def _one_situation(recordings: Sequence[Recording]) -> str:
    found = {each.situation: each.run for each in recordings}
    if len(found) > 1:
        (one, run), (two, other), *_ = found.items()
        raise HowdahError(
            f"run {run!r} has {one} of ours beside the others, run {other!r} {two}; "
            "each needs a model of its own"
        )
    return next(iter(found))
