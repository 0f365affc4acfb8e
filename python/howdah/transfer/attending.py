"""The side of a copy that answers ``howdah jobs``, ``limit``, ``pause`` and ``continue``, on a thread."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from howdah import HowdahError, interrupt
from howdah.transfer import jobs
from howdah.transfer.standing import Standing
from howdah.transfer.valve import Valve
from howdah.values.limit import Limits

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
                if jobs.peer_of(line) in {os.getuid(), 0}:
                    line.sendall(msgspec.json.encode(self._answer(jobs.read_line(line))) + b"\n")

    def _answer(self, text: bytes) -> jobs.Answer:
        try:
            self._do(msgspec.json.decode(text, type=jobs.Ask))
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
