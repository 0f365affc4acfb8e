"""The privileged process of ``howdah control``: shares and rules of this host's kernel, and nothing else.

It is started by ``remote.py`` with a socket and the hosts that it is for, opens no other connection, and ends
when the other end of that socket has gone. What is in force then stays so until its leases run out.
"""

import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from howdah import HowdahError
from howdah.cc.shares import now_ns
from howdah.control import host
from howdah.control.policyfile import LEASE_S_MAX
from howdah.control.privilege import protocol
from howdah.control.privilege.protocol import Answer, Hold, Leave, Measure, Place, ReadHeld, Release
from howdah.control.running.agent import PlacingKernel
from howdah.guarded import guarded
from howdah.interrupt import SIGNALS

_UNTIL_MAX_NS = round(LEASE_S_MAX * 1.01e9)
"""From now. No policy has a longer lease, so nothing longer is held for anybody; clocks may differ by 1 %."""


def main() -> int:
    """Serves the socket whose number is the first argument, for the hosts in the second one, in JSON."""
    for number in SIGNALS:
        # They go to all processes of a service or a terminal; the other end says when to end.
        signal.signal(number, signal.SIG_IGN)
    wanted = msgspec.json.decode(sys.argv[2], type=dict[str, int | None])
    with socket.socket(fileno=int(sys.argv[1])) as channel, suppress(EOFError, ConnectionError):
        try:
            kernels = _kernels(channel, wanted)
            while kernels is not None:
                protocol.send(channel, answer(protocol.receive(channel), kernels))
        finally:
            host.unload()
    return 0


def _kernels(channel: socket.socket, wanted: Mapping[str, int | None]) -> dict[str, host.Host] | None:
    """Those of the hosts, once the other end has been told that they are there; null: it was told why not."""
    try:
        made = {name: host.Host(name, namespace) for name, namespace in wanted.items()}
    except HowdahError as error:
        protocol.send(channel, Answer(wrong=str(error)))
        return None
    protocol.send(channel, Answer())
    return made


def answer(frame: bytes, kernels: Mapping[str, PlacingKernel]) -> Answer:
    """Does what a frame asks for, or refuses it."""
    try:
        request = protocol.read(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Answer(wrong=f"no request to the helper: {error}")
    kernel = kernels.get(request.host)
    if kernel is None:
        return Answer(wrong=f"the helper is not for host {request.host!r}")
    value: object = None
    try:
        match request:
            case ReadHeld():
                value = kernel.held()
            case Hold(flow=flow):
                _check_lease(request)
                kernel.hold(flow, protocol.held(request))
            case Release(flow=flow):
                kernel.release(flow)
            case Measure():
                value = kernel.measured()
            case Place(members=members):
                kernel.place(members)
            case Leave():
                kernel.leave()
    except HowdahError as error:
        return Answer(wrong=str(error))
    except OverflowError:
        return Answer(wrong=f"{request.__struct_config__.tag} with a number of more than 64 bits")
    return Answer(value=msgspec.Raw(msgspec.json.encode(value)))


def _check_lease(request: Hold) -> None:
    left_ns = request.until_ns - now_ns()
    if left_ns > _UNTIL_MAX_NS:
        raise HowdahError(
            f"a lease of {left_ns / 1e9:.0f} s for {request.flow}; the longest is {LEASE_S_MAX:.0f} s"
        )


if __name__ == "__main__":
    sys.exit(guarded(main))
