"""What crosses ``howdah._native`` during a probing, as JSON (crates/probe has the same in serde)."""

from collections.abc import Callable
from typing import Literal

import msgspec

from howdah import _native, interrupt
from howdah.values.probe import Counts, Way

TICK_S = 0.1
"""How often the looks are taken; also the longest a signal waits for its handler."""


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """Probes close together, again and again."""

    every_ns: int
    count: int
    gap_ns: int


class Rhythm(msgspec.Struct, frozen=True, kw_only=True):
    """One look in each step, at a random instant of it; bursts beside them."""

    step_ns: int = 10_000_000
    burst: Burst | None = Burst(every_ns=1_000_000_000, count=10, gap_ns=1_000_000)
    """By default the series of the paper on shared paths: once a second, ten probes 1 ms apart."""

    @property
    def step_s(self) -> float:
        """Seconds."""
        return self.step_ns / 1e9


class Probing(msgspec.Struct, frozen=True, kw_only=True):
    """What to send."""

    way: Way
    to: str
    """``192.0.2.7:0``, ``[fe80::7%3]:0``; with a responder's port."""
    token: str | None = None
    """The responder's; null by ICMP."""
    for_ns: int
    rhythm: Rhythm = Rhythm()


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A probe whose fate is known."""

    kind: Literal["step", "burst"]
    index: int
    """Of the step, or of the burst that it is one of."""
    sent_s: float
    """Since the probing began."""
    rtt_s: float | None = None
    """Null: lost."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What happened since it was last asked."""

    looks: list[Look]
    counts: Counts
    elapsed_s: float
    refused: str | None = None
    """The last error that came in place of an answer."""
    ended: bool


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """All of a probing."""

    looks: list[Look]
    """In the order in which they were sent."""
    counts: Counts
    elapsed_s: float
    refused: str | None = None
    interrupted: int | None = None
    """By this signal, before the end."""


def probe(probing: Probing, watch: Callable[[Taken], bool]) -> Probed:
    """Sends and takes until the end, a signal, or until ``watch`` says that it is enough.

    ``watch`` is given each Taken. Raises HowdahError when the probing cannot begin.
    """
    prober = _native.Prober(msgspec.json.encode(probing))
    looks: list[Look] = []
    number = None
    while True:
        try:
            taken = msgspec.json.decode(prober.take(TICK_S), type=Taken)
            looks += taken.looks
            if taken.ended:
                break
            if watch(taken):
                prober.stop()
        except interrupt.Interrupted as signal:
            number = signal.number
            prober.stop()
    return Probed(
        looks=sorted(looks, key=lambda look: look.sent_s),
        counts=taken.counts,
        elapsed_s=taken.elapsed_s,
        refused=taken.refused,
        interrupted=number,
    )
