"""Background traffic as it shall be: loads side by side, each on and off by the one clock of the run.

The patterns are those of a paper on shared networks (scenarios/traffic-*.toml): constant, square waves, and
Bursty-UDP(x, y), which is ``on_s`` x and ``every_s`` y: a burst of x seconds every y seconds, as its second
scenario says (where it lists the patterns, y is the gap).
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from howdah._native import format_bytes, format_duration, format_rate
from howdah.text import count

DURATION_S = 60.0
"""Of a pattern that says nothing of it."""

DURATION_MAX_S = 86_400.0
"""Traffic that nobody ends, ends."""

LOADS_MAX = 8
"""Each TCP load has an ssh session of its own, and sshd takes ten through one login."""


class Period(NamedTuple):
    """A time that something is sent in, seconds after the start."""

    begin_s: float
    end_s: float


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """When a load is on: from ``start_s`` to the end, or ``on_s`` long every ``every_s``."""

    start_s: float = 0.0
    on_s: float | None = None
    every_s: float | None = None
    """Null with ``on_s``, and only then."""

    def periods(self, duration_s: float) -> Iterator[Period]:
        """The times that it is on, of a run of ``duration_s``."""
        on_s, every_s = self.on_s or duration_s, self.every_s or duration_s
        number = 0
        while (begin_s := self.start_s + number * every_s) < duration_s:
            yield Period(begin_s, min(begin_s + on_s, duration_s))
            number += 1

    def in_words(self) -> str:
        """As ``10 s every 20 s from 5 s``."""
        on = "all the time" if self.on_s is None else f"{self.on_s:g} s every {self.every_s:g} s"
        return f"{on} from {self.start_s:g} s" if self.start_s else on


class Tcp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tcp"):
    """Streams that send as fast as their congestion control lets them, or as they are paced."""

    name: str
    wave: Wave
    streams: int = 1
    congestion_control: str | None = None
    """Null: this host's default."""
    rate_bps: int | None = None
    """Of all streams together at most, which are paced; null: nothing paces them."""

    def in_words(self) -> str:
        """What it sends, and when."""
        control = self.congestion_control or "default congestion control"
        paced = "" if self.rate_bps is None else f"at most {format_rate(self.rate_bps)}, "
        return f"TCP, {count(self.streams, 'stream')}, {control}, {paced}{self.wave.in_words()}"


class Udp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="udp"):
    """Datagrams at a rate, whatever becomes of them."""

    name: str
    wave: Wave
    rate_bps: int
    """Of payload."""
    datagram_bytes: int | None = None
    """Payload of one; null: what the way takes whole."""

    def in_words(self) -> str:
        """What it sends, and when."""
        return f"UDP, {format_rate(self.rate_bps)}, {self.wave.in_words()}"


class Rbudp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rbudp"):
    """Objects over UDP at a rate; what is missing is sent again until each is whole."""

    name: str
    start_s: float = 0.0
    every_s: float | None = None
    """From the beginning of one to that of the next; null: as soon as one is whole."""
    rate_bps: int
    """Of payload, the missing pieces' too."""
    object_bytes: int
    datagram_bytes: int | None = None
    """Payload of one; null: what the way takes whole."""

    @property
    def sending_s(self) -> float:
        """What the first round of an object takes."""
        return self.object_bytes * 8 / self.rate_bps

    def begins_s(self, now_s: float, number: int, duration_s: float) -> float | None:
        """When object ``number``, from 0, begins if nothing is on its way at ``now_s``; null when none does.

        None begins whose first round would go on after the end.
        """
        planned_s = self.start_s + number * (self.every_s or 0.0)
        begin_s = max(now_s, planned_s)
        return begin_s if begin_s + self.sending_s <= duration_s else None

    def in_words(self) -> str:
        """What it sends, and when."""
        when = "one after the other" if self.every_s is None else f"every {self.every_s:g} s"
        start = f" from {self.start_s:g} s" if self.start_s else ""
        return f"RBUDP, {format_bytes(self.object_bytes)} at {format_rate(self.rate_bps)} {when}{start}"


Load = Tcp | Udp | Rbudp


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """Loads that a run has side by side."""

    name: str
    summary: str = ""
    duration_s: float = DURATION_S
    loads: tuple[Load, ...]

    def controls(self) -> list[str]:
        """The congestion controls that are named."""
        named = [load.congestion_control for load in self.loads if isinstance(load, Tcp)]
        return list(dict.fromkeys(name for name in named if name is not None))

    def in_words(self) -> str:
        """A line for the whole and one for each load."""
        width = max(len(load.name) for load in self.loads)
        lines = [f"  {load.name.ljust(width)}  {load.in_words()}" for load in self.loads]
        return "\n".join([f"{self.name}, {format_duration(self.duration_s)}", *lines])
