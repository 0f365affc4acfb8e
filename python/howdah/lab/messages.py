"""The messages between a lab and those outside: one JSON value a packet, over Unix sockets.

To its maker a lab says once that it is ready or why not, and how it ended; the maker passes signals
on. On its own socket anyone who may enter the lab asks for statistics, so far or since a mark that the
connection has, or for its end.
"""

import socket
from pathlib import Path
from typing import Literal

import msgspec

from howdah import decoding
from howdah._native import HowdahError
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.mounts import CONTROL
from howdah.lab.topology import PAIR, Topology
from howdah.values.link import LinkSpec, LinkStats

PACKET_BYTES_MAX = 128 * 1024
_ANSWER_S = 10.0


class LabSetup(msgspec.Struct, frozen=True):
    """The lab to make."""

    link: LinkSpec
    topology: Topology = PAIR
    sshd: bool = False
    command: tuple[str, ...] = ()
    """The command to run on ``host``, with which the lab ends; empty: the lab stays."""
    host: str | None = None
    """The host of the command; null: the first of the left side."""
    congestion_control: str = CONGESTION_CONTROL
    """The congestion control of sockets that choose none, as the kernel names it."""


class Proceed(msgspec.Struct, frozen=True, tag="Go"):
    """The maker tells the lab to go on; ``pid`` is the lab's first process as the maker sees it."""

    pid: int


class PassSignal(msgspec.Struct, frozen=True, tag="Signal"):
    """The maker tells the lab to send the signal ``number`` to the command."""

    number: int


class LabReady(msgspec.Struct, frozen=True, tag="Ready"):
    """The lab tells its maker that it can be used."""

    pid: int
    namespaces: dict[str, int]
    """Descriptors of the first process, by host or router."""
    environment: dict[str, str]
    """The variables that programs in the lab get."""
    notes: tuple[str, ...] = ()
    """The features that the lab must do without, a line each."""


class LabFailed(msgspec.Struct, frozen=True, tag="Failed"):
    """The lab tells its maker why it could not be made, or broke."""

    why: str


class LabEnded(msgspec.Struct, frozen=True, tag="Ended"):
    """The lab tells its maker that it has ended by itself."""

    exit_code: int
    """The command's exit code; 128 and the signal's number when a signal ended it."""
    stats: LinkStats


class LabQuery(msgspec.Struct, frozen=True):
    """A question to the lab. The answer is LinkStats, since the last ``mark`` of this connection if it made
    one."""

    what: Literal["stats", "mark", "stop"]


def send(to: socket.socket, message: msgspec.Struct) -> None:
    """Sends one message; one that does not arrive because the other side has gone is lost."""
    try:
        to.send(msgspec.json.encode(message))
    except (BrokenPipeError, ConnectionResetError):
        return


def ask(pid: int, what: Literal["stats", "stop"], name: str | None = None) -> LinkStats:
    """Asks the lab whose first process is ``pid``; one that stays has a name.

    Raises HowdahError when it does not answer.
    """
    try:
        with _connect(Path(f"/proc/{pid}/root") / CONTROL.relative_to("/")) as asking:
            return _say(asking, what)
    except HowdahError as error:
        mend = "make another" if name is None else f"end it with: howdah lab down {name}"
        raise HowdahError(f"{error}; {mend}") from None


class LinkAccount:
    """Counts what the link of the lab around this process does from now on."""

    def __init__(self) -> None:
        """Begins it. Raises HowdahError when the lab does not answer."""
        self._asking = _connect(CONTROL)
        _say(self._asking, "mark")

    def close(self) -> LinkStats:
        """Ends it. Raises HowdahError when the lab does not answer."""
        with self._asking:
            return _say(self._asking, "stats")


def _connect(path: Path) -> socket.socket:
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        asking.settimeout(_ANSWER_S)
        asking.connect(str(path))
    except OSError:
        asking.close()
        raise HowdahError("the lab does not answer") from None
    return asking


def _say(asking: socket.socket, what: Literal["stats", "mark", "stop"]) -> LinkStats:
    try:
        asking.send(msgspec.json.encode(LabQuery(what)))
        return decoding.from_json(asking.recv(PACKET_BYTES_MAX), LinkStats)
    except (OSError, msgspec.DecodeError):
        raise HowdahError("the lab does not answer") from None
