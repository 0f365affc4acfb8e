"""The detour through ssh, for where a firewall keeps data streams from the far end's data port.

The data plane dials a port of this host's loopback. Each connection there becomes the standard input and
output of an ``ssh -W``, which sshd carries on to the data port from within the far host. So no byte passes
through this process, and the streams keep their own encryption inside.

The first connection goes over the kept login, where it costs one round trip. sshd lets 2 MiB of a channel be
on their way, and all channels of a login share its TCP connection, its window and a processor at each end.
So those after it have an ssh connection each, up to OWN, if ssh needs not ask the user; the rest shares the
kept login.
"""

import fcntl
import os
import select
import socket
import struct
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

from howdah import HowdahError
from howdah.remote.process import FarProcess
from howdah.remote.ssh import Login
from howdah.text import printable

OWN = 8
"""The most ssh connections beside the kept login: sshd turns some away when more than ten log in at once."""
_MOST = 256
"""The most connections at a time."""
_TRIES = 5
_AGAIN_S = 0.5
_END_S = 0.5
_BUFFER_BYTES = 256 << 10
"""The receive buffer: what lies in it goes by this connection, however slow it is."""
_SAID_BYTES_MAX = 200
_FORBIDDEN = ("administratively prohibited", "open refused by peer", "forwarding disabled", "not permitted")
"""What ssh writes where sshd opens no channel for a connection."""
_BYTES_RECEIVED = 128
"""Where tcpi_bytes_received is in struct tcp_info (Linux 4.1)."""
_TCP = Path("/proc/net/tcp")


class _Lane:
    """A connection of the data plane, and the ssh that carries it on."""

    def __init__(self, connection: socket.socket, number: int) -> None:
        self.connection, self.number = connection, number
        self.tries = 0
        self.ssh: FarProcess | None = None
        self.next_s = 0.0
        """When it is tried, unless it runs."""

    def untouched(self) -> bool:
        """Whether ssh has taken nothing from it, and the data plane has not hung up."""
        info = self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED + 8)
        (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
        (waiting,) = struct.unpack("=i", fcntl.ioctl(self.connection, termios.FIONREAD, bytes(4)))
        # The end of what is sent counts as a byte.
        return bool(received == waiting)

    def close(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


class Tunnel:
    """A port of this host's loopback whose connections lead through ssh to one port of the far host."""

    def __init__(self, login: Login, address: str, port: int, patience_s: float, *, own: int = OWN) -> None:
        """Listens. Up to ``own`` ssh connections beside the kept login carry what is dialled.

        Raises HowdahError where this host's loopback cannot be listened on.
        """
        self._login, self._patience_s, self._own = login, patience_s, own
        self._address, self._port = address, port
        self.said: str | None = None
        """What ssh said last of a connection that it could not carry on; None: of none."""
        self.forbidden = False
        """Whether sshd lets no connection through."""
        try:
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            self._listener.bind(("127.0.0.1", 0))
            self._listener.listen(_MOST)
        except OSError as error:
            raise HowdahError(
                f"cannot listen on this host's loopback: {error.strerror}; check: ip link show lo"
            ) from None
        self.port: int = self._listener.getsockname()[1]
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._lanes: list[_Lane] = []
        self._count = 0
        self._thread = threading.Thread(target=self._run, name="howdah-tunnel", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends every ssh of it."""
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        closing = False
        while not closing:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            poll.register(self._listener, select.POLLIN)
            running = {lane.ssh.pidfd: lane for lane in self._lanes if lane.ssh is not None}
            for pidfd in running:
                poll.register(pidfd, select.POLLIN)
            for fd, _ in poll.poll(self._wait_ms()):
                if fd == self._wake:
                    closing = True
                elif fd == self._listener.fileno():
                    self._accept()
                else:
                    self._ended(running[fd])
            for lane in list(self._lanes):
                if lane.ssh is None and lane.next_s <= time.monotonic():
                    self._start(lane)
        self._listener.close()
        self._end_all()

    def _wait_ms(self) -> float | None:
        times = [lane.next_s for lane in self._lanes if lane.ssh is None]
        return max(0.0, min(times) - time.monotonic()) * 1e3 if times else None

    def _accept(self) -> None:
        try:
            connection, (_, port) = self._listener.accept()
        except OSError:
            return
        if len(self._lanes) >= _MOST or not _is_own(port, self.port):
            connection.close()
            return
        self._lanes.append(_Lane(connection, self._count))
        self._count += 1

    def _start(self, lane: _Lane) -> None:
        own = 0 < lane.number <= self._own and not lane.tries
        lane.tries += 1
        try:
            pipes = self._login.channel(
                self._address, self._port, lane.connection.fileno(), own=own, patience_s=self._patience_s
            )
        except (HowdahError, OSError) as error:
            self._give_up(lane, str(error))
            return
        lane.ssh = FarProcess(self._login, pipes)

    def _ended(self, lane: _Lane) -> None:
        assert lane.ssh is not None  # noqa: S101, it is one that ran
        status, said = lane.ssh.exit_status(0.0), lane.ssh.stderr()
        lane.ssh.close()
        lane.ssh = None
        if not status or not lane.untouched():
            self._leave(lane)
        elif any(text in said.lower() for text in _FORBIDDEN):
            self.forbidden = True
            self._give_up(lane, said)
        elif lane.tries >= _TRIES:
            self._give_up(lane, said)
        else:
            lane.next_s = time.monotonic() + _AGAIN_S * (lane.tries - 1)

    def _give_up(self, lane: _Lane, said: str) -> None:
        lines = said.strip().splitlines() or ["ssh said nothing"]
        self.said = printable(os.fsencode(lines[-1]), _SAID_BYTES_MAX)
        self._leave(lane)

    def _leave(self, lane: _Lane) -> None:
        lane.close()
        self._lanes.remove(lane)

    def _end_all(self) -> None:
        for lane in self._lanes:
            lane.close()
        for lane in self._lanes:
            if lane.ssh is not None:
                lane.ssh.end(keep_login=True)
                lane.ssh.close()
        self._lanes.clear()


def _is_own(port: int, to: int) -> bool:
    """Whether a connection to a port of the loopback comes from a process of this user."""
    ends = [f"0100007F:{number:04X}" for number in (port, to)]
    rows = (line.split() for line in _TCP.read_text(encoding="ascii").splitlines()[1:])
    return any(row[1:3] == ends and int(row[7]) == os.geteuid() for row in rows)
