"""Running copies of this user on this host, and what may be asked of them.

Each copy listens on a Unix socket of its own, in a folder that only this user can enter; its name is the id
of its record. One line of JSON is asked, one is answered. Folder, socket and whoever answers are checked to
be this user's: what another user made is not spoken to. A socket that nobody listens on was left by a copy
that was killed, and is removed by whoever finds it.
"""

import contextlib
import os
import select
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from howdah import HowdahError, decoding
from howdah.remote.ssh import private_folder
from howdah.transfer.standing import Standing
from howdah.values.record import is_id

LINE_BYTES_MAX = 1 << 16
WITHIN_S = 2.0
"""The longest that either side takes for its one line."""
_CREDENTIALS = struct.Struct("3i")
"""``struct ucred`` of unix(7): process, user, group."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a copy."""

    do: Literal["tell", "limit", "pause", "continue"]
    limit: str | None = None
    """The new limit, as ``--limit`` takes it."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy answers: how it stands then, or why it did nothing."""

    standing: Standing | None = None
    error: str | None = None


class Found(NamedTuple):
    """The copies that run."""

    standing: list[Standing]
    silent: list[str]
    """The names of those that do not answer."""


def folder() -> Path | None:
    """The folder of a copy's socket, made if missing; None where no private one can be had."""
    return next(_folders(), None)


def _folders() -> Iterator[Path]:
    """Where sockets may be: where all find them, and, if another user has that name, where they are."""
    for above in dict.fromkeys([private_folder(common=True), private_folder()]):
        if above is not None and (found := _made(above)) is not None:
            yield found


def _made(above: str) -> Path | None:
    path = Path(above, "jobs")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    return path if found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000 else None


def running() -> Found:
    """The copies that run, the oldest first."""
    found = Found([], [])
    for path in _sockets():
        try:
            found.standing.append(ask(path, Ask(do="tell")))
        except _Gone:
            continue
        except HowdahError:
            found.silent.append(path.name.rpartition("-")[2])
    return found


def named(job: str) -> Path:
    """The socket of a copy, by the name that ``howdah jobs`` prints or the id of its record.

    Raises HowdahError where none has it.
    """
    every = _sockets()
    fit = [path for path in every if job in {path.name, path.name.rpartition("-")[2]}]
    if len(fit) == 1:
        return fit[0]
    if fit:
        raise HowdahError(
            f"{job} is the name of {len(fit)} copies; give the record's id from howdah jobs --json"
        )
    known = ", ".join(path.name.rpartition("-")[2] for path in every)
    called, others = job or repr(job), f"there is {known}" if known else "none runs"
    raise HowdahError(f"none of your copies on this host is called {called}; {others}")


def ask(path: Path, wanted: Ask) -> Standing:
    """Asks a copy. Raises HowdahError where it refuses, does not answer, or is another user's."""
    job = path.name.rpartition("-")[2]
    try:
        status = path.lstat()
        if status.st_uid != os.getuid() or not stat.S_ISSOCK(status.st_mode):
            raise HowdahError(f"{path} is not your own socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(WITHIN_S)
            line.connect(str(path))
            if peer_of(line) != os.getuid():
                raise HowdahError(f"{path}: another user answers there")
            line.sendall(msgspec.json.encode(wanted) + b"\n")
            answer = decoding.from_json(read_line(line), Answer)
    except (ConnectionRefusedError, FileNotFoundError):
        with contextlib.suppress(OSError):
            path.unlink()
        raise _Gone(f"the copy {job} has ended") from None
    except TimeoutError:
        raise HowdahError(
            f"the copy {job} does not answer; if Ctrl-Z stopped it, type fg in its shell"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise HowdahError(f"the copy {job} does not answer: {error}") from None
    if answer.standing is None:
        raise HowdahError(answer.error or f"the copy {job} gave no answer")
    return answer.standing


def peer_of(line: socket.socket) -> int:
    """The user at the other side of a Unix socket, as the kernel knows it."""
    found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def read_line(line: socket.socket) -> bytes:
    """A line without its end. Raises OSError where none comes in time, or it is too long."""
    read = b""
    while not read.endswith(b"\n"):
        more = line.recv(LINE_BYTES_MAX)
        if not more or len(read) + len(more) > LINE_BYTES_MAX:
            raise OSError("no whole line came")
        read += more
    return read[:-1]


def waits(line: socket.socket) -> bool:
    """Whether the other side, which has said all, still waits for its answer. Raises OSError."""
    poll = select.poll()
    # That it has hung up is told anyway.
    poll.register(line, 0)
    return not poll.poll(0)


class _Gone(HowdahError):
    """The copy has ended."""


def _sockets() -> list[Path]:
    return sorted(each for path in _folders() for each in path.iterdir() if is_id(each.name))
