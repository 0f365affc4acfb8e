"""The requests of the unprivileged process to the helper, and the answers. A frame is a length, then JSON.

One request is answered before the next. There is none but these; the helper checks each as if an enemy
had sent it.
"""

import socket

import msgspec

from howdah import decoding
from howdah.control.leases.messages import Natural
from howdah.control.policy.members import Member

FRAME_MAX = 4 << 20
"""The longest frame in bytes; the members of a thousand flows are a tenth of that."""
_LENGTH = 4


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do"):
    host: str
    """A host that the helper was started for."""


class ReadHeld(_Request, frozen=True, tag="held"):
    """Reads all shares; answered by ``dict[str, Held]``."""


class Hold(_Request, frozen=True, tag="hold"):
    """Sets one share from now on."""

    flow: str
    rate_bps: Natural
    minimum_bps: Natural
    until_ns: Natural


class Release(_Request, frozen=True, tag="release"):
    """Leaves a flow to ordinary congestion control."""

    flow: str


class Measure(_Request, frozen=True, tag="measured"):
    """Reads what each flow did; answered by ``dict[str, Measured]``."""


class Place(_Request, frozen=True, tag="place"):
    """Says which connections each flow is; answered by the cgroups that are not there."""

    members: dict[str, Member]


class Leave(_Request, frozen=True, tag="leave"):
    """Puts everything of the host back as it was."""


Request = ReadHeld | Hold | Release | Measure | Place | Leave
_REQUESTS: msgspec.json.Decoder[Request] = decoding.decoder(Request)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request."""

    wrong: str | None = None
    """The reason why it was refused or failed; null: it is done."""
    value: msgspec.Raw = msgspec.Raw(b"null")


def read(frame: bytes) -> Request:
    """The request in a frame. Raises msgspec.DecodeError for anything else."""
    return _REQUESTS.decode(frame)


def send(channel: socket.socket, message: Request | Answer) -> None:
    """Writes one frame."""
    frame = msgspec.json.encode(message)
    channel.sendall(len(frame).to_bytes(_LENGTH) + frame)


def receive(channel: socket.socket) -> bytes:
    """Reads one frame. Raises EOFError where the other end has gone, or sends more than a frame may be."""
    length = int.from_bytes(_exactly(channel, _LENGTH))
    if length > FRAME_MAX:
        raise EOFError(f"a frame of {length} bytes")
    return _exactly(channel, length)


def _exactly(channel: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = channel.recv(min(length - len(found), 1 << 16))
        if not part:
            raise EOFError("the other end has gone")
        found += part
    return bytes(found)
