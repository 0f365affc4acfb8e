"""Recognition of who is on a path, by the last seconds of a series of RTTs, whoever measured them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah import HowdahError
from howdah.recognition import models
from howdah.recognition.files import load_model
from howdah.recognition.model import Model, Recognition, Undecided
from howdah.recognition.recording import Burst, situation
from howdah.recognition.rows import Floats


class InstalledModel(NamedTuple):
    """A model of this host, the user's own or one that comes with howdah."""

    model: Model
    file: Path
    digest: str
    """The SHA-256 of its manifest in hex."""


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says of one recording."""

    file: str
    run: str
    path: str
    background: str | None
    """Who was there by the recording itself; null when it does not say."""
    model: str
    """Digest of the model's file."""
    heard: list[Recognition]
    """The answer for each window."""


def recognise(
    times_s: Floats,
    rtt_s: Floats,
    base_rtt_s: float,
    ours: Mapping[str, int] | None = None,
    bursts: Sequence[Burst] = (),
) -> Recognition | Undecided:
    """Recognises who is on the path by the end of a series of RTTs.

    ``times_s`` ascends, on any clock; ``rtt_s`` has NaN where no answer came: shape (samples,) each. As much
    of its end is judged as the model has a length for, 10 s at most; what lies before does not count.
    Samples every 10 ms are what ``howdah probe`` takes and what was learnt; every 20 ms is the least.
    ``base_rtt_s`` is the least RTT known of this route; that of the series itself where no better is known.
    ``ours`` are streams of this host's own that run beside all the time, by congestion control, and
    ``bursts`` those of active probing, on the clock of ``times_s``; a model is for none, for CUBIC, for
    BBR or for bursts, and the answer is only of others.

    The result is pure but for reading the model once. Raises HowdahError when a model of the user's is
    damaged.
    """
    name = situation(ours, bursts=bool(bursts))
    installed = model_for(name)
    if installed is None:
        return Undecided(why=f"there is no model for a path with {name} of our own on it")
    return installed.model.recognise_end(times_s, rtt_s, base_rtt_s, bursts)


@cache
def model_for(name: str) -> InstalledModel | None:
    """The model of a situation, if there is one. Raises HowdahError for a file that is no model."""
    file = models.file(name)
    if file is None:
        return None
    try:
        loaded, digest = load_model(file)
    except HowdahError as error:
        if file == models.own(name):
            raise HowdahError(f"{error}, or remove that file, and howdah's own model is used") from None
        raise
    if loaded.ours != name:
        raise HowdahError(f"{file} was trained with {loaded.ours} of ours on the path; remove it")
    return InstalledModel(loaded, file, digest)
