"""What crosses ssh between ``howdah traffic`` and its far end, a line of JSON each.

The near end orders and the far end answers, one order at a time. Numbers tell answers apart that came too
late for whoever asked.
"""

import os
import select

import msgspec

from howdah import HowdahError
from howdah.traffic.account import SinkCounts
from howdah.values.record import HostLimits

SILENCE_S = 300.0
"""The far end ends when it has heard nothing for so long: traffic may leave ssh little room."""

_LINE_BYTES_MAX = 8 << 20


class SinkHello(msgspec.Struct, frozen=True, kw_only=True):
    """What the far end says of itself as soon as it runs."""

    version: str
    limits: HostLimits
    address: str | None
    """Where ssh reached it; null without ssh."""


class Open(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Listen for a load."""

    load: int
    token: bytes


class Expect(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Take the pieces of this object."""

    load: int
    number: int
    object_bytes: int
    piece_bytes: int


class AskMissing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is missing of the object, once nothing comes any more?"""

    load: int


class AskCounts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What has come of a load?"""

    load: int


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """From the near end."""

    number: int
    what: Open | Expect | AskMissing | AskCounts


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """From the far end."""

    number: int
    """Of the order."""
    port: int | None = None
    """Of Open."""
    counts: SinkCounts | None = None
    """Of AskCounts."""
    missing: list[tuple[int, int]] | None = None
    """Of AskMissing: the first piece and how many, each; none when the object is whole."""
    digest: str | None = None
    """Of AskMissing: of what is there."""
    error: str | None = None


class Lines:
    """Lines from a descriptor, with time limits."""

    def __init__(self, fd: int) -> None:
        self._fd, self._rest = fd, b""
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def next(self, timeout_s: float) -> bytes | None:
        """The next line; null when nothing came for so long. Raises EOFError at the end."""
        while b"\n" not in self._rest:
            if not self._poll.poll(timeout_s * 1e3):
                return None
            piece = os.read(self._fd, 1 << 16)
            if not piece:
                raise EOFError
            self._rest += piece
            if len(self._rest) > _LINE_BYTES_MAX:
                raise HowdahError("the other end says lines without end; is it howdah?")
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def say(fd: int, what: msgspec.Struct) -> None:
    """Writes ``what`` as a line. Raises OSError when nobody hears it."""
    text = memoryview(msgspec.json.encode(what) + b"\n")
    while text:
        text = text[os.write(fd, text) :]
