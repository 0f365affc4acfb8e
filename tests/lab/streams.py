"""Connections that send when they are told to, and a receiver that notes when what arrived.

python streams.py far PORT SPAN_S           then, or at SIGUSR1, prints {port: [[ns, bytes], …]}, by the
                                            sender's ports
python streams.py near ADDRESS PORT COUNT   prints its ports; each line it reads names those that may send
"""

import contextlib
import json
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from howdah.lab import Lab

PORT = 7011
WIRE_BYTES, PAYLOAD_BYTES = 1538, 1448
BLOCK = bytes(1 << 14)
UNSENT_BYTES = len(BLOCK)
"""So that little is sent after the order to stop."""
TCP_NOTSENT_LOWAT = 25
SPAN_NS = 100_000_000
Samples = list[tuple[int, int]]
"""Monotonic clock in ns, and payload bytes that had arrived by then."""


class Streams:
    """Connections from a lab's near host to its far one."""

    def __init__(self, near: "subprocess.Popen[str]", far: "subprocess.Popen[str]") -> None:
        self._near, self._far = near, far
        self.ports: list[int] = json.loads(_pipe(near.stdout).readline())

    def send(self, *which: int) -> None:
        """From now on these send, by their order, and no others."""
        orders = _pipe(self._near.stdin)
        orders.write(json.dumps(which) + "\n")
        orders.flush()

    def until_now(self) -> list[Samples]:
        """What has arrived, of each connection, without waiting for the end of the span."""
        self._far.send_signal(signal.SIGUSR1)
        return self.arrived()

    def arrived(self) -> list[Samples]:
        """Of each connection, once the span is over."""
        told = json.loads(_pipe(self._far.stdout).read())
        return [[(t, n) for t, n in told[str(port)]] for port in self.ports]


@contextlib.contextmanager
def streams(wan: Lab, count: int, span_s: float) -> Iterator[Streams]:
    """``count`` connections, none of which sends yet; what arrives is noted for ``span_s``."""
    itself = [sys.executable, str(Path(__file__))]
    far = [*itself, "far", str(PORT), str(span_s)]
    near = [*itself, "near", wan.far_address, str(PORT), str(count)]
    pipe = subprocess.PIPE
    with wan.popen("far", far, stdout=pipe, text=True) as receiver:
        try:
            _pipe(receiver.stdout).readline()
            with wan.popen("near", near, stdin=pipe, stdout=pipe, text=True) as sender:
                try:
                    yield Streams(sender, receiver)
                finally:
                    sender.kill()
        finally:
            receiver.kill()


def wire_bps(samples: Samples, begin_ns: int, end_ns: int) -> float:
    """On the wire, between the first and the last arrival of a span."""
    inside = [(t, n) for t, n in samples if begin_ns <= t < end_ns]
    (first_ns, first), (last_ns, last) = inside[0], inside[-1]
    return (last - first) * 8e9 / (last_ns - first_ns) * WIRE_BYTES / PAYLOAD_BYTES


def usual_bps(samples: Samples, begin_ns: int, end_ns: int) -> float:
    """The median over spans of ``SPAN_NS``: a machine that pauses for a moment spoils one of them."""
    edges = range(begin_ns, end_ns - SPAN_NS + 1, SPAN_NS)
    return statistics.median(wire_bps(samples, edge, edge + SPAN_NS) for edge in edges)


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise ValueError("the process was started without this pipe")
    return stream


def _far(port: int, span_s: float) -> None:
    arrived: dict[int, Samples] = {}
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("", port), backlog=1024)
    selector.register(listener, selectors.EVENT_READ)
    buffer = bytearray(1 << 20)
    print("ready", flush=True)
    end = time.monotonic() + span_s
    over = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: over.set())
    while time.monotonic() < end and not over.is_set():
        for key, _ in selector.select(0.1):
            if key.fileobj is listener:
                accepted, (_, remote) = listener.accept()
                selector.register(accepted, selectors.EVENT_READ, arrived.setdefault(remote, []))
            elif isinstance(key.fileobj, socket.socket):
                got = key.fileobj.recv_into(buffer)
                before = key.data[-1][1] if key.data else 0
                key.data.append((time.monotonic_ns(), before + got))
    print(json.dumps(arrived), flush=True)


def _near(address: str, port: int, count: int) -> None:
    made = [socket.create_connection((address, port)) for _ in range(count)]
    allowed = [threading.Event() for _ in made]
    for connection, may_send in zip(made, allowed, strict=True):
        connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        threading.Thread(target=_send, args=(connection, may_send), daemon=True).start()
    print(json.dumps([connection.getsockname()[1] for connection in made]), flush=True)
    for line in sys.stdin:
        which = json.loads(line)
        for number, may_send in enumerate(allowed):
            if number in which:
                may_send.set()
            else:
                may_send.clear()


def _send(connection: socket.socket, may_send: threading.Event) -> None:
    with contextlib.suppress(ConnectionError):
        while may_send.wait():
            connection.sendall(BLOCK)


if __name__ == "__main__":
    if sys.argv[1] == "far":
        _far(int(sys.argv[2]), float(sys.argv[3]))
    else:
        _near(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
