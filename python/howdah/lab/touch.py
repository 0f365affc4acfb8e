"""Touches the memory that a lab's sockets will hold, before packets need it.

In a virtual machine that gives free memory back to its hypervisor, the first use of a page costs a fault
there: at 10 Gb/s several times what all else on the path costs together, and what the link is then late by
is the machine's doing. The emulator touches its own memory; this is for the kernel's.
"""

import contextlib
import mmap
import os
import socket

_PAIR_BYTES = 512 * 2**20
"""The most one socket may hold: SO_SNDBUFFORCE is an int, and the kernel doubles it."""
_CHUNK = bytes(2**20)
_SO_SNDBUFFORCE = 32


def sockets(size_bytes: int) -> int:
    """Has the kernel hold ``size_bytes`` in sockets and lets go; returns what it could, in bytes.

    Packets are held in the same kind of pages (sock_alloc_send_pskb, net/core/sock.c). No more than half of
    the free memory is taken. Needs CAP_NET_ADMIN for more than wmem_max.
    """
    left = min(size_bytes, os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE // 2)
    held = 0
    with contextlib.ExitStack() as stack:
        while left > 0:
            filled = _fill(stack, min(left, _PAIR_BYTES))
            if not filled:
                break
            held += filled
            left -= filled
    return held


def _fill(stack: contextlib.ExitStack, size_bytes: int) -> int:
    """Fills a pair of sockets of ``stack``; returns with how much."""
    try:
        pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError:
        return 0
    for each in pair:
        stack.enter_context(each)
        each.setblocking(False)
    filled = 0
    with contextlib.suppress(PermissionError):
        pair[0].setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, size_bytes)
    with contextlib.suppress(OSError):
        while filled < size_bytes:
            filled += pair[0].send(_CHUNK[: size_bytes - filled])
    return filled
