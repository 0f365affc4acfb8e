"""Progress for a person: three lines that stay in place on a terminal, a line now and then elsewhere."""

import sys
from collections import deque
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from howdah._native import format_bytes, format_duration, format_rate
from howdah.plan import Plan
from howdah.transfer.messages import FarHello, Progress

WINDOW_S = 1.0
"""The rate now is the mean over this much time."""

SHORTEST_S = 0.01
"""A rate over less time than this says nothing."""

LINE_S = 10.0
"""Without a terminal: how often a line is written."""

_BAR_WIDTH = 24
_WAITING = {"connecting": "connecting …", "scanning": "looking …", "finishing": "finishing …"}


class Meter:
    """Rates from a run of progress values; no clock of its own."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None

    def add(self, now: Progress) -> None:
        """Takes the next value in."""
        point = (now.elapsed_s, now.bytes_done)
        if self._first is None and now.bytes_done:
            self._first = self._seen[-1] if self._seen else (0.0, 0)
        self._seen.append(point)
        while len(self._seen) > 2 and point[0] - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()

    def now_bps(self) -> float | None:
        """Over the last WINDOW_S; None before two values."""
        return _rate(self._seen[0], self._seen[-1]) if len(self._seen) > 1 else None

    def mean_bps(self) -> float | None:
        """Since the first byte; None before it."""
        return _rate(self._first, self._seen[-1]) if self._first else None

    def left_s(self, now: Progress) -> float | None:
        """Time left at the mean of both rates; None while the total or the rate is unknown."""
        now_bps, mean_bps = self.now_bps(), self.mean_bps()
        if now.bytes_total is None or not now.scan_complete or not now_bps or not mean_bps:
            return None
        return (now.bytes_total - now.bytes_done) * 8 / ((now_bps + mean_bps) / 2)


def _rate(one: tuple[float, int], two: tuple[float, int]) -> float | None:
    elapsed_s = two[0] - one[0]
    return max(0, two[1] - one[1]) * 8 / elapsed_s if elapsed_s >= SHORTEST_S else None


class Quiet:
    """Shows nothing but what the far end says."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Shows nothing."""

    def progress(self, now: Progress) -> None:
        """Shows nothing."""

    def far_says(self, text: str) -> None:
        """Passes it on."""
        self._stream.write(text)

    def close(self) -> None:
        """Nothing is open."""


class Lines(Quiet):
    """A line every LINE_S, for logs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._meter, self._next_s = Meter(), LINE_S

    def progress(self, now: Progress) -> None:
        """Writes a line when it is time."""
        self._meter.add(now)
        if now.elapsed_s >= self._next_s and now.phase in {"scanning", "moving"}:
            self._next_s = now.elapsed_s + LINE_S
            parts = [f"{_amount(now)} in {format_duration(now.elapsed_s)}", *_rates(self._meter)]
            print("howdah:", ", ".join(parts), file=self._stream)


class Terminal:
    """Three lines that stay in place; they vanish at the end, when the summary is printed."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._meter = Meter()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Names the plan while the streams connect. The terminal was ssh's until now, to ask for a password."""
        self._live.start()
        self._live.update(Text(f"{decided.in_short()}; connecting …", style="dim"), refresh=True)

    def progress(self, now: Progress) -> None:
        """Draws the three lines."""
        self._meter.add(now)
        if now.phase not in {"done", "failed"}:
            self._live.update(view(now, self._meter, self._console.width), refresh=True)

    def far_says(self, text: str) -> None:
        """Prints it above the lines."""
        if text:
            self._console.print(text.rstrip("\n"), markup=False)

    def close(self) -> None:
        """Takes the lines away."""
        self._live.stop()


def view(now: Progress, meter: Meter, columns: int) -> Group:
    """The three lines: how far, how fast, which file."""
    share = now.bytes_done / now.bytes_total if now.bytes_total else None
    top = Table.grid(padding=(0, 1))
    for width in (4, _BAR_WIDTH, None, None):
        top.add_column(no_wrap=True, width=width)
    left_s = meter.left_s(now)
    top.add_row(
        "" if share is None else f"{share:4.0%}",
        ProgressBar(total=1.0, completed=share or 0.0, width=_BAR_WIDTH, pulse=share is None),
        _amount(now),
        "" if left_s is None else f"{_clock(left_s)} left",
    )
    rates = [*_rates(meter), _count(now.streams, "stream"), _count(now.retransmissions, "retransmission")]
    return Group(
        top,
        Text("     " + " · ".join(rates), no_wrap=True, overflow="ellipsis"),
        Text(f"     {_files(now, columns - 5)}", style="dim", no_wrap=True, overflow="ellipsis"),
    )


def _amount(now: Progress) -> str:
    if now.bytes_total is None:
        return format_bytes(now.bytes_done)
    more = "" if now.scan_complete else " so far"
    return f"{format_bytes(now.bytes_done)} of {format_bytes(now.bytes_total)}{more}"


def _rates(meter: Meter) -> list[str]:
    now_bps, mean_bps = meter.now_bps(), meter.mean_bps()
    shown = [] if now_bps is None else [f"now {format_rate(now_bps)}"]
    return shown if mean_bps is None else [*shown, f"average {format_rate(mean_bps)}"]


def _files(now: Progress, columns: int) -> str:
    if now.phase != "moving":
        return _WAITING.get(now.phase, "")
    parts = []
    if now.files_total:
        parts.append(f"file {now.files_done:,} of {now.files_total:,}")
    if now.files_skipped:
        parts.append(f"{now.files_skipped:,} there already")
    if now.current is None:
        return " · ".join(parts)
    head = "".join(f"{part} · " for part in parts)
    return head + _end_of(now.current, columns - cell_len(head))


def _end_of(name: str, columns: int) -> str:
    """The name, or as much of its end as fits: that is where names differ."""
    if cell_len(name) <= columns:
        return name
    while name and cell_len(name) >= columns:
        name = name[1:]
    return f"…{name}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _clock(duration_s: float) -> str:
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
