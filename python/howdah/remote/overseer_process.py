"""The overseer of a confined far end, in a process of its own: it reads the policy, counts and logs.

The two speak over a pair of sockets, one request and one answer at a time, each behind its length. A near end
that lies may take the far end over; this process takes three requests from it, and ends with it.
"""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from howdah import HowdahError
from howdah.remote.messages import FarJob

_BYTES_MAX = 8 << 20
"""More than a job holds that fits into one frame of the control channel."""


class Accept(msgspec.Struct, frozen=True, tag=True):
    """May this FarJob, as JSON, be carried out?"""

    job: bytes


class Moved(msgspec.Struct, frozen=True, tag=True):
    """May the copy go on? Units are bytes."""

    moved: int
    known: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The copy has ended with this FarAccount, as JSON."""

    account: bytes


Request = Accept | Moved | Ended


class Remote:
    """The overseer as the far end calls it; each refusal is a HowdahError."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def accept(self, job: bytes) -> None:
        """Takes a FarJob before anything is opened."""
        self._ask(Accept(job))

    def moved(self, moved: int, known: int) -> None:
        """Takes the bytes that have arrived, and all that the copy is known to move."""
        self._ask(Moved(moved, known))

    def ended(self, account: bytes) -> None:
        """Takes the FarAccount of an accepted job."""
        self._ask(Ended(account))

    def _ask(self, request: Request) -> None:
        try:
            _send(self._channel, msgspec.msgpack.encode(request))
            answer = _receive(self._channel)
        except OSError as error:
            raise HowdahError(f"the overseer of this copy cannot be asked: {error.strerror}") from None
        if answer is None:
            raise HowdahError("the overseer of this copy has ended")
        refusal = msgspec.msgpack.decode(answer, type=str | None)
        if refusal is not None:
            raise HowdahError(refusal)


@contextmanager
def started(root: str) -> Iterator[Remote]:
    """Starts the process, before this one is confined to ``root``; it ends when the block does."""
    far, own = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            far.close()
            # It ends with the far end, and not before the outcome is logged.
            for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_IGN)
            # What ssh waits for is the far end's.
            os.close(0)
            os.close(1)
            _answer(own, root)
            code = 0
        finally:
            os._exit(code)
    own.close()
    try:
        yield Remote(far)
    finally:
        far.close()
        os.waitpid(pid, 0)


def _answer(channel: socket.socket, root: str) -> None:
    """Answers requests until the other side closes."""
    from howdah.remote.oversight import Oversight  # noqa: PLC0415

    oversight: Oversight | None = None
    while (asked := _receive(channel)) is not None:
        refusal: str | None = None
        try:
            match msgspec.msgpack.decode(asked, type=Request):
                case Accept(job):
                    oversight = Oversight(beneath(root, job))
                case Moved(moved, known) if oversight:
                    oversight.moved(moved, known)
                case Ended(account) if oversight:
                    oversight.ended(account)
                case request:
                    refusal = f"{type(request).__name__} before a job"
        except HowdahError as error:
            refusal = str(error)
        _send(channel, msgspec.msgpack.encode(refusal))


def _send(channel: socket.socket, message: bytes) -> None:
    channel.sendall(len(message).to_bytes(4, "little") + message)


def _receive(channel: socket.socket) -> bytes | None:
    """The next message; None when the other side has closed, or says that it is longer than any may be."""
    length = _exactly(channel, 4)
    if length is None or int.from_bytes(length, "little") > _BYTES_MAX:
        return None
    return _exactly(channel, int.from_bytes(length, "little"))


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        part = channel.recv(min(count - len(found), 1 << 16))
        if not part:
            return None
        found += part
    return bytes(found)


def beneath(root: str, job: bytes) -> bytes:
    """A FarJob whose paths at this end are those of the host: the near end's begin at ``root``."""
    asked = msgspec.json.decode(job, type=FarJob)
    folder = os.fsencode(os.path.realpath(root))

    def whole(path: bytes) -> bytes:
        inside = path.removeprefix(b"~").lstrip(b"/")
        return folder.rstrip(b"/") + b"/" + inside

    if asked.direction == "pull":
        asked = msgspec.structs.replace(asked, sources=[whole(path) for path in asked.sources])
    else:
        asked = msgspec.structs.replace(asked, destination=whole(asked.destination))
    return msgspec.json.encode(asked)
