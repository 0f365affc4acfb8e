"""Recordings: round trips of one path over some time, with what we sent, and who else was there if known."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from howdah import HowdahError
from howdah.recognition.rows import Floats
from howdah.values import probe as values
from howdah.values.listened import NOBODY
from howdah.values.record import Record

NOTHING = "nothing"
"""The situation with no streams of ours."""
BURSTS = "bursts"
"""The situation beside active probing."""
SHORTEST_S, LONGEST_S = 1e-6, 60.0
"""The range of RTTs and steps."""
MEND = "record it again, or leave it out"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_STREAMS = re.compile(rf"((?P<streams>[1-9][0-9]{{0,3}}) +)?(?P<name>{_NAME.pattern})")
_MOST_STREAMS = 1000
_LONGEST_NAME = 200
_LEAST_SHARE = 0.25
"""The least share of steps that hold a sample; with fewer the clock jumped, or the step is wrong."""


class Burst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A burst that active probing sent, on the clock of the samples."""

    start_s: float
    end_s: float
    congestion_control: str


class LabConditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lab that made a recording: its link, and whether the machine kept up with it."""

    rate_bps: int
    rtt_s: float
    queue_bytes: int
    seed: int
    late_fraction: float
    """The share of the wire bytes that left later than a lab allows."""
    late_p99_s: float | None
    """The 99th percentile of lateness; null: nothing left."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """One run of probing. Raises HowdahError when it contradicts itself."""

    times_s: Floats
    """The times of the samples on a monotonic clock, ascending: shape (samples,)."""
    rtt_s: Floats
    """The round trips, NaN where no answer came: shape (samples,)."""
    base_rtt_s: float
    """The RTT without a queue."""
    step_s: float
    """The intended time from one sample to the next."""
    run: str
    """The name of the run; recordings of one run are never split between training and test."""
    path: str
    background: dict[str, int] | None
    """Streams of others by congestion control (or ``udp``); {} is nobody, None is not known."""
    bursts: tuple[Burst, ...] = ()
    ours: dict[str, int] | None = None
    """Streams of ours beside them all the time, by congestion control. They are no part of the label."""
    made: LabConditions | None = None
    """The way it was made; None: recorded on a real path."""

    def __post_init__(self) -> None:
        if problem := next(self._problems(), None):
            raise HowdahError(f"the recording of run {self.run!r}: {problem}; {MEND}")

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
        for what, named in (("background", self.background), ("streams of ours", self.ours)):
            for name, streams in (named or {}).items():
                if not (_NAME.fullmatch(name) and 1 <= streams <= _MOST_STREAMS):
                    yield f"{streams} streams of {name!r} are no {what}"

    @property
    def label(self) -> str | None:
        """The name of its class, as ``1 bbr, 2 cubic``; None when not known."""
        return None if self.background is None else label(self.background)

    @property
    def situation(self) -> str:
        """The situation of ours: a congestion control, as a rule, ``bursts`` or ``nothing``."""
        return situation(self.ours, bursts=bool(self.bursts))


def label(background: dict[str, int]) -> str:
    """The name of a class: ``1 bbr, 2 cubic``, or ``nobody``."""
    return ", ".join(f"{background[name]} {name}" for name in sorted(background)) or NOBODY


def situation(ours: Mapping[str, int] | None, *, bursts: bool = False) -> str:
    """The name of what of ours is on the path: congestion controls, ``bursts``, or ``nothing``.

    Each situation has a model of its own.
    """
    return "+".join([*[BURSTS] * bursts, *sorted(ours or {})]) or NOTHING


def background(text: str) -> dict[str, int]:
    """The streams of a class by its name, as ``label`` writes it; a congestion control alone is one stream.

    Raises HowdahError for what is no such name.
    """
    found: dict[str, int] = {}
    for part in [] if text.strip() == NOBODY else text.split(","):
        match = _STREAMS.fullmatch(part.strip())
        if match is None or match["name"] in {*found, NOBODY}:
            raise HowdahError(
                f"{text!r} does not name competing traffic: give {NOBODY}, or as '1 bbr, 2 cubic'"
            )
        found[match["name"]] = int(match["streams"] or 1)
    return found


def includes(named: str, congestion_control: str) -> bool:
    """Whether a class of this name has streams of that congestion control."""
    return congestion_control in {part.partition(" ")[2] for part in named.split(", ")}


def recording_of(record: Record, background: dict[str, int] | None) -> Recording:
    """The step series of a probe's record, each sample in the middle of its step.

    Raises HowdahError when the record is of something else.
    """
    probe = record.probe
    if probe is None:
        raise HowdahError(f"{record.id} is the record of a {record.kind}; only a probe's can be kept")
    rtt_s = np.array(probe.rtt_s, dtype=np.float64)
    return Recording(
        times_s=(np.arange(rtt_s.size, dtype=np.float64) + 0.5) * np.float64(probe.step_s),
        rtt_s=rtt_s,
        base_rtt_s=probe.base_rtt_s,
        step_s=probe.step_s,
        run=record.id,
        path=record.host or probe.address,
        background=background,
        bursts=bursts_of(probe.bursts),
    )


def bursts_of(sent: Iterable[values.Burst]) -> tuple[Burst, ...]:
    """The bursts of a probe's record, without their bytes."""
    return tuple(
        Burst(start_s=each.start_s, end_s=each.end_s, congestion_control=each.congestion_control)
        for each in sent
    )
