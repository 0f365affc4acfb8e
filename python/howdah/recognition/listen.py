"""Listening: who is there, by the last seconds of a series of RTTs, whoever measured them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.recognition import model, models
from howdah.recognition.model import Heard, Model
from howdah.recognition.recording import Burst, Floats, situation
from howdah.recognition.windows import LEAST_ANSWERED, Windows, sent_at

_ROUNDED = 1e-6
"""Of a step: so that samples which are whole steps apart are counted as that."""


class CannotTell(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing can be said, and why, in words that end no sentence."""

    why: str


class Kept(NamedTuple):
    """A model and where it is from."""

    model: Model
    file: Path
    digest: str


def listen(
    times_s: Floats,
    rtt_s: Floats,
    base_rtt_s: float,
    ours: Mapping[str, int] | None = None,
    bursts: Sequence[Burst] = (),
) -> Heard | CannotTell:
    """Who is there, by the end of a series of RTTs.

    ``times_s`` ascends, on any clock; ``rtt_s`` has NaN where no answer came: shape (samples,) each. As much
    of its end is judged as the model has a length for, 10 s at most; what lies before does not count.
    Samples every 10 ms are what ``howdah probe`` takes and what was learnt; every 20 ms is the least.
    ``base_rtt_s`` is the least RTT known of this route; that of the series itself where no better is known.
    ``ours`` are streams of this host's own that run beside all the time, by congestion control, and
    ``bursts`` those of active probing, on the clock of ``times_s``; a model is for none, for CUBIC, for
    BBR or for bursts, and the answer is only of others.

    ``Heard.classes`` has a probability for each class, ``new`` says that it is like nothing trained on (the
    classes then say what is nearest, no more), and ``sure`` that to listen longer is of no use. Pure but for
    reading the model once. Raises HowdahError when a model of the user's is damaged.
    """
    name = situation(ours, bursts=bool(bursts))
    kept = find(name)
    if kept is None:
        return CannotTell(why=f"no model knows a path with {name} of our own on it")
    return judged(kept.model, times_s, rtt_s, base_rtt_s, bursts)


def judged(
    by: Model, times_s: Floats, rtt_s: Floats, base_rtt_s: float, bursts: Sequence[Burst] = ()
) -> Heard | CannotTell:
    """The same by this model."""
    if not (np.isfinite(base_rtt_s) and base_rtt_s > 0):
        return CannotTell(why="the RTT without a queue is not known")
    span_s = float(times_s[-1] - times_s[0]) + by.step_s if times_s.size else 0.0
    lengths = [stage.length_s for stage in by.stages if stage.length_s <= span_s * (1 + 1e-6)]
    if not lengths:
        return CannotTell(why=f"{span_s:.1f} s are too short; it takes {by.stages[0].length_s:g} s")
    steps = round(lengths[-1] / by.step_s)
    sent = sent_at(times_s[-1] - by.step_s * np.arange(steps)[::-1], bursts)
    windows = _window(times_s, rtt_s, base_rtt_s, by.step_s, sent)
    answered = float(np.isfinite(windows.rtt_s).mean())
    if answered < LEAST_ANSWERED:
        return CannotTell(why=f"only {answered:.0%} of the last {lengths[-1]:g} s were answered")
    return by.said(by.at(windows), [float(times_s[-1]) - lengths[-1]])[0]


@cache
def find(name: str) -> Kept | None:
    """The model of a situation, if there is one. Raises HowdahError for a file that is no model."""
    file = models.file(name)
    if file is None:
        return None
    loaded, digest = model.load(file)
    if loaded.ours != name:
        raise HowdahError(f"{file} was trained with {loaded.ours} of ours on the path; take it away")
    return Kept(loaded, file, digest)


def _window(
    times_s: Floats, rtt_s: Floats, base_rtt_s: float, step_s: float, sent: NDArray[np.int8]
) -> Windows:
    """The last steps of ``step_s``, as many as there is in ``sent``, as one window."""
    steps = len(sent)
    place = steps - 1 - np.floor((times_s[-1] - times_s) / step_s + _ROUNDED).astype(np.int64)
    inside = place >= 0
    place, heard = place[inside], rtt_s[inside]
    there = np.isfinite(heard)
    probed = np.bincount(place, minlength=steps)
    answered = np.bincount(place[there], minlength=steps)
    summed = np.bincount(place[there], heard[there], minlength=steps)
    rtt = np.where(answered > 0, summed / np.maximum(answered, 1), np.nan)
    return Windows(
        rtt[None],
        ((probed - answered) / np.maximum(probed, 1))[None],
        sent[None],
        np.array([base_rtt_s]),
        step_s,
    )
