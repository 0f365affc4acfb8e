"""The far end, ``howdah sink``: started by the near end's ssh, counts what arrives, ends with its input.

It takes nothing but orders through ssh, listens only while they last, and sends nothing to anybody else.
"""

import os
import sys

import msgspec

from howdah import HowdahError, __version__, _native
from howdah.traffic.account import SinkCounts
from howdah.traffic.messages import (
    SILENCE_S,
    Answer,
    AskCounts,
    AskMissing,
    Expect,
    Lines,
    Open,
    Order,
    SinkHello,
    say,
)
from howdah.traffic.pattern import LOADS_MAX
from howdah.values.record import HostLimits


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
        say(1, hello)
        return _serve(Lines(0))
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1
    except OSError:
        # The near end is gone, and with it whoever would read of it.
        return 1


def _serve(lines: Lines) -> int:
    sinks: dict[int, _native.UdpSink] = {}
    while True:
        try:
            line = lines.next(SILENCE_S)
        except EOFError:
            return 0
        if line is None:
            raise HowdahError(f"the near end has said nothing for {SILENCE_S:.0f} s")
        try:
            order = msgspec.json.decode(line, type=Order)
        except msgspec.MsgspecError as error:
            raise HowdahError(f"the near end is another version ({error})") from None
        say(1, answer(sinks, order))


def answer(sinks: dict[int, _native.UdpSink], order: Order) -> Answer:
    """Carries an order out; ``sinks`` are those of the loads so far."""
    try:
        return _done(sinks, order)
    except HowdahError as error:
        return Answer(number=order.number, error=str(error))


def _done(sinks: dict[int, _native.UdpSink], order: Order) -> Answer:
    what, number = order.what, order.number
    if isinstance(what, Open):
        if what.load in sinks or len(sinks) == LOADS_MAX:
            raise HowdahError(f"load {what.load} cannot be opened; {len(sinks)} are open")
        sinks[what.load] = _native.UdpSink(what.token)
        return Answer(number=number, port=sinks[what.load].port)
    if what.load not in sinks:
        raise HowdahError(f"load {what.load} is not open")
    sink = sinks[what.load]
    match what:
        case Expect():
            sink.expect(what.number, what.object_bytes, what.piece_bytes)
            return Answer(number=number)
        case AskMissing():
            missing = msgspec.json.decode(sink.missing(), type=list[tuple[int, int]])
            return Answer(number=number, missing=missing, digest=sink.digest())
        case AskCounts():
            return Answer(number=number, counts=msgspec.json.decode(sink.counts(), type=SinkCounts))
