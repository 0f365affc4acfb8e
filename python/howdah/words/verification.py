"""A check of files against a list, in words: progress, findings, and what came of it."""

import sys
import time
from typing import TextIO

from howdah._native import format_bytes, format_duration, format_rate
from howdah.remote.endpoints import written
from howdah.text import count
from howdah.values.record import is_id
from howdah.values.verification import Counts, Finding, Verification
from howdah.verification.check import Listener

LINE_S = 10.0
"""Without a terminal: how often a line of progress is written."""


class Shown(Listener):
    """Findings as lines on standard output, and progress on standard error."""

    def __init__(self, files: int, *, findings: bool, progress: bool, stream: TextIO | None = None) -> None:
        self._files, self._findings, self._progress = files, findings, progress
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._next_s = time.monotonic() + (0.5 if self._terminal else LINE_S)

    def progress(self, now: Counts) -> None:
        """Writes it when it is time; on a terminal in the same line."""
        if not self._progress or time.monotonic() < self._next_s:
            return
        line = f"{now.files:,} of {count(self._files, 'file')}, {format_bytes(now.bytes)}"
        if now.disagreeing:
            line += f", {now.disagreeing:,} do not agree"
        if self._terminal:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
            return
        self._next_s = time.monotonic() + LINE_S
        print("howdah:", line, file=self._stream)

    def finding(self, found: Finding) -> None:
        """Prints it."""
        if self._findings:
            self.clear()
            print(in_words(found))

    def far_says(self, text: str) -> None:
        """Writes it."""
        self.clear()
        self._stream.write(text)

    def clear(self) -> None:
        """Takes the line of progress away."""
        if self._progress and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def in_words(found: Finding) -> str:
    """``differs: a/b``, or ``unreadable: a/b (why)``"""
    return f"{found.what}: {found.name}" + (f" ({found.why})" if found.why else "")


def in_short(result: Verification) -> str:
    """What came of it, in one line."""
    if not result.unlisted:
        return _of_list(result)
    are = "is" if result.unlisted == 1 else "are"
    return (
        f"The list is incomplete: {count(result.unlisted, 'file')} that the copy moved {are} not in it. "
        f"{_of_list(result)}"
    )


def _of_list(result: Verification) -> str:
    counts = result.counts
    where = result.path if result.host is None else f"{written(result.host)}:{result.path}"
    read = f"{format_bytes(counts.bytes)} read from the disk in {format_duration(result.elapsed_s)}"
    if counts.bytes and result.elapsed_s > 0:
        read += f", {format_rate(8 * counts.bytes / result.elapsed_s)}"
    if not counts.disagreeing:
        by = f" by record {result.manifest}" if is_id(result.manifest) else ""
        listed = f"as listed{by} ({result.algorithm})"
        return f"Verified: {count(counts.files, 'file')} in {where} {listed}; {read}"
    said = [
        f"{number:,} {what}"
        for number, what in (
            (counts.differs, "with different content"),
            (counts.missing, "missing"),
            (counts.unreadable, "unreadable"),
            (counts.extra, "not in the list"),
        )
        if number
    ]
    files = f"{count(counts.files, 'file')} in {where} ({result.algorithm})"
    return f"Not as listed: of {files} {', '.join(said)}; {read}"


def of_copy(result: Verification, *, skips_as_asked: bool) -> list[str]:
    """What came of reading again what a copy moved, and what it skipped and so did not read."""
    lines = [in_short(result)] if result.counts.files else []
    if result.skipped:
        skipped = count(result.skipped, "file")
        was, them = ("was", "it") if result.skipped == 1 else ("were", "them")
        if skips_as_asked:
            lines.append(f"{skipped} {was} skipped and not read again")
        else:
            lines.append(
                f"{skipped} {was} there already and {was} not read again; "
                f"to compare {them} too, add --checksum"
            )
    return lines
