"""The far end, ``howdah sink``: started by the near end's ssh, counts what arrives, ends with its input.

It takes nothing but orders through ssh, listens only while they last, and sends nothing to anybody else.
What crosses ssh is a line of JSON each: the near end orders and the far end answers, one order at a time.
Numbers tell answers apart that came too late for whoever asked.
"""

import os
import select
import sys

import msgspec

from howdah import HowdahError, __version__, _native, decoding
from howdah.traffic.account import SinkCounts
from howdah.traffic.pattern import LOADS_MAX
from howdah.values.record import HostLimits

SILENCE_S = 300.0
"""The far end ends after so long without an order: traffic may leave ssh little room."""

_LINE_BYTES_MAX = 8 << 20


class SinkHello(msgspec.Struct, frozen=True, kw_only=True):
    """The far end's greeting."""

    version: str
    limits: HostLimits
    address: str | None
    """The address where ssh reached it; null without ssh."""


class OpenSink(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The order to listen for a load."""

    load: int
    token: bytes


class ExpectObject(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The order to take the pieces of an object."""

    load: int
    number: int
    object_bytes: int
    piece_bytes: int


class AskMissing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The question what is missing of the object, once nothing comes any more."""

    load: int


class AskCounts(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The question how much of a load has come."""

    load: int


class SinkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An order of the near end."""

    number: int
    what: OpenSink | ExpectObject | AskMissing | AskCounts


class SinkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the far end."""

    number: int
    """The number of the order."""
    port: int | None = None
    """The answer to OpenSink."""
    counts: SinkCounts | None = None
    """The answer to AskCounts."""
    missing: list[tuple[int, int]] | None = None
    """The answer to AskMissing: the first piece and how many, each; none when the object is whole."""
    digest: str | None = None
    """The answer to AskMissing: the digest of what is there."""
    error: str | None = None


class LineReader:
    """Reads lines from a descriptor, with time limits."""

    def __init__(self, fd: int) -> None:
        self._fd, self._rest = fd, b""
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def next(self, timeout_s: float) -> bytes | None:
        """The next line; null when nothing came within ``timeout_s``. Raises EOFError at the end."""
        while b"\n" not in self._rest:
            if not self._poll.poll(timeout_s * 1e3):
                return None
            piece = os.read(self._fd, 1 << 16)
            if not piece:
                raise EOFError
            self._rest += piece
            if len(self._rest) > _LINE_BYTES_MAX:
                raise HowdahError("the other end sends a line without an end; check that it is howdah")
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def write_line(fd: int, what: msgspec.Struct) -> None:
    """Writes ``what`` as a line. Raises OSError when nobody reads it."""
    text = memoryview(msgspec.json.encode(what) + b"\n")
    while text:
        text = text[os.write(fd, text) :]


def main(arguments: list[str]) -> int:
    """Serves one run and returns the exit code."""
    if arguments or sys.stdin.isatty():
        print(
            "howdah: sink is the far end of traffic and is started over ssh; "
            "use: howdah traffic PATTERN.toml HOST",
            file=sys.stderr,
        )
        return 2
    ssh = os.environ.get("SSH_CONNECTION", "").split()
    hello = SinkHello(
        version=__version__, limits=HostLimits.here(), address=ssh[2] if len(ssh) == 4 else None
    )
    try:
        write_line(1, hello)
        return _serve(LineReader(0))
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1
    except OSError:
        # The near end is gone, and would not read a message.
        return 1


def _serve(lines: LineReader) -> int:
    sinks: dict[int, _native.UdpSink] = {}
    while True:
        try:
            line = lines.next(SILENCE_S)
        except EOFError:
            return 0
        if line is None:
            raise HowdahError(f"no message from the near end for {SILENCE_S:.0f} s")
        try:
            order = decoding.from_json(line, SinkOrder)
        except msgspec.MsgspecError as error:
            raise HowdahError(f"the near end has another version ({error})") from None
        write_line(1, answer(sinks, order))


def answer(sinks: dict[int, _native.UdpSink], order: SinkOrder) -> SinkAnswer:
    """Carries out an order; ``sinks`` are those of the loads so far."""
    try:
        return _done(sinks, order)
    except HowdahError as error:
        return SinkAnswer(number=order.number, error=str(error))


def _done(sinks: dict[int, _native.UdpSink], order: SinkOrder) -> SinkAnswer:
    what, number = order.what, order.number
    if isinstance(what, OpenSink):
        if what.load in sinks or len(sinks) == LOADS_MAX:
            raise HowdahError(f"load {what.load} cannot be opened; {len(sinks)} are open")
        sinks[what.load] = _native.UdpSink(what.token)
        return SinkAnswer(number=number, port=sinks[what.load].port)
    if what.load not in sinks:
        raise HowdahError(f"load {what.load} is not open")
    sink = sinks[what.load]
    match what:
        case ExpectObject():
            sink.expect(what.number, what.object_bytes, what.piece_bytes)
            return SinkAnswer(number=number)
        case AskMissing():
            missing = decoding.from_json(sink.missing(), list[tuple[int, int]])
            return SinkAnswer(number=number, missing=missing, digest=sink.digest())
        case AskCounts():
            return SinkAnswer(number=number, counts=decoding.from_json(sink.counts(), SinkCounts))
