"""One end of a stream from memory to nowhere, for a host of a lab. It loads no other file, to start at once.

python streams.py sink PORT                              takes one connection, until it is killed
python streams.py source ADDRESS PORT CONTROL DELAY_S    sends after that, until it is killed
python streams.py catch PORT                             takes one connection after another
python streams.py bursts ADDRESS PORT CONTROL RATE BEGIN END...
                                                         sends, each over a connection of its own, between

RATE is in bytes a second at most, 0 for any; BEGIN and END are seconds of CLOCK_MONOTONIC. For each a line
says when it really began, and one when all of it had arrived.
"""

import contextlib
import socket
import sys
import time

_BLOCK = bytes(1 << 18)
_DISCARDED = 1 << 20
_SO_MAX_PACING_RATE = 47
"""The number is of asm-generic/socket.h; the socket module has no name for it."""
_PAUSE_S = 0.002
"""A sink that wakes for every packet costs as the emulator does; SO_RCVLOWAT limits the window."""


def _sink(port: int) -> None:
    with socket.create_server(("", port), backlog=1) as server:
        _take(server)
    sys.exit("its stream has ended")


def _catch(port: int) -> None:
    with socket.create_server(("", port), backlog=1) as server:
        while True:
            _take(server)


def _take(server: socket.socket) -> None:
    taken, _ = server.accept()
    buffer = bytearray(_DISCARDED)
    with taken:
        # With MSG_TRUNC the kernel drops what came and copies nothing (tcp(7)).
        while taken.recv_into(buffer, _DISCARDED, socket.MSG_TRUNC):
            time.sleep(_PAUSE_S)


def _source(address: str, port: int, control: str, delay_s: float) -> None:
    time.sleep(delay_s)
    with _connected(address, port, control) as stream:
        while True:
            stream.send(_BLOCK)


def _burst(address: str, port: int, control: str, bytes_per_s: int, between_s: list[float]) -> None:
    begin_s, end_s = between_s
    time.sleep(max(0.0, begin_s - time.monotonic()))
    print(time.monotonic(), flush=True)
    with _connected(address, port, control) as stream:
        if bytes_per_s:
            stream.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, bytes_per_s)
        while (left_s := end_s - time.monotonic()) > 0:
            stream.settimeout(left_s)
            with contextlib.suppress(TimeoutError):
                stream.send(_BLOCK)
        stream.settimeout(None)
        stream.shutdown(socket.SHUT_WR)
        stream.recv(1)
    print(time.monotonic(), flush=True)


def _connected(address: str, port: int, control: str) -> socket.socket:
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    stream.connect((address, port))
    return stream


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "sink":
        _sink(int(rest[0]))
    elif what == "catch":
        _catch(int(rest[0]))
    elif what == "source":
        _source(rest[0], int(rest[1]), rest[2], float(rest[3]))
    else:
        times_s = list(map(float, rest[4:]))
        for place in range(0, len(times_s), 2):
            _burst(rest[0], int(rest[1]), rest[2], int(rest[3]), times_s[place : place + 2])
