"""Progress: rates from progress values, and a line now and then where there is no terminal."""

import sys
import time
from typing import TextIO

from howdah._native import format_bytes, format_duration, format_rate
from howdah.remote.messages import Progress
from howdah.remote.meter import Meter
from howdah.text import count
from howdah.transfer.display import Display, Quiet
from howdah.values.outcome import Change
from howdah.values.plan import paced
from howdah.values.reason import PASSING, Reason
from howdah.values.verification import Counts

LINE_S = 10.0
"""The seconds between two lines without a terminal."""

SAME_S = 600.0
"""The seconds between two lines that say the same."""


class Changes:
    """The lines on changes on the way."""

    def __init__(self) -> None:
        self._latest: Change | None = None
        self._said: set[str] = set()

    def next(self, now: Progress) -> str | None:
        """The change that is new, in words; of bounds that move again and again only the first.

        A copy that is refused moves nothing, so a change before the first byte waits for it.
        """
        change = now.latest
        if change is None or change == self._latest or not now.bytes_done:
            return None
        self._latest = change
        if Reason.of(change.why) in PASSING and change.refused is None:
            if change.why in self._said:
                return None
            self._said.add(change.why)
        return change_in_words(change)


class Lines(Quiet):
    """A line every LINE_S, for logs."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._meter, self._next_s = Meter(), LINE_S
        self._changes = Changes()
        self._reread_s = 0.0
        self._waits = Waits()

    def waiting(self, text: str) -> None:
        """Writes it when it is time."""
        if (said := self._waits.next(text)) is not None:
            print("howdah:", said, file=self._stream)

    def progress(self, now: Progress) -> None:
        """Writes a line when it is time, and when the streams have been changed."""
        self._meter.add(now)
        if (said := self._changes.next(now)) is not None:
            print("howdah:", said, file=self._stream)
        if now.elapsed_s >= self._next_s and now.phase in {"scanning", "moving"}:
            self._next_s = now.elapsed_s + LINE_S
            parts = [f"{amount(now)} in {format_duration(now.elapsed_s)}", *rates(self._meter)]
            print("howdah:", ", ".join(parts), file=self._stream)

    def rereading(self, files: int, now: Counts) -> None:
        """Writes a line when it is time."""
        if time.monotonic() >= self._reread_s:
            self._reread_s = time.monotonic() + LINE_S
            print("howdah:", rereading(files, now), file=self._stream)


def rereading(files: int, now: Counts) -> str:
    """``reading again from the disk: 12 of 300 files, 1.2 GB``"""
    return f"reading again from the disk: {now.files:,} of {count(files, 'file')}, {format_bytes(now.bytes)}"


def display(*, silent: bool) -> Display:
    """What shows a copy: nothing but what the far end says, a line that stays in place, or lines for logs."""
    if silent:
        return Quiet()
    if not sys.stderr.isatty():
        return Lines()
    # Loaded for a terminal only, while ssh connects.
    from howdah.words.copy_terminal import Terminal  # noqa: PLC0415

    return Terminal()


class Waits:
    """What is said to a log of a wait: that it begins, and a line every LINE_S; of a pause every SAME_S."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._said: str | None = None

    def next(self, text: str) -> str | None:
        """The line, when it is time for one."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return None
        self._next_s = now_s + (SAME_S if text == self._said else LINE_S)
        self._said = text
        return text


def change_in_words(change: Change) -> str:
    """``After 5.03 s: bbr, 4 streams, unbounded (the plan's schedule)``; of a refused one why it was."""
    if change.held_by_rule:
        return f"After {change.t_s:.2f} s nothing changed: {change.refused}"
    control = change.congestion_control or "the same congestion control"
    what = f"{control}, {count(change.streams, 'stream')}, {paced(change.pacing_bps)} ({change.why})"
    if change.refused is None:
        return f"After {change.t_s:.2f} s: {what}"
    return f"After {change.t_s:.2f} s refused, so nothing changed: {what}: {change.refused}"


def amount(now: Progress) -> str:
    """``2.15 GB of 4.29 GB``; ``so far`` while the sender still looks for files."""
    if now.bytes_to_place is None:
        return format_bytes(now.bytes_placed)
    more = "" if now.scan_complete else " so far"
    return f"{format_bytes(now.bytes_placed)} of {format_bytes(now.bytes_to_place)}{more}"


def rates(meter: Meter) -> list[str]:
    """The rate now and the average, as far as they are known."""
    now_bps, mean_bps = meter.now_bps(), meter.mean_bps()
    shown = [] if now_bps is None else [f"now {format_rate(now_bps)}"]
    return shown if mean_bps is None else [*shown, f"average {format_rate(mean_bps)}"]
