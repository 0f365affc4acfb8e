"""What is said between a lab and those outside: one JSON value a packet, over Unix sockets.

To its maker a lab says once that it is ready or why not, and how it ended; the maker passes signals
on. On its own socket anyone who may enter the lab asks for statistics, or for its end.
"""

import socket
from pathlib import Path
from typing import Literal

import msgspec

from howdah._native import HowdahError
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.link import LinkSpec, LinkStats
from howdah.lab.private import CONTROL

PACKET_BYTES_MAX = 128 * 1024
_ANSWER_S = 10.0


class Setup(msgspec.Struct, frozen=True):
    """What to make."""

    link: LinkSpec
    sshd: bool = False
    command: tuple[str, ...] = ()
    """Runs on the near host, and the lab ends with it; empty: the lab stays."""
    congestion_control: str = CONGESTION_CONTROL
    """What sockets on both hosts use unless they choose, as the kernel names it."""


class Go(msgspec.Struct, frozen=True, tag=True):
    """Maker to lab: go on; ``pid`` is the lab's first process as the maker sees it."""

    pid: int


class Signal(msgspec.Struct, frozen=True, tag=True):
    """Maker to lab: send ``number`` to the command."""

    number: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Lab to maker: it can be used."""

    pid: int
    namespaces: dict[Literal["near", "far"], int]
    """Descriptors of the first process."""
    environment: dict[str, str]
    """Variables for those who enter."""
    notes: tuple[str, ...] = ()
    """What it must do without, a line each."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Lab to maker: it could not be made, or broke."""

    why: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """Lab to maker: it has ended by itself."""

    exit_code: int
    """The command's; 128 and the signal's number when a signal ended it."""
    stats: LinkStats


class Ask(msgspec.Struct, frozen=True):
    """Anyone to lab; the answer is LinkStats."""

    what: Literal["stats", "stop"]


def send(to: socket.socket, message: msgspec.Struct) -> None:
    """Sends one message; one that does not arrive because the other side has gone is lost."""
    try:
        to.send(msgspec.json.encode(message))
    except (BrokenPipeError, ConnectionResetError):
        return


def ask(pid: int, what: Literal["stats", "stop"]) -> LinkStats:
    """Asks the lab whose first process is ``pid``. Raises HowdahError when it does not answer."""
    return _ask(Path(f"/proc/{pid}/root") / CONTROL.relative_to("/"), what)


def ask_here() -> LinkStats:
    """The statistics of the lab around this process. Raises HowdahError when it does not answer."""
    return _ask(CONTROL, "stats")


def _ask(path: Path, what: Literal["stats", "stop"]) -> LinkStats:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.settimeout(_ANSWER_S)
            asking.connect(str(path))
            asking.send(msgspec.json.encode(Ask(what)))
            answer = asking.recv(PACKET_BYTES_MAX)
        return msgspec.json.decode(answer, type=LinkStats)
    except (OSError, msgspec.DecodeError):
        raise HowdahError("the lab does not answer; end it with: howdah lab down NAME") from None
