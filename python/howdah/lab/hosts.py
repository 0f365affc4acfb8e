"""Making a network namespace a host or a router: addresses, routes, settings, memory of its sockets.

In a virtual machine that gives free memory back to its hypervisor, the first use of a page costs a fault
there: at 10 Gb/s several times what all else on the path costs together, and what the link is then late by
is the machine's doing. So the memory that sockets will take is touched before packets need it. The emulator
touches its own; this is for the kernel's.
"""

import contextlib
import mmap
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from howdah._native import HowdahError
from howdah.lab.topology import ADDRESSES, ADDRESSES6, End, opposite
from howdah.values.link import LinkSpec

IPV6_MTU_BYTES_MIN = 1280

CONGESTION_CONTROL = "cubic"
"""The congestion control of sockets that choose none: Linux's own default, whatever the machine's is."""

BUFFER_BYTES_MIN = 64 * 2**20
BUFFER_BYTES_MAX = 2**31 - 1
"""The largest value that the sysctls take: they are ints."""
UNSHAPED_BPS = 40_000_000_000
"""A rate above what one machine carries over an unshaped link."""


def buffer_bytes(link: LinkSpec) -> int:
    """The largest socket buffer in a lab: four BDP, so that no buffer but the one under test limits.

    Linux takes up to half of a receive buffer for its bookkeeping, and CUBIC overshoots the path by
    its queue, another BDP by default.
    """
    return min(max(4 * link.bdp_bytes_max(UNSHAPED_BPS), BUFFER_BYTES_MIN), BUFFER_BYTES_MAX)


def has_ipv6(link: LinkSpec) -> bool:
    """Whether the hosts get IPv6 addresses: the kernel has it and the link's MTU allows it."""
    return Path("/proc/sys/net/ipv6").is_dir() and link.mtu >= IPV6_MTU_BYTES_MIN


_MISSING = {
    "Unknown device type": "this kernel has no veth devices; load their module: modprobe veth",
    "qdisc kind is unknown": "this kernel has no token buckets; load their module: modprobe sch_tbf",
}
"""The kernel's words where it lacks what a LAN is made of, and what to do."""


class HostCommands(msgspec.Struct, frozen=True):
    """The commands that make a host or a router of a namespace, in this order."""

    sysctls: Mapping[str, str]
    """Values by path below /proc/sys/net."""
    ip: Sequence[str]
    """Lines for ``ip -batch``."""
    tc: Sequence[str] = ()


def configure(name: str, namespace: str, commands: HostCommands) -> list[str]:
    """Makes ``name`` of the namespace at the path ``namespace``.

    Returns what it must do without, a line each. Raises HowdahError when the kernel refuses anything else.
    """
    script = [f"printf %s '{value}' >{key} || echo {key}" for key, value in commands.sysctls.items()]
    for program, lines in (("ip", commands.ip), ("tc", commands.tc)):
        if lines:
            script += [f"{program} -batch - <<'END' || exit", *lines, "END"]
    result = subprocess.run(
        ["nsenter", f"--net={namespace}", "--", "sh", "-c", "\n".join(script)],
        cwd="/proc/sys/net",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        said = _first_line(result.stderr)
        why = next((mend for words, mend in _MISSING.items() if words in said), said)
        raise HowdahError(f"cannot set up {name}: {why}")
    return [
        f"on {name} net.{key.replace('/', '.')} could not be set to {commands.sysctls[key]}"
        for key in result.stdout.split()
    ]


def end_of_link(end: End, device: str, link: LinkSpec) -> list[str]:
    """The lines for ``ip -batch`` that give the link's ``device`` at ``end`` its addresses."""
    peer = opposite(end)
    lines = [
        f"link set dev {device} arp off",
        f"address add {ADDRESSES[end]} peer {ADDRESSES[peer]} dev {device}",
    ]
    if has_ipv6(link):
        lines.append(f"address add {ADDRESSES6[end]} peer {ADDRESSES6[peer]} dev {device} nodad")
    return lines


def sysctls(link: LinkSpec, congestion_control: str) -> dict[str, str]:
    """Settings of one namespace, by path below /proc/sys/net."""
    most = buffer_bytes(link)
    return {
        # Autotuning must reach what the link can carry; the first two numbers are the kernel's own.
        "ipv4/tcp_rmem": f"4096 131072 {most}",
        "ipv4/tcp_wmem": f"4096 16384 {most}",
        # Otherwise a connection starts with what the one before it learned, and runs depend on their order.
        "ipv4/tcp_no_metrics_save": "1",
        "ipv4/tcp_congestion_control": congestion_control,
        # Losses of the link must not be taken for a smaller MTU.
        "ipv4/tcp_mtu_probing": "0",
        # Without root, not even sshd on port 22 is root (sshd.py).
        "ipv4/ip_unprivileged_port_start": "0",
    }


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no message"


_PAIR_BYTES = 512 * 2**20
"""The most that one socket takes: SO_SNDBUFFORCE is an int, and the kernel doubles it."""
_CHUNK = bytes(2**20)
_SO_SNDBUFFORCE = 32


def touch_buffers(size_bytes: int) -> int:
    """Has the kernel keep ``size_bytes`` in sockets and lets go; returns what it could, in bytes.

    Packets lie in the same kind of pages (sock_alloc_send_pskb, net/core/sock.c). No more than half of
    the free memory is taken. Needs CAP_NET_ADMIN for more than wmem_max.
    """
    left = min(size_bytes, os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE // 2)
    taken = 0
    with contextlib.ExitStack() as stack:
        while left > 0:
            filled = _fill(stack, min(left, _PAIR_BYTES))
            if not filled:
                break
            taken += filled
            left -= filled
    return taken


def _fill(stack: contextlib.ExitStack, size_bytes: int) -> int:
    """Fills a pair of sockets of ``stack``; returns with how many bytes."""
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
