"""Small programs that run on the hosts of a lab and print one JSON value.

python -m bench.probes echo ADDRESS COUNT GAP_S      RTT by ICMP echo, ns each
python -m bench.probes sink PORT SKIP_S SPAN_S       payload received in a span, and its length
python -m bench.probes source ADDRESS PORT SPAN_S    sends as much as TCP takes
python -m bench.probes watch ADDRESS PORT CC BEGIN_S SPAN_S   sends, and samples its own window
python -m bench.probes catch PORT                    counts datagrams until told the sum
python -m bench.probes throw ADDRESS PORT COUNT RATE offloaded datagrams of one wire segment each
"""

import contextlib
import json
import select
import socket
import struct
import sys
import time
from typing import Any

SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
UDP_SEGMENT = 103
UDP_GRO = 104
DATAGRAM_BYTES = 1472
DATAGRAMS_A_WRITE = 44
"""64,768 bytes: the most that one offloaded write of full-sized datagrams can hold."""
END = b"end"


def echo(address: str, count: int, gap_s: float) -> list[int]:
    """RTT in ns of each echo: from just before the send call to the kernel's receive timestamp.

    The wake-up of this program is not in it; that of whatever forwards the packet is.
    """
    identifier = 0x4844
    sent_ns: dict[int, int] = {}
    round_trips_ns: list[int] = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        end_s = time.monotonic() + count * gap_s + 2
        next_s = time.monotonic()
        while len(round_trips_ns) < count and time.monotonic() < end_s:
            if len(sent_ns) < count and time.monotonic() >= next_s:
                number = len(sent_ns)
                packet = _echo_request(identifier, number)
                sent_ns[number] = time.clock_gettime_ns(time.CLOCK_REALTIME)
                raw.sendto(packet, (address, 0))
                next_s += gap_s
            wait_s = max(0.0, next_s - time.monotonic()) if len(sent_ns) < count else 0.1
            if not select.select([raw], [], [], wait_s)[0]:
                continue
            packet, ancillary, _, _ = raw.recvmsg(2048, 256)
            kind, _, _, owner, number = struct.unpack("!BBHHH", packet[20:28])
            if kind == 0 and owner == identifier:
                seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
                round_trips_ns.append(seconds * 1_000_000_000 + nanoseconds - sent_ns[number])
    return round_trips_ns


def _echo_request(identifier: int, number: int) -> bytes:
    body = struct.pack("!HH", identifier, number) + bytes(56)
    words = struct.unpack(f"!{len(body) // 2}H", body)
    total = 0x0800 + sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!BBH", 8, 0, ~total & 0xFFFF) + body


def sink(port: int, skip_s: float, span_s: float) -> dict[str, float]:
    """Takes one connection; counts payload from ``skip_s`` after its first byte, for ``span_s``."""
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
    buffer = bytearray(1 << 20)
    with connection:
        connection.recv_into(buffer)
        first_ns = time.monotonic_ns()
        begin_ns = None
        count = 0
        while received := connection.recv_into(buffer):
            now_ns = time.monotonic_ns()
            if begin_ns is None:
                if now_ns - first_ns >= skip_s * 1e9:
                    begin_ns = now_ns
                continue
            count += received
            if now_ns - begin_ns >= span_s * 1e9:
                return {"bytes": count, "span_s": (now_ns - begin_ns) / 1e9}
    raise SystemExit("the connection ended before the span did")


def source(address: str, port: int, span_s: float) -> None:
    """Sends to a sink until it hangs up."""
    block = bytes(1 << 20)
    end_s = time.monotonic() + span_s
    with (
        contextlib.suppress(BrokenPipeError, ConnectionResetError),
        socket.create_connection((address, port)) as connection,
    ):
        while time.monotonic() < end_s:
            connection.sendall(block)


def watch(address: str, port: int, control: str, begin_s: float, span_s: float) -> list[dict[str, int]]:
    """Sends to a sink from ``begin_s`` of the monotonic clock on; TCP_INFO about every millisecond.

    The names are those of ``struct tcp_info``; ``t_ns`` is since ``begin_s``.
    """
    fields = {
        "rtt": 68,
        "snd_ssthresh": 76,
        "snd_cwnd": 80,
        "total_retrans": 100,
        "segs_in": 140,
        "delivered": 192,
    }
    block = bytes(1 << 18)
    samples: list[dict[str, int]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        connection.connect((address, port))
        connection.setblocking(False)
        time.sleep(max(0.0, begin_s - time.monotonic()))
        while (now_s := time.monotonic()) < begin_s + span_s:
            with contextlib.suppress(BlockingIOError):
                connection.send(block)
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            sample = {name: struct.unpack_from("=I", info, offset)[0] for name, offset in fields.items()}
            samples.append({"t_ns": round((now_s - begin_s) * 1e9), **sample})
            time.sleep(0.001)
    return samples


def catch(port: int) -> dict[str, int]:
    """Counts datagrams, several to a read, until the sender says that it was the last."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 512 << 20)
        receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        receiver.bind(("", port))
        print("ready", flush=True)
        count = 0
        while True:
            data = receiver.recv(1 << 16)
            if data == END:
                return {"datagrams": count, "overflows": _udp_overflows()}
            count += -(-len(data) // DATAGRAM_BYTES)


def _udp_overflows() -> int:
    """Datagrams this host has thrown away because a socket was full."""
    with open("/proc/net/snmp", encoding="ascii") as table:  # noqa: PTH123, this network namespace's
        names, values = [line.split() for line in table if line.startswith("Udp:")]
    return int(values[names.index("RcvbufErrors")])


def throw(address: str, port: int, count: int, rate_bps: float) -> dict[str, int]:
    """Sends ``count`` writes of 44 datagrams at ``rate_bps`` of payload, then says that it has ended."""
    block = bytes(DATAGRAM_BYTES * DATAGRAMS_A_WRITE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, DATAGRAM_BYTES)
        sender.connect((address, port))
        begin_s = time.monotonic()
        for number in range(count):
            ahead_s = begin_s + number * len(block) * 8 / rate_bps - time.monotonic()
            if ahead_s > 0:
                time.sleep(ahead_s)
            sender.send(block)
        # Several, as one may be lost.
        for _ in range(20):
            time.sleep(0.05)
            with contextlib.suppress(ConnectionRefusedError):
                sender.send(END)
    return {"datagrams": count * DATAGRAMS_A_WRITE}


def main(arguments: list[str]) -> None:
    """Runs one probe."""
    probes: dict[str, tuple[Any, tuple[type, ...]]] = {
        "echo": (echo, (str, int, float)),
        "sink": (sink, (int, float, float)),
        "source": (source, (str, int, float)),
        "watch": (watch, (str, int, str, float, float)),
        "catch": (catch, (int,)),
        "throw": (throw, (str, int, int, float)),
    }
    probe, kinds = probes[arguments[0]]
    values = [kind(text) for kind, text in zip(kinds, arguments[1:], strict=True)]
    print(json.dumps(probe(*values)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
