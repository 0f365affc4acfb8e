"""All of a running copy that others than its terminal see, and change: jobs, metrics and the log file.

A thread answers ``howdah jobs``, ``limit``, ``pause`` and ``continue``. One display stands for several.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from howdah import HowdahError, decoding, interrupt, private
from howdah.remote.messages import FarHello, Progress
from howdah.transfer import jobs
from howdah.transfer.display import Display
from howdah.transfer.request import Request
from howdah.transfer.standing import Standing, Watched
from howdah.transfer.valve import Valve
from howdah.values.limit import Limits
from howdah.values.plan import Plan
from howdah.values.record import Record
from howdah.values.verification import Counts

if TYPE_CHECKING:
    from howdah.transfer.logfile import LogFile


_WAITING_MOST = 16


class Attending:
    """A socket of one copy, open while it is entered. A copy that can have none copies without."""

    def __init__(self, record: str, standing: Callable[[], Standing], valve: Valve) -> None:
        self._record, self._standing, self._valve = record, standing, valve
        self._path: Path | None = None
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def __enter__(self) -> None:
        folder = jobs.folder()
        if folder is None:
            return
        path, made = folder / self._record, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(str(path))
            made.listen(_WAITING_MOST)
        except OSError:
            made.close()
            return
        self._path, self._socket = path, made
        self._thread = threading.Thread(target=self._serve, args=(made,), name="howdah-jobs", daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        if self._socket is not None and self._thread is not None:
            # Whoever waits in accept(2) returns at once, so that no copy ends later for this.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._thread.join(jobs.WITHIN_S)
            self._socket.close()

    def _serve(self, made: socket.socket) -> None:
        # Signals are for the thread of the copy.
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupt.SIGNALS)
        while not self._ended.is_set():
            try:
                line, _ = made.accept()
            except OSError:
                return
            # Whoever asks and then says nothing harms itself alone.
            with line, contextlib.suppress(OSError):
                line.settimeout(jobs.WITHIN_S)
                if jobs.peer_of(line) not in {os.getuid(), 0}:
                    continue
                asked = jobs.read_line(line)
                # Whoever asked while Ctrl-Z had stopped this copy has been told that nothing came of it.
                if jobs.waits(line):
                    line.sendall(msgspec.json.encode(self._answer(asked)) + b"\n")

    def _answer(self, text: bytes) -> jobs.Answer:
        try:
            self._do(decoding.from_json(text, jobs.Ask))
        except (HowdahError, msgspec.MsgspecError) as error:
            return jobs.Answer(error=str(error))
        return jobs.Answer(standing=self._standing())

    def _do(self, wanted: jobs.Ask) -> None:
        """Raises HowdahError for what cannot be."""
        match wanted.do:
            case "limit":
                self._valve.limit(Limits.parse(wanted.limit or "", "the limit"))
            case "pause" | "continue":
                self._valve.pause(paused=wanted.do == "pause")
            case "tell":
                pass


class Observed(Display):
    """Shows a copy by each of several displays, in their order."""

    def __init__(self, displays: Sequence[Display]) -> None:
        self._each = displays

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Has each show the plan."""
        for each in self._each:
            each.planned(decided, far)

    def progress(self, now: Progress) -> None:
        """Has each show how far the transfer is."""
        for each in self._each:
            each.progress(now)

    def rereading(self, files: int, now: Counts) -> None:
        """Has each show how far the reading again is."""
        for each in self._each:
            each.rereading(files, now)

    def far_says(self, text: str) -> None:
        """Has each show lines."""
        for each in self._each:
            each.far_says(text)

    def waiting(self, text: str) -> None:
        """Has each show what is waited for."""
        for each in self._each:
            each.waiting(text)

    def close(self) -> None:
        """Ends each."""
        for each in self._each:
            each.close()


class Outside:
    """Open while the copy runs."""

    def __init__(self, request: Request, record: str, started_at: datetime, valve: Valve) -> None:
        """That of a copy whose record has this id."""
        self._request = request
        self._watched = Watched(request, record, started_at, valve)
        self._attending = Attending(record, self._watched.now, valve)
        self._log: LogFile | None = None
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        """Listens."""
        self._ends.enter_context(self._attending)
        return self

    def __exit__(self, *_: object) -> None:
        """Listens no more."""
        self._ends.close()

    def begin(self, display: Display) -> Display:
        """Begins the log and the metrics; ``display`` with all that watches the copy.

        Raises HowdahError for what cannot be had.
        """
        now, request = self._watched.now(), self._request
        if request.log_file is not None:
            # Most copies load neither.
            from howdah.transfer.logfile import LogFile  # noqa: PLC0415

            started = f"{' '.join(now.from_)} to {now.to}, record {now.record}"
            to_pipe = request.route.pipe and request.route.direction == "pull"
            self._log = LogFile(request.log_file, now.job, started, to_pipe=to_pipe)
        if request.metrics is not None:
            from howdah.transfer.metrics import Metrics  # noqa: PLC0415

            self._ends.enter_context(Metrics(request.metrics, self._watched.now))
        return Observed([display, self._watched, *([self._log] if self._log else [])])

    def hold(self, file: Path) -> None:
        """Has whoever tidies up the archive leave a file there until the copy has ended."""
        with contextlib.suppress(OSError):
            self._ends.enter_context(private.held(file))

    def read_digests(self, file: Path | None) -> None:
        """Has the log tell of each file that a session adds to ``file``; None: the session has ended."""
        if self._log is not None:
            self._log.read_digests(file)

    def ended(self, record: Record) -> str | None:
        """Has all see the end; why the log has not all of it, if it has not."""
        self._watched.ended(failed=record.error is not None)
        if self._log is None:
            return None
        self._log.ended(record)
        return self._log.failed
