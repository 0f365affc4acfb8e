"""A model: what training leaves, and what it answers.

It has a stage for each time listened to: a classifier, its temperature, and how far a window of that length
may be from the classes seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from howdah import HowdahError
from howdah.recognition.classifier import Classifier
from howdah.recognition.confidence import ClassDistance, cooled, is_sure
from howdah.recognition.recording import NOTHING, Burst, Recording, includes
from howdah.recognition.rows import Floats, Mask
from howdah.recognition.windows import (
    LEAST_ANSWERED,
    LEAST_STEPS,
    Windows,
    cut,
    mean_by_step,
    sent_at,
    steps_in,
)

_ROUNDED = 1e-6
"""The rounding in steps, so that samples which are whole steps apart are counted as that."""


class Stage(NamedTuple):
    """The part of a model that judges windows of one length."""

    length_s: float
    classifier: Classifier
    temperature: float
    distance: ClassDistance
    new: float
    """The distance beyond which a window is new."""
    near: float
    """The distance up to which it is surely not."""


class Answers(NamedTuple):
    """The answers for n windows."""

    probabilities: Floats
    """Calibrated probabilities of the model's classes: shape (n, classes)."""
    new: Mask
    """Whether a window is like nothing the model was trained on."""
    near: Mask
    """Whether it is surely like something the model was trained on."""
    heard_s: Floats
    """The time listened to before the answer."""


class Recognition(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one window, for people and programs."""

    start_s: float
    """The begin of the window on the recording's clock."""
    heard_s: float
    """The time listened to before the answer."""
    new: bool
    """The window is like nothing trained on; its class is then only the nearest one known."""
    sure: bool
    """Whether to listen longer is of no use."""
    background: str
    """The likeliest class, as ``1 bbr, 1 cubic``."""
    probability: float
    bbr: float
    """The probability that there is any BBR."""
    classes: dict[str, float]


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """The answer where a series cannot be judged."""

    why: str
    """The reason, in words that end no sentence."""


@dataclass(frozen=True, eq=False)
class Model:
    """Stages in order of length, and when their answers are sure."""

    classes: list[str]
    step_s: float
    stages: list[Stage]
    sure: float
    """The probability at which no more is listened to."""
    ours: str = NOTHING
    """The situation it was trained in: what of ours ran beside those that it recognises."""

    @property
    def length_s(self) -> float:
        """The length of the longest windows it judges."""
        return self.stages[-1].length_s

    def at(self, windows: Windows) -> Answers:
        """The answers of the last stage that windows are long enough for.

        Raises HowdahError when they are too short for any.
        """
        fitting = [stage for stage in self.stages if steps_in(windows.length_s, stage.length_s)]
        if not fitting:
            raise HowdahError(
                f"{windows.length_s:g} s are too short to judge; measure for {self.stages[0].length_s:g} s"
            )
        stage = fitting[-1]
        seen = windows.first(stage.length_s)
        likely = cooled(stage.classifier.predict_proba(seen), stage.temperature)
        # Arrays of others may overflow; what is infinitely far is new.
        with np.errstate(all="ignore"):
            distance = np.nan_to_num(stage.distance.of_windows(seen), nan=np.inf)
        return Answers(
            likely, distance > stage.new, distance <= stage.near, np.full(len(seen), stage.length_s)
        )

    def is_sure(self, answers: Answers) -> Mask:
        """Whether windows need no more listening: sure of a class, and of one it was trained on."""
        return is_sure(answers.probabilities, answers.near, self.sure)

    def answer(self, windows: Windows) -> Answers:
        """The answer for each window as soon as the model is sure, or else by the whole window."""
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

    def recognise(self, recording: Recording) -> list[Recognition]:
        """A recording window by window.

        Raises HowdahError when it has no whole window, steps that do not fit, or another situation.
        """
        windows, starts_s = cut(recording, self.length_s, self.step_s)
        if not len(windows):
            raise HowdahError(
                f"run {recording.run!r} has no whole window of {self.length_s:g} s; record for longer"
            )
        if recording.situation != self.ours:
            raise HowdahError(
                f"run {recording.run!r} was recorded with {recording.situation} of ours on the path, "
                f"this model trained with {self.ours}; take the model of that situation"
            )
        return self._recognised(self.answer(windows), starts_s.tolist())

    def recognise_end(
        self, times_s: Floats, rtt_s: Floats, base_rtt_s: float, bursts: Sequence[Burst] = ()
    ) -> Recognition | Undecided:
        """The end of a series, as much of it as the model has a stage for.

        The arguments are those of ``howdah.recognition.recognise.recognise``.
        """
        if not (np.isfinite(base_rtt_s) and base_rtt_s > 0):
            return Undecided(why="the RTT without a queue is not known")
        span_s = float(times_s[-1] - times_s[0]) + self.step_s if times_s.size else 0.0
        lengths = [stage.length_s for stage in self.stages if stage.length_s <= span_s * (1 + 1e-6)]
        if not lengths:
            return Undecided(why=f"{span_s:.1f} s are too short; it takes {self.stages[0].length_s:g} s")
        steps = round(lengths[-1] / self.step_s)
        place = steps - 1 - np.floor((times_s[-1] - times_s) / self.step_s + _ROUNDED).astype(np.int64)
        inside = place >= 0
        rtt, lost = mean_by_step(place[inside], rtt_s[inside], steps)
        sent = sent_at(times_s[-1] - self.step_s * np.arange(steps)[::-1], bursts)
        windows = Windows(rtt[None], lost[None], sent[None], np.array([base_rtt_s]), self.step_s)
        answered = float(np.isfinite(rtt).mean())
        if answered < LEAST_ANSWERED:
            when = f"{answered:.0%} of the last {lengths[-1]:g} s"
            return Undecided(why=f"round trips are known of only {when}")
        return self._recognised(self.at(windows), [float(times_s[-1]) - lengths[-1]])[0]

    def _recognised(self, answers: Answers, starts_s: Sequence[float]) -> list[Recognition]:
        bbr = np.array([includes(name, "bbr") for name in self.classes])
        sure = self.is_sure(answers)
        return [
            Recognition(
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


def stage_lengths(
    length_s: float, step_s: float, kind: type[Classifier], parts: Sequence[float]
) -> list[float]:
    """The lengths of stages: ``parts`` of a window in whole steps, those too short to judge left out."""
    least = LEAST_STEPS * max(step_s, kind.least_step_s)
    whole = [steps_in(part * length_s, step_s) * step_s for part in parts]
    return sorted({each for each in whole if each >= least * (1 - 1e-9)})
