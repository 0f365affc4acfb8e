"""A run of traffic for people: a line while it lasts, and a few that sum it up."""

import sys
from typing import TYPE_CHECKING, TextIO

import msgspec

from howdah import HowdahError, decoding
from howdah._native import format_bytes, format_duration, format_rate
from howdah.text import count, printable
from howdah.traffic.account import LoadAccount, LoadSample, SinkCounts, SourceCounts, Traffic
from howdah.traffic.pattern import Pattern
from howdah.traffic.run import TrafficDisplay
from howdah.values.record import Record
from howdah.words.terminal import StandingLine


def summary(record: Record, *, kept: bool) -> str:
    """The summary: what each load offered, sent and lost, and where the record is, if it is kept."""
    lines = described(record)
    if "lateness" in record.flags:
        lines.append("warning: this machine was too slow for the link; the rates are not the path's")
    if kept:
        lines.append(f"Record: howdah archive show {record.id}")
    return "\n".join(lines)


def in_short(record: Record) -> tuple[str, str, str]:
    """The rate and the size of what was received, and the pattern with its host; for a list."""
    try:
        traffic = _of(record)
    except HowdahError:
        traffic = None
    if traffic is None:
        return "-", "-", f"to {record.host}"
    what = f"{traffic.pattern.name} to {record.host}"
    received = [load.received_bytes for load in traffic.loads if load.received_bytes is not None]
    if len(received) < len(traffic.loads):
        return "-", "-", what
    size = sum(received)
    rate = format_rate(size * 8 / traffic.elapsed_s) if traffic.elapsed_s > 0 else "-"
    return rate, format_bytes(size), what


def _of(record: Record) -> Traffic | None:
    """The record's traffic; null when nothing was begun. Raises HowdahError."""
    if record.traffic is None:
        return None
    try:
        return decoding.from_plain(record.traffic, Traffic)
    except msgspec.ValidationError as error:
        raise HowdahError(f"{record.id} has traffic that this version cannot read: {error}") from None


def described(record: Record) -> list[str]:
    """The lines of the record alone; none when nothing was begun. Raises HowdahError."""
    traffic = _of(record)
    if traffic is None:
        return []
    width = max(len(load.name) for load in traffic.loads)
    head = f"{traffic.pattern.name} to {record.host}, {format_duration(traffic.elapsed_s)}"
    return [
        head,
        *(f"  {load.name.ljust(width)}  {_load(load, traffic.elapsed_s)}" for load in traffic.loads),
    ]


def _load(load: LoadAccount, elapsed_s: float) -> str:
    parts = []
    if load.offered_bytes is not None and load.sent_bytes is not None:
        parts += [f"offered {format_bytes(load.offered_bytes)}", f"sent {format_bytes(load.sent_bytes)}"]
    if load.received_bytes is not None:
        rate = f" ({format_rate(load.received_bytes * 8 / elapsed_s)})" if elapsed_s > 0 else ""
        parts.append(f"received {format_bytes(load.received_bytes)}{rate}")
    if load.source is not None:
        parts += _datagrams(load.source, load.sink, load.lost)
    else:
        parts.append(count(load.retransmissions, "retransmission"))
        if load.congestion_control is not None:
            parts.append(load.congestion_control)
    if load.kind == "rbudp":
        whole = sum(blast.whole for blast in load.blasts)
        parts.append(f"{whole:,} of {count(len(load.blasts), 'object')} whole, bit for bit")
    return ", ".join(parts)


def _datagrams(source: SourceCounts, sink: SinkCounts | None, lost: int | None) -> list[str]:
    if sink is None or lost is None:
        return ["received and lost unknown, since the far end ended before its last account"]
    share = f" ({lost / source.sent:.2%})" if source.sent else ""
    parts = [f"lost {lost:,} of {count(source.sent, 'datagram')}{share}"]
    for number, words in (
        (sink.reordered, "reordered"),
        (sink.doubled, "doubled"),
        (sink.overflowed, "of these dropped by the far host itself"),
    ):
        if number:
            parts.append(f"{number:,} {words}")
    return parts


if TYPE_CHECKING:
    from rich.console import Console

LINE_S = 10.0
"""How often a line is written where there is no terminal."""


class ArrivalRates:
    """The rate at which each load arrives at the far host, from its last two samples."""

    def __init__(self) -> None:
        self._before: dict[str, LoadSample] = {}
        self._last: dict[str, LoadSample] = {}

    def line(self, pattern: Pattern, now_s: float, samples: dict[str, LoadSample]) -> str:
        """The line ``12 of 60 s: udp1 300 Mb/s, tcp2 180 Mb/s``."""
        for name, sample in samples.items():
            last = self._last.get(name)
            if last is None or sample.t_s > last.t_s:
                if last is not None:
                    self._before[name] = last
                self._last[name] = sample
        head = f"{int(min(now_s, pattern.duration_s))} of {pattern.duration_s:g} s"
        loads = [f"{load.name} {self._rate(load.name)}" for load in pattern.loads if load.name in self._last]
        return f"{head}: {', '.join(loads)}" if loads else head

    def _rate(self, name: str) -> str:
        last, before = self._last[name], self._before.get(name)
        bits = (last.received_bytes - (before.received_bytes if before else 0)) * 8
        return format_rate(max(0.0, bits / (last.t_s - (before.t_s if before else 0.0))))


class TrafficLines(TrafficDisplay):
    """Writes a line every LINE_S, for logs."""

    def __init__(self, pattern: Pattern, stream: TextIO | None = None) -> None:
        self._pattern, self._stream = pattern, stream or sys.stderr
        self._rates, self._next_s = ArrivalRates(), LINE_S

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Writes a line when it is time."""
        line = self._rates.line(self._pattern, now_s, samples)
        if now_s >= self._next_s:
            self._next_s += LINE_S
            print("howdah:", printable(line), file=self._stream)


class TrafficTerminal(TrafficDisplay):
    """Draws a line that stays in place and vanishes at the end."""

    def __init__(self, pattern: Pattern, console: "Console | None" = None) -> None:
        self._pattern, self._rates = pattern, ArrivalRates()
        self._line = StandingLine(console)

    def begins(self) -> None:
        """Takes the terminal, which ssh had until now, for passwords."""
        self._line.start()

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Draws the line."""
        self._line.draw(self._rates.line(self._pattern, now_s, samples))

    def close(self) -> None:
        """Takes the line away."""
        self._line.stop()


def display(pattern: Pattern, *, silent: bool) -> TrafficDisplay:
    """What shows traffic: nothing, a line that stays in place, or lines for logs."""
    if silent:
        return TrafficDisplay()
    return TrafficTerminal(pattern) if sys.stderr.isatty() else TrafficLines(pattern)
