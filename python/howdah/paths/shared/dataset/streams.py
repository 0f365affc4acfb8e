"""A stream from memory to nowhere, for a host of a lab; this file alone, so that it starts at once.

python streams.py sink PORT                              takes one connection, until it is killed
python streams.py source ADDRESS PORT CONTROL DELAY_S    sends after that, until it is killed
"""

import socket
import sys
import time

_BLOCK = bytes(1 << 18)
_DISCARDED = 1 << 20
_PAUSE_S = 0.002
"""A sink that wakes for every packet costs as the emulator does; SO_RCVLOWAT holds the window back."""


def _sink(port: int) -> None:
    with socket.create_server(("", port), backlog=1) as server:
        taken, _ = server.accept()
        buffer = bytearray(_DISCARDED)
        # With MSG_TRUNC the kernel drops what came and copies nothing (tcp(7)).
        while taken.recv_into(buffer, _DISCARDED, socket.MSG_TRUNC):
            time.sleep(_PAUSE_S)
    sys.exit("its stream has ended")


def _source(address: str, port: int, control: str, delay_s: float) -> None:
    time.sleep(delay_s)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        stream.connect((address, port))
        while True:
            stream.send(_BLOCK)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "sink":
        _sink(int(rest[0]))
    else:
        _source(rest[0], int(rest[1]), rest[2], float(rest[3]))
