"""Whether the data port of a far host can be reached from here, or one of this host from there."""

import contextlib
import errno
import os
import socket
import time
from typing import NamedTuple

from howdah import HowdahError, decoding
from howdah.remote.far import greeted
from howdah.remote.meeting import resolved, usable
from howdah.remote.messages import FarHello, PortTried
from howdah.remote.process import readable
from howdah.remote.ssh import Login
from howdah.remote.standby import FarSession

DRAWS = 3
"""The ports of a range that are tried, each as the far end draws it."""
NOT_KNOWN = "its address is not known here"
"""What came of a port where ssh goes through a host to which the far host's address means another one."""
_WITHIN_S = 3.0
_OPENS_WITHIN_S = 0.25
"""The far end opens its port when it has been greeted; until then it refuses."""
_CARRIES_AFTER_S = 1.0
"""An ssh whose channel was not refused after this time and two round trips has one."""


class Other(NamedTuple):
    """What came of the same ports at another address of the far host."""

    address: str
    closed: dict[int, str]


class Tried(NamedTuple):
    """What came of the ports of a far host that were tried."""

    near: str | None
    """The address of this host from which packets to it leave; None: it has none."""
    far: str
    ports: tuple[int, int] | None
    """The range that was asked for or configured; None: the far host chose."""
    open: list[int]
    closed: dict[int, str]
    """What is known of the ports that did not answer."""
    through_ssh: bool | None = None
    """Whether sshd there carries data instead; None: not tried."""
    from_there: bool | None = None
    """Whether the far end reaches a port of this host; None: not tried."""
    other: Other | None = None
    """What came of its address of the other family, IPv6 or IPv4; None: it has told none."""


def try_ports(host: str, far_howdah: str | None, ports: tuple[int, int] | None) -> tuple[FarHello, Tried]:
    """The far end's hello, and what came of its data port: of a range some, drawn by the far end.

    Raises HowdahError where ssh or howdah does not answer there.
    """
    opened: list[int] = []
    closed: dict[int, str] = {}
    other_closed: dict[int, str] = {}
    tries = 0
    while True:
        with greeted(host, far_howdah, ports) as (started, hello):
            login = started.far.login
            address, other = _addresses(login.data_address, hello.addresses)
            why = _closed(address, hello)
            if why is None:
                opened = sorted({*opened, hello.port})
            else:
                closed[hello.port] = why
            if other is not None and (other_why := _closed(other, hello)) is not None:
                other_closed[hello.port] = other_why
            draws = 1 if started.ports is None else min(DRAWS, 1 + started.ports[1] - started.ports[0])
            tries += 1
            last = tries >= draws
            near, far = _ends(address, hello.port) if address else (None, hello.addresses[0])
            carries = _carries(login, hello) if last and closed else None
            from_there = _from_there(started, far, hello) if last and closed and address else None
            beside = Other(other, other_closed) if other is not None else None
            tried = Tried(near, far, started.ports, opened, closed, carries, from_there, beside)
        if last:
            return hello, tried


def _addresses(connected_to: str | None, told: list[str]) -> tuple[str, str | None]:
    """What ssh connects to, or its address where it has both families, and the address of the other family.

    The first is empty where only the far end tells an address, and that means another host here, such as the
    loopback of a jump host. A copy takes the same addresses (crates/transfer/src/connect/other_family.rs).
    """
    by_ssh, *others = told
    if connected_to is None:
        return next(map(str, usable([by_ssh])), ""), next(map(str, usable(others)), None)
    known = resolved(connected_to)
    first = [each for each in known if (":" in each) == (":" in by_ssh)]
    others += [each for each in known if each not in first]
    other = next(map(str, usable(others)), None) if first or not known else None
    if first == known or not first:
        return connected_to, other
    return by_ssh if by_ssh in first else first[0], other


def _closed(address: str, hello: FarHello) -> str | None:
    """Why the port cannot be reached; None: it can."""
    if not address:
        return NOT_KNOWN
    rtt_s = hello.rtt_s or 0.0
    until_s = time.monotonic() + _OPENS_WITHIN_S + rtt_s
    while True:
        try:
            socket.create_connection((address, hello.port), timeout=_WITHIN_S + rtt_s).close()
            return None
        except TimeoutError:
            return "no answer"
        except OSError as error:
            if error.errno != errno.ECONNREFUSED or time.monotonic() > until_s:
                return error.strerror or "its name is not known here"
            time.sleep(0.01)


def _from_there(started: FarSession, far: str, hello: FarHello) -> bool:
    """Whether the far end reaches a port of this host, which is of the range that was asked for."""
    try:
        started.session.try_near(far, hello.port, started.ports)
        answer = started.session.port_tried(_WITHIN_S + 2 * (hello.rtt_s or 0.0))
    except HowdahError:
        return False
    return answer is not None and decoding.from_json(answer, PortTried).why_not is None


def _ends(address: str, port: int) -> tuple[str | None, str]:
    """The address that the kernel gives to packets for there, and the address there; nothing is sent."""
    try:
        family, kind, *_, to = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asked:
            asked.connect(to)
            return str(asked.getsockname()[0]), str(to[0])
    except OSError:
        return None, address


def _carries(login: Login, hello: FarHello) -> bool:
    """Whether sshd opens a connection to the data port for us."""
    own, given = socket.socketpair()
    with own, given:
        pipes = login.channel(hello.addresses[0], hello.port, given.fileno(), own=False)
        try:
            ended = readable(pipes.pidfd, _CARRIES_AFTER_S + 2 * (hello.rtt_s or 0.0))
        finally:
            own.shutdown(socket.SHUT_RDWR)
            given.close()
            os.close(pipes.stderr_fd)
            readable(pipes.pidfd, _WITHIN_S)
            with contextlib.suppress(ChildProcessError):  # A program may ignore SIGCHLD.
                os.waitid(os.P_PIDFD, pipes.pidfd, os.WEXITED | os.WNOHANG)
            os.close(pipes.pidfd)
    return not ended
