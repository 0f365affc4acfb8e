"""Recording: RTTs of one path over some time, what we sent meanwhile, and, where it is known, who else was
there.

Other pieces (probing, data sets) convert to it; everything here reads nothing else.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError, __version__
from howdah.recognition import arrays

Floats = NDArray[np.float64]

SCHEMA = 1
NOBODY = "nobody"
NOTHING = "nothing"
"""Of ours."""
BURSTS = "bursts"
"""Of active probing."""
SHORTEST_S, LONGEST_S = 1e-6, 60.0
"""Of RTTs and steps."""
_MEND = "record it again, or leave it out"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_STREAMS = re.compile(rf"((?P<streams>[1-9][0-9]{{0,2}}) +)?(?P<name>{_NAME.pattern})")
_MOST_STREAMS = 1000
_LONGEST_NAME = 200
_LEAST_SHARE = 0.25
"""Of the steps from first to last sample that have one; with fewer the clock jumped, or the step is wrong."""


class Burst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What active probing sent, on the clock of the samples."""

    start_s: float
    end_s: float
    congestion_control: str


class Made(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a lab made it: what the link was, and whether the machine kept up with it."""

    rate_bps: int
    rtt_s: float
    queue_bytes: int
    seed: int
    late_fraction: float
    """Of the wire bytes, those that left later than the lab may be."""
    late_p99_s: float | None
    """Null: nothing left."""


class _Manifest(arrays.Manifest, kw_only=True, forbid_unknown_fields=True):
    base_rtt_s: float
    step_s: float
    run: str
    path: str
    background: dict[str, int] | None
    bursts: list[Burst]
    ours: dict[str, int] | None = None
    made: Made | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """One run of probing. Raises HowdahError when it contradicts itself."""

    times_s: Floats
    """Monotonic, ascending: shape (samples,)."""
    rtt_s: Floats
    """NaN where no answer came: shape (samples,)."""
    base_rtt_s: float
    """Without any queue."""
    step_s: float
    """From one sample to the next, as intended."""
    run: str
    """Recordings of one run are never split between training and test."""
    path: str
    background: dict[str, int] | None
    """Streams of others by congestion control (or ``udp``); {} is nobody, None is not known."""
    bursts: tuple[Burst, ...] = ()
    ours: dict[str, int] | None = None
    """Streams of our own beside them all the time, by congestion control; None is none. Not in the label."""
    made: Made | None = None
    """None: on a real path."""

    def __post_init__(self) -> None:
        if problem := next(self._problems(), None):
            raise HowdahError(f"the recording of run {self.run!r}: {problem}; {_MEND}")

    def _problems(self) -> Iterator[str]:
        times, rtt = self.times_s, self.rtt_s
        if times.ndim != 1 or times.shape != rtt.shape or times.size < 2:
            yield f"times of shape {times.shape} and RTTs of shape {rtt.shape} are no series"
        if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
            yield "its times do not ascend, so its clock jumped back or samples are twice"
        if not (np.isnan(rtt) | ((rtt >= SHORTEST_S) & (rtt <= LONGEST_S))).all():
            yield f"an RTT is not from {SHORTEST_S:g} s to {LONGEST_S:g} s"
        for name, value in (("base RTT", self.base_rtt_s), ("step", self.step_s)):
            if not SHORTEST_S <= value <= LONGEST_S:
                yield f"its {name} of {value} s is not from {SHORTEST_S:g} s to {LONGEST_S:g} s"
        if times.size < _LEAST_SHARE * (times[-1] - times[0]) / self.step_s:
            yield f"{times.size} samples in its span are few for steps of {self.step_s:g} s: its clock jumped"
        if any(not (np.isfinite(b.start_s) and b.start_s <= b.end_s < np.inf) for b in self.bursts):
            yield "a burst ends before it starts"
        for name in (self.run, self.path):
            if not (name.isprintable() and 0 < len(name) <= _LONGEST_NAME):
                yield "its run or its path has no name fit to print"
        for what, held in (("background", self.background), ("streams of ours", self.ours)):
            for name, streams in (held or {}).items():
                if not (_NAME.fullmatch(name) and 1 <= streams <= _MOST_STREAMS):
                    yield f"{streams} streams of {name!r} are no {what}"

    @property
    def label(self) -> str | None:
        """Its class, as ``1 bbr, 2 cubic``; None when not known."""
        return None if self.background is None else label(self.background)

    @property
    def situation(self) -> str:
        """What of ours ran beside them: a congestion control, as a rule, ``bursts`` or ``nothing``."""
        return situation(self.ours, bursts=bool(self.bursts))


def label(background: dict[str, int]) -> str:
    """The name of a class: ``1 bbr, 2 cubic``, or ``nobody``."""
    return ", ".join(f"{background[name]} {name}" for name in sorted(background)) or NOBODY


def situation(ours: Mapping[str, int] | None, *, bursts: bool = False) -> str:
    """Of streams of ours by congestion control: its name, those of several, ``bursts``, or ``nothing``.

    There is a model for each.
    """
    return "+".join([*[BURSTS] * bursts, *sorted(ours or {})]) or NOTHING


def background(text: str) -> dict[str, int]:
    """What a class of this name has, as ``label`` writes it; a name alone is one stream.

    Raises HowdahError for what is none.
    """
    found: dict[str, int] = {}
    for part in [] if text.strip() == NOBODY else text.split(","):
        match = _STREAMS.fullmatch(part.strip())
        if match is None or match["name"] in found:
            raise HowdahError(f"{text!r} says not who was there: give {NOBODY}, or as '1 bbr, 2 cubic'")
        found[match["name"]] = int(match["streams"] or 1)
    return found


def holds(named: str, congestion_control: str) -> bool:
    """Whether a class of this name has streams of that congestion control."""
    return congestion_control in {part.partition(" ")[2] for part in named.split(", ")}


def write(recording: Recording, file: Path) -> None:
    """Keeps it. Raises HowdahError when it cannot be written."""
    manifest = _Manifest(
        schema=SCHEMA,
        howdah=__version__,
        base_rtt_s=recording.base_rtt_s,
        step_s=recording.step_s,
        run=recording.run,
        path=recording.path,
        background=recording.background,
        bursts=list(recording.bursts),
        ours=recording.ours or None,
        made=recording.made,
    )
    arrays.write(file, manifest, {"times_s": recording.times_s, "rtt_s": recording.rtt_s})


def read(file: Path) -> tuple[Recording, str]:
    """The recording and its digest. Raises HowdahError, one line, whatever is wrong with the file."""
    manifest, held, digest = arrays.read(file, _Manifest, schema=SCHEMA, name="recording", mend=_MEND)
    if set(held) != {"times_s", "rtt_s"} or any(each.dtype != np.float64 for each in held.values()):
        raise HowdahError(f"{file} is not a recording: it needs times_s and rtt_s of dtype <f8; {_MEND}")
    try:
        return _recording(manifest, held), digest
    except HowdahError as error:
        raise HowdahError(f"{file}: {error}") from None


def files(places: list[Path]) -> list[Path]:
    """Files as they are, and all ``*.npz`` of folders by name. Raises HowdahError when there are none."""
    found = [
        file for place in places for file in (sorted(place.glob("*.npz")) if place.is_dir() else [place])
    ]
    if not found:
        raise HowdahError(f"no recordings (*.npz) in {', '.join(map(str, places))}; record some first")
    return found


def _recording(manifest: _Manifest, held: dict[str, NDArray[Any]]) -> Recording:
    return Recording(
        times_s=held["times_s"],
        rtt_s=held["rtt_s"],
        base_rtt_s=manifest.base_rtt_s,
        step_s=manifest.step_s,
        run=manifest.run,
        path=manifest.path,
        background=manifest.background,
        bursts=tuple(manifest.bursts),
        ours=manifest.ours or None,
        made=manifest.made,
    )
