"""Training: recordings whose background is known go in, a model and what it is worth come out.

Everything said about the model is of windows in runs (or on paths) that were not trained on; the model itself
is then trained on all.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from howdah import HowdahError, __version__
from howdah.recognition import calibration, novelty, stopping
from howdah.recognition.contract import SEED, Classifier
from howdah.recognition.evaluate import Scores, Tick, evaluate, fit, folds_of, judge, possible, score
from howdah.recognition.features import features
from howdah.recognition.model import Model, Stage, lengths
from howdah.recognition.novelty import Familiar, Told
from howdah.recognition.recording import Recording
from howdah.recognition.stopping import Stopped
from howdah.recognition.windows import default_step_s, examples

SCHEMA = 1
PARTS = (0.25, 0.5, 0.75, 1.0)
"""Of a window, at which it is judged."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
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
    """Digest of the model's file."""
    classifier: str
    seed: int = SEED
    took_s: float
    window_s: float
    step_s: float
    ours: str
    """What of ours ran beside those that it tells of."""
    classes: list[str]
    windows: int
    scores: list[Scores]
    """Of whole windows: by runs, by paths where there are two, at random."""
    stopped: Stopped
    """With early stopping, on runs not seen."""
    curve: list[Stopped]
    new: Told
    recordings: list[Used]


class Trained(NamedTuple):
    """The model, and its record but for the digest."""

    model: Model
    record: Training


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
    ours = _one_situation([each for each, _ in recordings])
    step_s = step_s or default_step_s([each for each, _ in recordings])
    whole = examples([each for each, _ in recordings], window_s, step_s)
    stage_s = lengths(whole.windows.length_s, step_s, kind, PARTS)
    if not stage_s:
        raise HowdahError(
            f"{kind.name} cannot judge {window_s:g} s in steps of {step_s:g} s; take longer windows"
        )
    parts = folds_of(whole, "runs")
    classes, codes = np.unique(whole.labels, return_inverse=True)
    everything, nothing = np.arange(len(codes)), np.arange(0)
    judged = [judge(kind, whole.first(length_s), parts, tick) for length_s in stage_s]
    rows, known, fold = judged[-1].rows, judged[-1].codes, judged[-1].fold
    stages, limits = [], []
    for length_s, each in zip(stage_s, judged, strict=True):
        tick(f"{kind.name}, {length_s:g} s, all runs")
        seen = whole.first(length_s)
        columns = features(seen.windows)
        limits.append(novelty.limits(columns, codes, classes.tolist(), parts))
        stages.append(
            Stage(
                length_s=length_s,
                classifier=fit(kind, seen, everything, nothing),
                temperature=calibration.temperature(each.probabilities, known),
                familiar=Familiar.of(columns, codes),
                new=limits[-1].new,
                near=limits[-1].near,
            )
        )
    heard = stopping.Heard(
        np.stack([calibration.cross_fitted(each.probabilities, known, fold) for each in judged]),
        np.stack([each.distances[rows] <= each.near for each in limits]),
        np.array(stage_s),
        known,
    )
    stopped = stopping.cross_fitted(heard, fold)
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
            curve=stopping.curve(heard),
            new=limits[-1].told,
            recordings=[
                Used(
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


def _one_situation(recordings: Sequence[Recording]) -> str:
    found = {each.situation: each.run for each in recordings}
    if len(found) > 1:
        (one, run), (two, other), *_ = found.items()
        raise HowdahError(
            f"run {run!r} has {one} of ours beside the others, run {other!r} {two}; "
            "each needs a model of its own"
        )
    return next(iter(found))


def record_file(model: Path) -> Path:
    """Where the training record of a model is."""
    return model.with_suffix(".json")
