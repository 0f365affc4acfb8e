"""Progress: rates from progress values, and a line now and then where there is no terminal."""

import sys
from collections import deque
from typing import TextIO

from howdah._native import format_bytes, format_duration, format_rate
from howdah.transfer.messages import PASSING, FarHello, Progress
from howdah.values.plan import Plan, paced
from howdah.values.record import Change
from howdah.words import count

WINDOW_S = 1.0
"""The rate now is the mean over this much time."""

SHORTEST_S = 0.01
"""A rate over less time than this says nothing."""

LINE_S = 10.0
"""Without a terminal: how often a line is written."""


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


class Changes:
    """What is said of changes on the way."""

    def __init__(self) -> None:
        self._latest: Change | None = None
        self._said: set[str] = set()

    def next(self, now: Progress) -> str | None:
        """The change that is new, in words; of bounds that move again and again only the first."""
        change = now.latest
        if change is None or change == self._latest:
            return None
        self._latest = change
        if change.why in PASSING and change.refused is None:
            if change.why in self._said:
                return None
            self._said.add(change.why)
        return change_in_words(change)


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
        self._changes = Changes()

    def progress(self, now: Progress) -> None:
        """Writes a line when it is time, and when the streams have been changed."""
        self._meter.add(now)
        if (said := self._changes.next(now)) is not None:
            print("howdah:", said, file=self._stream)
        if now.elapsed_s >= self._next_s and now.phase in {"scanning", "moving"}:
            self._next_s = now.elapsed_s + LINE_S
            parts = [f"{amount(now)} in {format_duration(now.elapsed_s)}", *rates(self._meter)]
            print("howdah:", ", ".join(parts), file=self._stream)


def change_in_words(change: Change) -> str:
    """``After 5.03 s: bbr, 4 streams, unbounded (the plan's schedule)``; of a refused one why it was."""
    control = change.congestion_control or "the same congestion control"
    what = f"{control}, {count(change.streams, 'stream')}, {paced(change.pacing_bps)} ({change.why})"
    if change.refused is None:
        return f"After {change.t_s:.2f} s: {what}"
    return f"After {change.t_s:.2f} s refused, all stayed as it was: {what}: {change.refused}"


def amount(now: Progress) -> str:
    """``2.15 GB of 4.29 GB``; ``so far`` while the sender still looks for files."""
    if now.bytes_total is None:
        return format_bytes(now.bytes_done)
    more = "" if now.scan_complete else " so far"
    return f"{format_bytes(now.bytes_done)} of {format_bytes(now.bytes_total)}{more}"


def rates(meter: Meter) -> list[str]:
    """The rate now and the average, as far as they are known."""
    now_bps, mean_bps = meter.now_bps(), meter.mean_bps()
    shown = [] if now_bps is None else [f"now {format_rate(now_bps)}"]
    return shown if mean_bps is None else [*shown, f"average {format_rate(mean_bps)}"]
