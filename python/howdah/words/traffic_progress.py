"""Progress of a run of traffic: a line now and then, or one that stays in place on a terminal."""

import sys
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from howdah._native import format_rate
from howdah.text import printable
from howdah.traffic.account import LoadSample
from howdah.traffic.pattern import Pattern

LINE_S = 10.0
"""Without a terminal: how often a line is written."""


class Rates:
    """What arrives of each load, from its last two samples."""

    def __init__(self) -> None:
        self._before: dict[str, LoadSample] = {}
        self._last: dict[str, LoadSample] = {}

    def line(self, pattern: Pattern, now_s: float, samples: dict[str, LoadSample]) -> str:
        """As ``12 of 60 s: udp1 300 Mb/s, tcp2 180 Mb/s``; what arrives at the far host."""
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


class Quiet:
    """Shows nothing."""

    def begins(self) -> None:
        """Shows nothing."""

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Shows nothing."""

    def close(self) -> None:
        """Nothing is open."""


class Lines(Quiet):
    """A line every LINE_S, for logs."""

    def __init__(self, pattern: Pattern, stream: TextIO | None = None) -> None:
        self._pattern, self._stream = pattern, stream or sys.stderr
        self._rates, self._next_s = Rates(), LINE_S

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Writes a line when it is time."""
        line = self._rates.line(self._pattern, now_s, samples)
        if now_s >= self._next_s:
            self._next_s += LINE_S
            print("howdah:", printable(line), file=self._stream)


class Terminal(Quiet):
    """A line that stays in place and vanishes at the end."""

    def __init__(self, pattern: Pattern, console: Console | None = None) -> None:
        self._pattern, self._rates = pattern, Rates()
        console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def begins(self) -> None:
        """Until now the terminal was ssh's, for passwords."""
        self._live.start()

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        """Draws the line."""
        line = self._rates.line(self._pattern, now_s, samples)
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        """Takes the line away."""
        self._live.stop()
