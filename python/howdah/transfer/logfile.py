"""The log file of a copy: what was done, a line each with its time, appended to what is there.

A line is the time in UTC, the name of the copy as ``howdah jobs`` has it, a word that says what, and the
rest. Names are told without control characters, so that no file makes a line of its own.
"""

import contextlib
import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from howdah._native import format_bytes
from howdah.arguments import NotHere, literal
from howdah.remote.messages import FarHello, Progress
from howdah.text import count, printable
from howdah.transfer.display import Display
from howdah.values.outcome import Outcome
from howdah.values.plan import Plan
from howdah.values.record import Record
from howdah.values.verification import Counts

# Where it is a FIFO without a reader, opening it must not wait for one.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
_AT_ONCE_BYTES = 1 << 18
"""The most of the digests that is read in one look, so that a million small files do not delay a copy."""


class LogFile(Display):
    """A display that writes to the log, for one copy."""

    def __init__(self, file: Path, job: str, started: str, *, to_pipe: bool = False) -> None:
        """Opens the log, and begins with ``started``.

        ``to_pipe``: standard output carries the data. Raises HowdahError where it cannot be written.
        """
        self._job = job
        self._now: Progress | None = None
        self._waits: set[str] = set()
        """The waits that go on; each is written already."""
        self._seen: set[str] = set()
        """The waits that were told since the last look."""
        self._digests: BinaryIO | None = None
        """Those of the session."""
        self._part = b""
        shown = f"{{log_file}} {literal(printable(str(file)))}"
        try:
            # Names of files are nobody else's business.
            descriptor = os.open(file, _FLAGS, 0o600)
            os.set_blocking(descriptor, True)
        except OSError as error:
            unread = error.errno == errno.ENXIO
            why = "nobody reads from this FIFO or socket" if unread else error.strerror or error
            raise NotHere(f"{shown}: {why}") from None
        if to_pipe and _is_standard_output(descriptor):
            os.close(descriptor)
            raise NotHere(f"{shown} is standard output, which carries the data; give another file")
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self.failed: str | None = None
        """Why lines are missing from then on; None: none is."""
        self._write("start", started)

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Writes the plan."""
        self._write("plan", decided.in_short())

    def read_digests(self, file: Path | None) -> None:
        """Tells of each file that a session adds to these digests; None: the session has ended."""
        self._tell_files(None)
        if self._digests is not None:
            self._digests.close()
        # A session that is over may not have begun; then there is no file.
        self._digests = file.open("rb") if file is not None and file.exists() else None
        self._part = b""

    def progress(self, now: Progress) -> None:
        """Writes what has changed since the last look."""
        before, self._now = self._now, now
        if before is not None:
            if now.outages > before.outages:
                self._write("outage", f"ridden through; {now.outage_s:.0f} s in all")
            if now.connections_replaced > before.connections_replaced:
                self._write("reconnected", f"{count(now.connections_replaced, 'connection')} replaced so far")
        if now.latest is not None and (before is None or now.latest != before.latest):
            what = f"{count(now.latest.streams, 'stream')} ({now.latest.why})"
            self._write("steered", what if now.latest.refused is None else f"refused: {now.latest.refused}")
        # A copy that waits says so after each look, so a wait is over once a look has passed without it.
        self._waits, self._seen = self._seen, set()
        self._tell_files(_AT_ONCE_BYTES)

    def rereading(self, files: int, now: Counts) -> None:
        """Writes that the files are read again, once."""
        self.waiting(f"reads {count(files, 'file')} again from the disk")

    def far_says(self, text: str) -> None:
        """Writes each line."""
        for line in text.splitlines():
            self._write("said", line)

    def waiting(self, text: str) -> None:
        """Writes what is waited for, once a wait."""
        what = text.partition(";")[0]
        kind = what.partition(" for ")[0]
        self._seen.add(kind)
        if kind not in self._waits:
            self._waits.add(kind)
            self._write("waits", what)

    def ended(self, record: Record) -> None:
        """Writes warnings, what was left out, and the end; closes the log."""
        self.read_digests(None)
        outcome = record.outcome
        if outcome is not None:
            for line in outcome.warnings:
                self._write("warning", line)
            for line in outcome.left_out:
                self._write("left-out", line)
            moved = f"{format_bytes(outcome.bytes)}, {count(outcome.files, 'file')}"
            skipped = f"{outcome.files_skipped:,} skipped, {outcome.restarts} restarts"
            self._write("moved", f"{moved}, {skipped}, in {outcome.elapsed_s:.1f} s")
        self._tell_removed(outcome)
        if record.verification is not None:
            counts, unread = record.verification.counts, record.verification.skipped
            read = f"{count(counts.files, 'file')} read again, {counts.disagreeing} not as sent"
            self._write("verified", f"{read}, {unread:,} skipped")
        self._write("end", "complete" if record.error is None else f"failed: {record.error}")
        self._file.close()

    def _tell_removed(self, outcome: Outcome | None) -> None:
        """Writes how many ``--delete`` has removed, also of a copy that did not come to its end.

        Their names stay at the receiver.
        """
        what = "that the source does not have"
        if outcome is None:
            if self._now is not None and self._now.removed:
                self._write("removed", f"{self._now.removed:,} {what}, so far")
        elif (removal := outcome.removal) is not None:
            dry = "" if outcome.dry_run_plan is None else " (a dry run)"
            self._write("removed", f"{removal.removed:,} of {removal.extraneous:,} {what}{dry}")

    def _tell_files(self, most_bytes: int | None) -> None:
        """Writes a line for each file whose digest is there, as ``b3sum`` names it."""
        if self._digests is None:
            return
        while read := self._digests.read(_AT_ONCE_BYTES):
            *lines, self._part = (self._part + read).split(b"\n")
            for line in lines:
                digest, _, name = line.removeprefix(b"\\").partition(b"  ")
                self._write("copied", f"blake3 {digest.decode()}  {printable(name)}")
            if most_bytes is not None:
                return

    def _write(self, word: str, what: str) -> None:
        if self.failed is not None:
            return
        at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
        line, written = f"{at} {self._job} {word} {printable(what)}\n".encode(), 0
        try:
            # One write a line: several copies may share a log.
            while written < len(line):
                written += self._file.write(line[written:])
        except OSError as error:
            self.failed = error.strerror or str(error)
            self._take_back(written)

    def _take_back(self, written: int) -> None:
        """Removes the beginning of a line for which there was no room, while it is the end of the file."""
        with contextlib.suppress(OSError):
            end = self._file.tell()
            if written and self._file.seek(0, os.SEEK_END) == end:
                self._file.truncate(end - written)


def _is_standard_output(descriptor: int) -> bool:
    """Whether both lead to one file or pipe; of a device, such as a terminal or /dev/null, never."""
    own = os.fstat(descriptor)
    return not stat.S_ISCHR(own.st_mode) and os.path.samestat(own, os.fstat(1))
