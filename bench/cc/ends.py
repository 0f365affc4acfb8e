"""Programs that run on the hosts of a lab and print one JSON value.

python -m bench.cc.ends receive PORT                         reads and forgets, every connection
python -m bench.cc.ends arrivals PORT SPAN_S                 payload received, about each millisecond
python -m bench.cc.ends transfers ADDRESS PORT BYTES COUNT GAP_S   seconds until all is acknowledged
python -m bench.cc.ends turns ADDRESS PORT PACED_BPS CONTROL…   CPU of each control; 0: not paced
"""

import contextlib
import fcntl
import json
import os
import socket
import struct
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_MAX_PACING_RATE = 32, 33, 47
BUFFER_BYTES = 2**30 - 1
"""The most: the kernel doubles it, and it is an int. A whole transfer may wait for one segment."""
BLOCK = bytes(2**20)
WARM_BYTES = 4 * 2**20
POLL_S = 0.0002
STALLED_S = 30
"""A burst of losses ends after so many segments, and a sender whose last ones fell into it probes with one at
a time, each after twice the time."""
TURNS_BUFFER_BYTES = 20 * 2**20
"""With what the kernel doubles it to, 10 Gb/s × 20 ms is always full and its queue never is."""
ROUNDS, SETTLE_S, SPAN_S = 20, 0.5, 1.5
SAMPLE_NS = 1_000_000
INFO = {
    "total_retrans": ("=I", 100),
    "bytes_acked": ("=Q", 120),
    "dsack_dups": ("=I", 216),
    "reord_seen": ("=I", 220),
    "total_rto": ("=H", 240),
}
"""Of ``struct tcp_info``: format and offset."""
COUNTED = ("total_retrans", "total_rto", "dsack_dups", "reord_seen")


def receive(port: int) -> NoReturn:
    """Takes connections and reads each to its end, until it is killed."""
    with _listening(port) as listener:
        while True:
            threading.Thread(target=_drain, args=(listener.accept()[0],), daemon=True).start()


def _drain(connection: socket.socket) -> None:
    buffer = bytearray(len(BLOCK))
    with connection, contextlib.suppress(ConnectionResetError):
        while connection.recv_into(buffer):
            pass


def arrivals(port: int, span_s: float) -> list[tuple[int, int]]:
    """Takes one connection; time of the monotonic clock in ns, and bytes received by then."""
    samples: list[tuple[int, int]] = []
    with _listening(port) as listener, listener.accept()[0] as connection:
        buffer = bytearray(len(BLOCK))
        count, next_ns = 0, 0
        end_ns = time.monotonic_ns() + round(span_s * 1e9)
        while received := connection.recv_into(buffer):
            count += received
            now_ns = time.monotonic_ns()
            if now_ns >= next_ns:
                samples.append((now_ns, count))
                next_ns = now_ns + SAMPLE_NS
            if now_ns >= end_ns:
                return samples
    raise SystemExit("the connection ended before the span did")


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    listener.bind(("", port))
    listener.listen()
    print("ready", flush=True)
    return listener


def transfers(
    address: str, port: int, size_bytes: int, count: int, gap_s: float
) -> list[dict[str, float | None]]:
    """Sends ``count`` times over a connection that is warm: its window scale and RTT are known.

    A transfer that stalls has no time (``s``), and the next has a new connection.
    """
    done: list[dict[str, float | None]] = []
    while len(done) < count:
        with _warm(address, port) as connection:
            while len(done) < count:
                time.sleep(gap_s)
                before = _info(connection)
                took_s = _transfer(connection, size_bytes)
                after = _info(connection)
                done.append({"s": took_s} | {name: after[name] - before[name] for name in COUNTED})
                if took_s is None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
    return done


def _warm(address: str, port: int) -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
        connection.connect((address, port))
        if _transfer(connection, WARM_BYTES) is not None:
            return connection
        connection.close()


def _transfer(connection: socket.socket, size_bytes: int) -> float | None:
    """Seconds from the first write until the last byte is acknowledged; None after ``STALLED_S``."""
    begin_s = time.monotonic()
    for start in range(0, size_bytes, len(BLOCK)):
        connection.sendall(memoryview(BLOCK)[: size_bytes - start])
    while _unacknowledged(connection):
        if time.monotonic() - begin_s > STALLED_S:
            return None
        time.sleep(POLL_S)
    return time.monotonic() - begin_s


def _unacknowledged(connection: socket.socket) -> int:
    return int(struct.unpack("=i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0])


def turns(address: str, port: int, paced_Bps: int, *controls: str) -> list[dict[str, Any]]:
    """One connection that always sends, under each control in turn; CPU is the whole machine's."""
    done = []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, TURNS_BUFFER_BYTES)
        if paced_Bps:
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=Q", paced_Bps))
        connection.connect((address, port))
        for turn in range(ROUNDS):
            # Each second round the other way round, so that a drift favours nobody.
            for control in controls[:: 1 - 2 * (turn % 2)]:
                connection.setsockopt(socket.SOL_TCP, socket.TCP_CONGESTION, control.encode())
                _send_for(connection, SETTLE_S)
                acked, idle_s, begin_s = _info(connection), _idle_s(), time.monotonic()
                _send_for(connection, SPAN_S)
                took_s, idle_s = time.monotonic() - begin_s, _idle_s() - idle_s
                now = _info(connection)
                done.append(
                    {
                        "control": control,
                        "round": turn,
                        "bytes": now["bytes_acked"] - acked["bytes_acked"],
                        "retransmitted": now["total_retrans"] - acked["total_retrans"],
                        "s": took_s,
                        "busy_s": (os.cpu_count() or 1) * took_s - idle_s,
                    }
                )
    return done


def _send_for(connection: socket.socket, span_s: float) -> None:
    end_s = time.monotonic() + span_s
    while time.monotonic() < end_s:
        connection.sendall(BLOCK)


def _idle_s() -> float:
    """Core-seconds that this machine had nothing to do; what interrupts take is not in it."""
    words = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    idle, iowait = int(words[4]), int(words[5])
    return (idle + iowait) / os.sysconf("SC_CLK_TCK")


def _info(connection: socket.socket) -> dict[str, int]:
    raw = connection.getsockopt(socket.SOL_TCP, socket.TCP_INFO, 256)
    return {name: struct.unpack_from(form, raw, offset)[0] for name, (form, offset) in INFO.items()}


def main(arguments: list[str]) -> None:
    """Runs one of them."""
    ends: dict[str, tuple[Any, tuple[type, ...]]] = {
        "receive": (receive, (int,)),
        "arrivals": (arrivals, (int, float)),
        "transfers": (transfers, (str, int, int, int, float)),
        "turns": (turns, (str, int, int)),
    }
    end, kinds = ends[arguments[0]]
    values = [kind(text) for kind, text in zip(kinds, arguments[1:], strict=False)]
    print(json.dumps(end(*values, *arguments[1 + len(kinds) :])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
