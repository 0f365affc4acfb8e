"""The two ends of one connection, with buffers that bound nothing, and what both saw of its beginning.

python -m bench.first_ends take PORT                     prints [[ns, payload bytes so far], …]
python -m bench.first_ends send ADDRESS PORT CC SPAN_S [AT_S]
                                                         prints [[ns, window, segments lost so far], …]

It connects at once, or at a time. Times are of the monotonic clock.
"""

import contextlib
import json
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from howdah.cc import resume
from howdah.cc.resume import Destination, Memory, Saved
from howdah.lab import Lab

STEP_S = 0.05
"""The time between two rates of a connection that are kept."""
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_BUFFER_BYTES = 256 << 20
_LOST, _WINDOW, _RETRANSMITTED = 32, 80, 100
"""Where ``struct tcp_info`` has them."""
_ROOT = Path(__file__).parents[1]


def take(port: int) -> list[tuple[int, int]]:
    """Takes one connection to its end."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        listener.bind(("", port))
        listener.listen()
        print("ready", flush=True)
        connection, _ = listener.accept()
    buffer, taken, seen = bytearray(1 << 20), 0, []
    with connection, contextlib.suppress(ConnectionResetError):
        while got := connection.recv_into(buffer):
            taken += got
            seen.append((time.monotonic_ns(), taken))
    return seen


def send(
    address: str, port: int, control: str, span_s: float, at_s: float = 0.0
) -> list[tuple[int, int, int]]:
    """Connects at a time, and sends as much as it may for a time."""
    block, looks = bytes(1 << 20), []
    with socket.socket() as to:
        to.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
        to.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        time.sleep(max(0.0, at_s - time.monotonic()))
        to.connect((address, port))
        to.setblocking(False)
        begin_ns = time.monotonic_ns()
        while (now_ns := time.monotonic_ns()) < begin_ns + span_s * 1e9:
            with contextlib.suppress(BlockingIOError):
                to.send(block)
            info = to.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            lost, window, again = (
                struct.unpack_from("=I", info, at)[0] for at in (_LOST, _WINDOW, _RETRANSMITTED)
            )
            looks.append((now_ns, window, lost + again))
            time.sleep(0.001)
        # What is left would only prolong it.
        to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return looks


class Begun(NamedTuple):
    """One connection: what arrived when, what its sender saw, and what came of its memory."""

    taken: list[tuple[int, int]]
    looks: list[tuple[int, int, int]]
    memory: Memory | None

    @property
    def lost(self) -> int:
        """Segments."""
        return self.looks[-1][2]

    def payload_bytes(self, until_s: float) -> int:
        """What had arrived so long after the connection was there."""
        until_ns = self.looks[0][0] + until_s * 1e9
        return max((taken for now_ns, taken in self.taken if now_ns <= until_ns), default=0)

    def rate_bps(self, from_s: float, until_s: float) -> float:
        """Of payload, between two times after the connection was there."""
        return (self.payload_bytes(until_s) - self.payload_bytes(from_s)) * 8 / (until_s - from_s)


def namespace(wan: Lab) -> int:
    """The inode of the near host's."""
    stat = ["stat", "--dereference", "--format=%i", "/proc/self/ns/net"]
    return int(wan.run("near", stat, capture_output=True, text=True, check=True).stdout)


def taking(wan: Lab, port: int) -> "subprocess.Popen[str]":
    """A far end that waits for a connection."""
    far = wan.popen("far", _argv("take", port), stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    if far.stdout is None or far.stdout.readline() != "ready\n":
        raise SystemExit("the far end did not begin")
    return far


def sending(wan: Lab, port: int, control: str, span_s: float, at_s: float = 0.0) -> "subprocess.Popen[str]":
    """A near end that connects at a time and sends for a time."""
    argv = _argv("send", wan.far_address, port, control, span_s, at_s)
    return wan.popen("near", argv, stdout=subprocess.PIPE, text=True, cwd=_ROOT)


def begun(
    wan: Lab, port: int, control: str, span_s: float, saved: Saved | None = None, *, at_s: float = 0.0
) -> Begun:
    """A connection from the near host to the far one, with a memory if something is ``saved``."""
    destination = Destination(wan.far_address, port, namespace(wan))
    if saved:
        resume.remember(destination, saved)
    with taking(wan, port) as far, sending(wan, port, control, span_s, at_s) as near:
        looks, _ = near.communicate(timeout=60)
        taken, _ = far.communicate(timeout=60)
    return read(taken, looks, resume.forget(destination) if saved else None)


def read(taken: str, looks: str, memory: Memory | None = None) -> Begun:
    """What both ends have printed."""
    return Begun([(t, n) for t, n in json.loads(taken)], [(t, w, n) for t, w, n in json.loads(looks)], memory)


def _argv(*words: str | float) -> list[str]:
    return [sys.executable, "-m", "bench.first_ends", *map(str, words)]


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "take":
        print(json.dumps(take(int(words[0]))))
    else:
        print(json.dumps(send(words[0], int(words[1]), words[2], *map(float, words[3:]))))
