"""Tells each TCP segment of ssh at a host: when it passed, whether the host sent it, the bytes of payload.

A program of its own, which is in the network namespace of the host. It says ``ready``, listens until its
standard input ends, and then writes the segments as JSON. Segments without payload are left out but for SYN.
"""

import contextlib
import json
import select
import socket
import struct
import sys

_ETH_P_ALL, _PACKET_OUTGOING = 3, 4
"""linux/if_ether.h, linux/if_packet.h."""
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_BUFFER_BYTES = 32 << 20
_SSH = 22
_SYN = 2
_HEADERS_BYTES, _TOLD_BYTES = 128, 64


def segment(packet: bytes) -> int | None:
    """The payload of an IPv4 packet of ssh, in bytes; None: it is another packet, or has none and no SYN."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
        return None
    start = (packet[0] & 15) * 4
    if len(packet) < start + 20:
        return None
    (total,) = struct.unpack_from("!H", packet, 2)
    ports = struct.unpack_from("!HH", packet, start)
    size = total - start - (packet[start + 12] >> 4) * 4
    if _SSH not in ports or (size <= 0 and not packet[start + 13] & _SYN):
        return None
    return int(size)


def main() -> int:
    """Listens; returns its exit code."""
    found: list[tuple[float, bool, int]] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        tap.setblocking(False)
        print("ready", flush=True)
        poll = select.poll()
        poll.register(tap, select.POLLIN)
        poll.register(sys.stdin, select.POLLIN)
        ended = False
        while not ended:
            ended = any(fd == sys.stdin.fileno() for fd, _ in poll.poll())
            with contextlib.suppress(BlockingIOError):
                while True:
                    _take(tap, found)
        _, dropped = struct.unpack("=II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    print(json.dumps({"dropped": dropped, "segments": found}))
    return 0


def _take(tap: socket.socket, found: list[tuple[float, bool, int]]) -> None:
    packet, told, _, (device, _, kind, *_) = tap.recvmsg(_HEADERS_BYTES, _TOLD_BYTES)
    size = None if device == "lo" else segment(packet)
    if size is not None:
        seconds, ns = struct.unpack("=qq", told[0][2])
        found.append((seconds + ns / 1e9, kind == _PACKET_OUTGOING, size))


if __name__ == "__main__":
    sys.exit(main())
