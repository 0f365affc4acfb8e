"""One check: the end that has the files is given the list, and what it finds is told as it comes.

The end is threads of this process, or ``howdah reread`` at the far host, over ssh. Both have the same two
pipes: a job and a list go in, lines of JSON come out (crates/digest/src/serve.rs). When the second one is
closed here, either ends within a fraction of a second.
"""

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from howdah import HowdahError, _native, decoding, interrupt
from howdah.remote import process, ssh
from howdah.remote.answers import ended, not_howdah
from howdah.remote.endpoints import Endpoint
from howdah.remote.far import CANCEL_S, TICK_S
from howdah.text import printable
from howdah.values.verification import FINDINGS_MAX, Algorithm, Counts, Finding, Verification
from howdah.verification.lists import Listed

_TEXT_BYTES_MAX = 8192
_LINE_BYTES_MAX = 1 << 16
_LOST = "the far end sent an answer that is not a check's; install the same version on both hosts"


class End(Protocol):
    """What reads files and hashes them."""

    read_fd: int
    """Where its lines come from."""
    write_fd: int
    """Where the job and the list go to. Whoever writes there closes it."""

    def drain(self) -> str:
        """The new lines that it wrote to standard error."""

    def why(self) -> HowdahError:
        """Why it has ended before its last line."""

    def close(self, *, finished: bool) -> None:
        """Ends it, by force unless it has ``finished``."""


class Here:
    """Threads of this process."""

    def __init__(self) -> None:
        job, self.write_fd = os.pipe()
        self.read_fd, lines = os.pipe()
        self._thread = threading.Thread(
            target=_native.check_digests, args=(job, lines), name="howdah-check", daemon=True
        )
        self._thread.start()

    def drain(self) -> str:
        """Threads write nothing there."""
        return ""

    def why(self) -> HowdahError:
        """Threads say why they end."""
        return HowdahError("the check was cut short; run it again")

    def close(self, *, finished: bool) -> None:
        """Closes its lines, which ends it."""
        os.close(self.read_fd)
        self._thread.join(CANCEL_S)


class There:
    """A running ``ssh HOST howdah reread``."""

    def __init__(self, host: str, far_howdah: str | None, *, asks: bool = True) -> None:
        """Starts ssh and returns at once; ``asks``: it may ask the user.

        Raises HowdahError when it cannot be started.
        """
        login = ssh.Login(host)
        self._host = host
        self._far = process.FarProcess(login, login.start(far_howdah, role="reread", asks=asks))
        self.read_fd, self.write_fd = self._far.read_fd, self._far.write_fd
        self._last = ""
        """The last line that was told: it may be the cause of the end."""

    def drain(self) -> str:
        """The new lines, each marked as the far end's."""
        new = self._far.new_stderr()
        if new:
            self._last = new.splitlines()[-1].removeprefix(f"{self._far.mark}: ")
        return new

    def why(self) -> HowdahError:
        """The cause that ssh gives, if it does."""
        status, stderr = self._far.exit_status(CANCEL_S), self._far.stderr() or self._last
        if "No such command" in stderr:
            return HowdahError(
                f"howdah on {self._host} is older and cannot verify; install the same version on both hosts"
            )
        if status:
            return HowdahError(ended(self._host, status, stderr))
        return HowdahError(f"{self._host}: the far end ended before the check was complete; run it again")

    def refusal(self) -> HowdahError | None:
        """Why the far host has ended it before its last line; None: it was ssh that could not reach it."""
        return None if self._far.exit_status(CANCEL_S) in {None, process.LOST} else self.why()

    def close(self, *, finished: bool) -> None:
        """Closes its lines, which ends it and then ssh; ends ssh by force where that takes long."""
        os.close(self.read_fd)
        if not finished or self._far.exit_status(CANCEL_S) is None:
            self._far.end()
        self._far.close()


def reread(words: list[str]) -> int:
    """Runs ``howdah reread`` and returns its exit code."""
    if words or sys.stdin.isatty():
        print(
            "howdah: reread is the far end of a check and is started over ssh; "
            "use: howdah verify MANIFEST HOST:PATH",
            file=sys.stderr,
        )
        return 2
    with contextlib.suppress(HowdahError):
        return _native.check_digests(0, 1)
    return 1


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the end with the files is asked (crates/digest/src/serve.rs)."""

    root: bytes
    algorithm: Algorithm
    files: int
    also: Algorithm | None
    extra: bool


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    name: bytes
    what: str
    why: str | None = None


class _Digest(msgspec.Struct, frozen=True, kw_only=True):
    name: bytes
    digest: str


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """What it says, one of these a line."""

    progress: Counts | None = None
    finding: _Found | None = None
    digest: _Digest | None = None
    end: Counts | None = None
    failed: str | None = None


class Listener:
    """What a check calls, in its own thread; does nothing by itself."""

    def progress(self, now: Counts) -> None:
        """Takes how far the check is, some five times a second."""

    def finding(self, found: Finding) -> None:
        """Takes a file that does not agree."""

    def digest(self, name: bytes, digest: str) -> None:
        """Takes the other digest of a file that agrees, in hexadecimal."""

    def far_says(self, text: str) -> None:
        """Takes lines that ssh or the far end wrote to standard error."""


def check(
    listed: Listed,
    at: Endpoint,
    listener: Listener,
    *,
    also: Algorithm | None = None,
    extra: bool = False,
    far_howdah: str | None = None,
) -> Verification:
    """Checks the files of ``at`` against the list; each file is read from its disk.

    ``also`` makes another digest of each file that agrees, of the same read; with ``extra``, files that the
    list does not name are findings. Raises HowdahError where the check cannot be made; that a file does not
    agree is a result.
    """
    began_s = time.monotonic()
    job = Job(root=at.path, algorithm=listed.algorithm, files=listed.files, also=also, extra=extra)
    end: End | None = None
    counts: Counts | None = None
    findings: list[Finding] = []
    try:
        with interrupt.Held():
            end = Here() if at.host is None else There(at.host, far_howdah)
            feeder = threading.Thread(
                target=_feed, args=(end.write_fd, job, listed), name="howdah-list", daemon=True
            )
            feeder.start()
        for line in _lines(end, listener, at.host):
            if line.progress is not None:
                listener.progress(line.progress)
            elif line.finding is not None:
                found = _finding(line.finding)
                listener.finding(found)
                if len(findings) < FINDINGS_MAX:
                    findings.append(found)
            elif line.digest is not None:
                listener.digest(line.digest.name, line.digest.digest)
            elif line.failed is not None:
                where = "" if at.host is None else f"{at.host}: "
                raise HowdahError(f"{where}{printable(line.failed, _TEXT_BYTES_MAX)}")
            else:
                counts = line.end
                break
        if counts is None:
            raise end.why()
        listener.progress(counts)
    finally:
        if end is not None:
            end.close(finished=counts is not None)
            feeder.join(CANCEL_S)
    elapsed_s = time.monotonic() - began_s
    return _result(listed.name, listed.algorithm, at, elapsed_s=elapsed_s, counts=counts, findings=findings)


def nothing(name: str, at: Endpoint) -> Verification:
    """What comes of a list of BLAKE3 digests of this name that names no file; nothing is read."""
    return _result(name, "blake3", at, elapsed_s=0.0, counts=Counts(), findings=[])


def ask(host: str, far_howdah: str | None) -> None:
    """Asks a far host whether it would check files. Raises HowdahError, with the reason, where it would not.

    It is given an empty list of its root folder, of which it says at once that nothing differs. ssh may not
    ask the user for this. Where it would have to, nothing is known, and nothing is raised.
    """
    job = Job(root=b"/", algorithm="blake3", files=0, also=None, extra=False)
    end: There | None = None
    over = False
    try:
        with interrupt.Held():
            end = There(host, far_howdah, asks=False)
        _feed(end.write_fd, job, Listed("an empty list", Path(os.devnull), job.algorithm, job.files))
        poll = select.poll()
        poll.register(end.read_fd, select.POLLIN)
        while not poll.poll(TICK_S * 1e3):
            interrupt.check()
        answered = bool(os.read(end.read_fd, _LINE_BYTES_MAX))
        over = True
        if not answered and (refusal := end.refusal()) is not None:
            raise refusal
    finally:
        if end is not None:
            end.close(finished=over)


def _result(
    name: str,
    algorithm: Algorithm,
    at: Endpoint,
    *,
    elapsed_s: float,
    counts: Counts,
    findings: list[Finding],
) -> Verification:
    return Verification(
        manifest=name,
        algorithm=algorithm,
        host=None if at.host is None else at.host.rpartition("@")[2],
        path=printable(at.path),
        elapsed_s=elapsed_s,
        counts=counts,
        findings=findings,
        findings_more=max(0, counts.disagreeing - len(findings)),
    )


def _feed(fd: int, job: Job, listed: Listed) -> None:
    """Writes the job and the list. Where nobody reads them any more, the lines of the other end say why."""
    try:
        with os.fdopen(fd, "wb") as stream, listed.file.open("rb") as lines:
            stream.write(msgspec.json.encode(job) + b"\n")
            if listed.repeats:
                numbered = enumerate(lines, 1)
                stream.writelines(line for number, line in numbered if number not in listed.repeats)
            while piece := lines.read(1 << 20):
                stream.write(piece)
    except OSError:
        return


def _lines(end: End, listener: Listener, host: str | None) -> Iterator[_Line]:
    """What the end says, until it says no more."""
    poll = select.poll()
    poll.register(end.read_fd, select.POLLIN)
    rest, first = b"", True
    while True:
        interrupt.check()
        if said := end.drain():
            listener.far_says(said)
        if not poll.poll(TICK_S * 1e3):
            continue
        piece = os.read(end.read_fd, 1 << 20)
        if not piece:
            return
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            try:
                decoded = decoding.from_json(line, _Line)
            except msgspec.MsgspecError as error:
                if first and host is not None and not isinstance(error, msgspec.ValidationError):
                    raise not_howdah(host, line) from None
                raise HowdahError(_LOST) from None
            first = False
            yield decoded
        if len(rest) > _LINE_BYTES_MAX:
            raise HowdahError(_LOST)


def _finding(found: _Found) -> Finding:
    why = None if found.why is None else printable(found.why, _TEXT_BYTES_MAX)
    try:
        return decoding.from_plain({"name": printable(found.name), "what": found.what, "why": why}, Finding)
    except msgspec.ValidationError:
        raise HowdahError(_LOST) from None
