"""One probing: what to send, and the round trips that come back.

The Structs cross ``howdah._native`` as JSON; crates/probe has the same in serde. A lab's host probes in a
process of its own, ``python -m howdah.probing.prober``: a Probing comes on standard input as JSON; a line on
standard output says since when it runs, in seconds of CLOCK_MONOTONIC; its ProbingResult follows as JSON.
"""

import sys
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from howdah import _native, decoding, interrupt
from howdah.values.probe import Counts, ProbeKind

TICK_S = 0.1
"""Seconds between two updates, which is also the longest that a signal waits for its handler."""


class ProbeBurst(msgspec.Struct, frozen=True, kw_only=True):
    """Probes close together, sent at regular times."""

    every_ns: int
    count: int
    gap_ns: int


class Rhythm(msgspec.Struct, frozen=True, kw_only=True):
    """One probe at a random instant of each step, and bursts of probes beside them."""

    step_ns: int = 10_000_000
    burst: ProbeBurst | None = ProbeBurst(every_ns=1_000_000_000, count=10, gap_ns=1_000_000)
    """The default is the series of the paper on shared paths: ten probes 1 ms apart, once a second."""

    @property
    def step_s(self) -> float:
        """The length of a step in seconds."""
        return self.step_ns / 1e9


class Probing(msgspec.Struct, frozen=True, kw_only=True):
    """The probes to send, where to, and for how long."""

    way: ProbeKind
    to: str
    """The endpoint, as ``192.0.2.7:0`` or ``[fe80::7%3]:0``; UDP needs the responder's port."""
    token: str | None = None
    """The responder's token; ICMP has none."""
    for_ns: int
    rhythm: Rhythm = Rhythm()


class ProbeSample(msgspec.Struct, frozen=True, kw_only=True):
    """One probe that was answered or lost."""

    kind: Literal["step", "burst"]
    index: int
    """The number of its step, or of its burst."""
    sent_s: float
    """Seconds since the probing began."""
    late_s: float = 0.0
    """The seconds by which this host sent it late."""
    rtt_s: float | None = None
    """The round trip in seconds; null: the probe was lost."""


class ProbeUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The counts since the previous update."""

    looks: list[ProbeSample]
    counts: Counts
    elapsed_s: float
    refused: str | None = None
    """The last error that came in place of an answer."""
    ended: bool


class ProbingResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole probing."""

    looks: list[ProbeSample]
    """The samples in the order in which they were sent."""
    counts: Counts
    elapsed_s: float
    refused: str | None = None
    interrupted: int | None = None
    """The number of the signal that ended it early."""


def probe(probing: Probing, watch: Callable[[ProbeUpdate], bool]) -> ProbingResult:
    """Probes until the end, until a signal comes, or until ``watch`` returns true for an update.

    Raises HowdahError when the probing cannot begin.
    """
    prober = _native.Prober(msgspec.json.encode(probing))
    samples: list[ProbeSample] = []
    number = None
    while True:
        try:
            interrupt.check()
            update = decoding.from_json(prober.take(TICK_S), ProbeUpdate)
            samples += update.looks
            if update.ended:
                break
            if watch(update):
                prober.stop()
        except interrupt.Interrupted as signal:
            number = signal.number
            prober.stop()
    return ProbingResult(
        looks=sorted(samples, key=lambda sample: sample.sent_s),
        counts=update.counts,
        elapsed_s=update.elapsed_s,
        refused=update.refused,
        interrupted=number,
    )


def main() -> None:
    """Reads a Probing from standard input, probes, and writes the result to standard output."""
    interrupt.install()
    probing = decoding.from_json(sys.stdin.buffer.read(), Probing)
    begun = False

    def watch(update: ProbeUpdate) -> bool:
        nonlocal begun
        if not begun:
            begun = True
            _write(str(time.monotonic() - update.elapsed_s).encode())
        return False

    _write(msgspec.json.encode(probe(probing, watch)))


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
