"""A model: what is kept of training, and asked who is there.

Stages, one for each time listened to: a classifier, its temperature, and what is familiar at that length. In
a file it is arrays and a manifest (``arrays``): nothing is unpickled, and what does not fit together is
refused in one line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError, __version__
from howdah.recognition import arrays, calibration, stopping
from howdah.recognition.arrays import Arrays
from howdah.recognition.classifiers import CLASSIFIERS
from howdah.recognition.contract import Classifier
from howdah.recognition.novelty import Familiar
from howdah.recognition.recording import NOTHING, Floats, Recording, holds, label
from howdah.recognition.windows import LEAST_STEPS, Windows, cut, steps_in

SCHEMA = 1
_MEND = "train one: howdah shared train RECORDINGS -o MODEL"
_LONGEST_S = 3600.0
_MOST_STAGES = 16
_MOST_CLASSES = 256
_MOST_STEPS = 100_000


class Stage(NamedTuple):
    """What judges windows of one length."""

    length_s: float
    classifier: Classifier
    temperature: float
    familiar: Familiar
    new: float
    """The distance beyond which a window is new."""
    near: float
    """The distance up to which it is surely none."""


class Answers(NamedTuple):
    """Of n windows."""

    probabilities: Floats
    """Calibrated, of the model's classes: shape (n, classes)."""
    new: NDArray[np.bool_]
    """Like nothing the model was trained on."""
    near: NDArray[np.bool_]
    """Surely like something it was trained on."""
    heard_s: Floats
    """Listened to before the answer."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one window, for people and programs."""

    start_s: float
    """On the recording's clock."""
    heard_s: float
    new: bool
    """The class is then the nearest one known, and no more."""
    sure: bool
    """To listen longer is of no use."""
    background: str
    """The likeliest class, as ``1 bbr, 1 cubic``."""
    probability: float
    bbr: float
    """Probability that there is any BBR."""
    classes: dict[str, float]


class _Stage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    length_s: float
    steps: int
    step_s: float
    """Those of the classifier."""
    temperature: float
    new: float
    near: float


class _Manifest(arrays.Manifest, kw_only=True, forbid_unknown_fields=True):
    ours: str = NOTHING
    classifier: str
    classes: list[str]
    step_s: float
    sure: float
    stages: list[_Stage]


@dataclass(frozen=True, eq=False)
class Model:
    """Stages in order of length; ``sure`` is the probability at which no more is listened to."""

    classes: list[str]
    step_s: float
    stages: list[Stage]
    sure: float
    ours: str = NOTHING
    """The situation it was trained in: what of ours ran beside those it tells of."""

    @property
    def length_s(self) -> float:
        """Of the windows it judges, at most."""
        return self.stages[-1].length_s

    def at(self, windows: Windows) -> Answers:
        """By the last stage that windows are long enough for. Raises HowdahError when they are for none."""
        fitting = [stage for stage in self.stages if steps_in(windows.length_s, stage.length_s)]
        if not fitting:
            raise HowdahError(
                f"{windows.length_s:g} s are too short to judge; listen for {self.stages[0].length_s:g} s"
            )
        stage = fitting[-1]
        seen = windows.first(stage.length_s)
        likely = calibration.cooled(stage.classifier.predict_proba(seen), stage.temperature)
        # Arrays of others may overflow; what is infinitely far is new.
        with np.errstate(all="ignore"):
            distance = np.nan_to_num(stage.familiar.distance(seen), nan=np.inf)
        return Answers(
            likely, distance > stage.new, distance <= stage.near, np.full(len(seen), stage.length_s)
        )

    def is_sure(self, answers: Answers) -> NDArray[np.bool_]:
        """Which windows need no more listening: sure of a class, and of one it knows."""
        return stopping.is_sure(answers.probabilities, answers.near, self.sure)

    def answer(self, windows: Windows) -> Answers:
        """Each window as soon as the model is sure; what it is not sure of is judged whole."""
        found = self.at(windows.first(self.stages[0].length_s))
        for stage in self.stages[1:]:
            if stage.length_s > windows.length_s * (1 + 1e-9):
                break
            going_on = np.flatnonzero(~self.is_sure(found))
            if len(going_on):
                later = self.at(windows[going_on].first(stage.length_s))
                for values, new in zip(found, later, strict=True):
                    values[going_on] = new
        return found

    def hear(self, recording: Recording) -> list[Heard]:
        """A recording window by window. Raises HowdahError when it has none, or steps that do not fit."""
        windows, starts_s = cut(recording, self.length_s, self.step_s)
        if not len(windows):
            raise HowdahError(
                f"run {recording.run!r} holds no whole window of {self.length_s:g} s; record for longer"
            )
        if recording.situation != self.ours:
            raise HowdahError(
                f"run {recording.run!r} was recorded with {recording.situation} of ours on the path, "
                f"this model trained with {self.ours}; take the model of that situation"
            )
        return self.said(self.answer(windows), starts_s.tolist())

    def said(self, answers: Answers, starts_s: Sequence[float]) -> list[Heard]:
        """Answers as people and programs read them, of windows that begin at ``starts_s``."""
        bbr = np.array([holds(name, "bbr") for name in self.classes])
        sure = self.is_sure(answers)
        return [
            Heard(
                start_s=float(start_s),
                heard_s=float(heard_s),
                new=bool(new),
                sure=bool(enough),
                background=self.classes[int(likely.argmax())],
                probability=float(likely.max()),
                bbr=float(likely[bbr].sum()),
                classes=dict(zip(self.classes, likely.tolist(), strict=True)),
            )
            for start_s, enough, likely, new, _, heard_s in zip(starts_s, sure, *answers, strict=True)
        ]


def save(model: Model, file: Path) -> str:
    """Writes it; the digest that tells it from any other. Raises HowdahError when it cannot be written."""
    held: Arrays = {}
    for number, stage in enumerate(model.stages):
        for name, values in {**stage.classifier.arrays(), **_prefixed(stage.familiar.arrays())}.items():
            held[f"{number}.{name}"] = values
    manifest = _Manifest(
        schema=SCHEMA,
        howdah=__version__,
        ours=model.ours,
        classifier=model.stages[0].classifier.name,
        classes=model.classes,
        step_s=model.step_s,
        sure=model.sure,
        stages=[
            _Stage(
                length_s=stage.length_s,
                steps=stage.classifier.steps,
                step_s=stage.classifier.step_s,
                temperature=stage.temperature,
                new=stage.new,
                near=stage.near,
            )
            for stage in model.stages
        ],
    )
    return arrays.write(file, manifest, held)


def load(file: Path) -> tuple[Model, str]:
    """The model and its digest. Raises HowdahError for whatever is not a whole model of this version."""
    manifest, held, digest = arrays.read(file, _Manifest, schema=SCHEMA, name="model", mend=_MEND)
    arrays.finite(held, str(file), _MEND)
    try:
        _check(manifest)
        stages = [_restored(manifest, number, stage, held) for number, stage in enumerate(manifest.stages)]
        if held:
            raise ValueError(f"array {min(held)} belongs to no stage")
    except ValueError as error:
        raise HowdahError(f"{file} is not a model: {error}; {_MEND}") from None
    return Model(manifest.classes, manifest.step_s, stages, manifest.sure, manifest.ours), digest


_FAMILIAR = "familiar_"


def _prefixed(held: Arrays) -> Arrays:
    return {_FAMILIAR + name: values for name, values in held.items()}


def _check(manifest: _Manifest) -> None:
    if manifest.classifier not in CLASSIFIERS:
        raise ValueError(f"this version knows no classifier {manifest.classifier[:40]!r}")
    classes, lengths = manifest.classes, [stage.length_s for stage in manifest.stages]
    if not 2 <= len(set(classes)) == len(classes) <= _MOST_CLASSES:
        raise ValueError("it needs two classes or more, each with a name of its own")
    for name in classes:
        if label(_background(name)) != name:
            raise ValueError(f"{name[:40]!r} is no class")
    if not 1 <= len(lengths) <= _MOST_STAGES or sorted(set(lengths)) != lengths:
        raise ValueError("its stages do not ascend in length")
    if not (manifest.step_s > 0 and 0 < manifest.sure <= 1 and lengths[-1] <= _LONGEST_S):
        raise ValueError("its step, its threshold or its length is out of range")
    for stage in manifest.stages:
        if not (
            LEAST_STEPS <= stage.steps <= _MOST_STEPS
            and stage.step_s >= manifest.step_s
            and stage.steps * stage.step_s <= stage.length_s * (1 + 1e-6)
            and calibration.COOLEST <= stage.temperature <= calibration.HOTTEST
            and 0 < stage.near <= stage.new
        ):
            raise ValueError(f"its stage of {stage.length_s:g} s is out of range")


def _background(name: str) -> dict[str, int]:
    if name == label({}):
        return {}
    parts = [part.partition(" ") for part in name.split(", ")]
    return {what: int(streams) for streams, _, what in parts if streams.isdecimal() and len(streams) < 5}


def _restored(manifest: _Manifest, number: int, stage: _Stage, held: Arrays) -> Stage:
    prefix = f"{number}."
    mine = {name.removeprefix(prefix): held.pop(name) for name in sorted(held) if name.startswith(prefix)}
    familiar = {
        name.removeprefix(_FAMILIAR): mine.pop(name) for name in sorted(mine) if name.startswith(_FAMILIAR)
    }
    kind = CLASSIFIERS[manifest.classifier]
    return Stage(
        stage.length_s,
        kind.restored(mine, manifest.classes, stage.steps, stage.step_s),
        stage.temperature,
        Familiar.restored(familiar),
        stage.new,
        stage.near,
    )


def lengths(length_s: float, step_s: float, kind: type[Classifier], parts: Sequence[float]) -> list[float]:
    """Of stages: ``parts`` of a window in whole steps, those too short to judge left out."""
    least = LEAST_STEPS * max(step_s, kind.own_step_s)
    whole = [steps_in(part * length_s, step_s) * step_s for part in parts]
    return sorted({each for each in whole if each >= least * (1 - 1e-9)})
