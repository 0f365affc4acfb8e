"""The LANs of a dumbbell: routers and cables, and what the cables dropped, as the kernel counts it.

A router stands at each end of the link, and a cable goes from it to every host of its side.

A cable is a pair of veth devices: ``eth0`` in the host, and one named after the host in the router. Both have
the same Ethernet address and ask for none (IFF_NOARP), so that no packet waits for an answer. The router's
devices share the address it has on the link (RFC 1812 §2.2.7, unnumbered lines).

A cable with a rate has a token bucket (tc-tbf(8), net/sched/sch_tbf.c) at both its ends. At the host it is
what a network card is: TCP keeps little there (TCP small queues), and it has room for all that a socket may
keep. At the router it is a port, whose queue drops what it has no room for. The bucket counts a packet of
segmentation offload as the segments it would be, each with its headers; it lets it pass whole, or below
some 0.6 Gb/s cuts it into segments.
"""

import subprocess
from collections.abc import Mapping, Sequence

import msgspec

from howdah import decoding
from howdah.lab import hosts, namespaces
from howdah.lab.hosts import HostCommands
from howdah.lab.topology import (
    ADDRESSES,
    ADDRESSES6,
    ENDS,
    ROUTERS,
    End,
    LabHost,
    Topology,
    opposite,
    prefixes,
)
from howdah.values.link import CableDrops, LinkSpec, LinkStats

DEVICE = "eth0"
"""The name of a host's device."""

_ETHERNET_HEADER_BYTES = 14
"""The bytes of a frame that the kernel counts beside its IP packet."""
_LARGEST_PACKET_BYTES = 80 * 2**10
"""A packet of 64 KB with the headers of every segment that it would be, rounded up."""
_HOST_QUEUE_BYTES = 2**31 - 1
_PORT_QUEUE_FRAMES = 1000
_PORT_QUEUE_S = 0.01
"""A port's queue holds the larger of the two, so that a link a few milliseconds late loses nothing there."""
_AHEAD_S = 0.001
"""A bucket is as deep as its rate in this time, yet no deeper than one packet of the largest needs."""
_LATE_S = 0.0001
"""A bucket is at least as deep as a timer needs that fires so much late, to reach its rate."""


class TokenBucket(msgspec.Struct, frozen=True):
    """A token bucket as the kernel takes it."""

    rate_bps: int
    """The rate of frames without preamble, checksum and gap; for full frames that is the rate on the wire."""
    depth_bytes: int


def bucket(rate_bps: int, link: LinkSpec) -> TokenBucket:
    """The bucket of a cable that carries ``rate_bps`` on the wire."""
    frame_bytes = _frame_bytes(link)
    wire_bytes = link.mtu + link.frame_overhead_bytes
    byte_rate = rate_bps / 8
    depth = max(min(byte_rate * _AHEAD_S, _LARGEST_PACKET_BYTES), byte_rate * _LATE_S, 2 * frame_bytes)
    return TokenBucket(rate_bps * frame_bytes // wire_bytes, int(depth))


def router(
    end: End, topology: Topology, link: LinkSpec, device: str, paths: Mapping[str, str]
) -> HostCommands:
    """The commands that make a router of the namespace at ``end``, whose ``device`` is the link's.

    It makes the cables, too; ``paths`` has a path for each host of its side.
    """
    side = topology.side(end)
    other, other6 = prefixes(opposite(end))
    sysctls = {"ipv4/ip_forward": "1"}
    ip = [*hosts.end_of_link(end, device, link), f"route add {other} dev {device}"]
    if hosts.has_ipv6(link):
        sysctls |= {"ipv6/conf/all/forwarding": "1", "ipv6/conf/default/addr_gen_mode": "1"}
        ip.append(f"route add {other6} dev {device}")
    for place, to in enumerate(side, start=1):
        ip += _cable(end, place, to, link, paths[to.name])
    return HostCommands(sysctls, ip, _ports(topology, link, side))


def host(end: End, own: LabHost, topology: Topology, link: LinkSpec) -> HostCommands:
    """The commands that give a host's namespace its address and routes, once its cable is there."""
    sysctls = {}
    ip = [
        "link set dev lo up",
        _up(DEVICE),
        f"address add {own.address} peer {ADDRESSES[end]} dev {DEVICE}",
        f"route add 0.0.0.0/0 dev {DEVICE}",
    ]
    if hosts.has_ipv6(link):
        sysctls[f"ipv6/conf/{DEVICE}/addr_gen_mode"] = "1"
        ip.append(f"address add {own.address6} peer {ADDRESSES6[end]} dev {DEVICE} nodad")
        ip.append(f"route add ::/0 dev {DEVICE}")
    rate_bps = topology.lan_rate_bps
    tc = [_shaped(DEVICE, bucket(rate_bps, link), _HOST_QUEUE_BYTES)] if rate_bps else []
    return HostCommands(sysctls, ip, tc)


def _cable(end: End, place: int, to: LabHost, link: LinkSpec, namespace: str) -> list[str]:
    ethernet = f"mtu {link.mtu} address 02:77:00:00:{ENDS.index(end) + 1:02x}:{place:02x}"
    lines = [
        f"link add name {to.name} {ethernet} type veth peer name {DEVICE} {ethernet} netns {namespace}",
        _up(to.name),
        f"address add {ADDRESSES[end]} peer {to.address} dev {to.name}",
    ]
    if hosts.has_ipv6(link):
        lines.append(f"address add {ADDRESSES6[end]} peer {to.address6} dev {to.name} nodad")
    return lines


def _up(device: str) -> str:
    return f"link set dev {device} arp off up"


def _ports(topology: Topology, link: LinkSpec, side: Sequence[LabHost]) -> list[str]:
    rate_bps = topology.lan_rate_bps
    if not rate_bps:
        return []
    queue_bytes = max(_PORT_QUEUE_FRAMES * _frame_bytes(link), int(rate_bps / 8 * _PORT_QUEUE_S))
    return [_shaped(to.name, bucket(rate_bps, link), queue_bytes) for to in side]


def _shaped(device: str, by: TokenBucket, queue_bytes: int) -> str:
    shape = f"tbf rate {by.rate_bps}bit burst {by.depth_bytes} limit {queue_bytes}"
    return f"qdisc add dev {device} root {shape}"


def _frame_bytes(link: LinkSpec) -> int:
    return link.mtu + _ETHERNET_HEADER_BYTES


Drops = dict[str, CableDrops]
"""Packets dropped, by host."""

_DEVICES = ("cat", "/proc/net/dev")
_QUEUES = ("tc", "-statistics", "-json", "qdisc", "show")
_RECEIVED_DROPPED, _SENT_DROPPED = 3, 8 + 3
"""Columns of /proc/net/dev, where eight columns of what was received come first."""


class _Queue(msgspec.Struct):
    """One queueing discipline, as tc(8) shows it."""

    kind: str
    dev: str
    drops: int = 0


def settle_cables(topology: Topology, descriptors: Mapping[str, int]) -> None:
    """Waits until the kernel is done with cables that just came up; before, it drops what it sends on them.

    Showing one device waits for that since Linux 6.8 (linkwatch_sync_dev, commit facd15dfd691). Older kernels
    have nothing to wait by.
    """
    script = 'for device; do ip link show dev "$device"; done'
    waiting = []
    for end in ENDS:
        devices = (host.name for host in topology.side(end))
        waiting.append(_started_in(descriptors[ROUTERS[end]], ("sh", "-c", script, "sh", *devices)))
    for process in waiting:
        process.communicate()


def count_drops(topology: Topology, descriptors: Mapping[str, int]) -> Drops:
    """Counts what was dropped since the lab began; a cable that somebody has taken down counts nothing."""
    asking = {
        (router, command): _started_in(descriptors[router], command)
        for router in ROUTERS.values()
        for command in (_DEVICES, _QUEUES)
    }
    answers = {what: process.communicate()[0] for what, process in asking.items()}
    drops = {}
    for end in ENDS:
        devices = device_drops(answers[ROUTERS[end], _DEVICES])
        queues = queue_drops(answers[ROUTERS[end], _QUEUES])
        for host in topology.side(end):
            drops[host.name] = CableDrops(queues.get(host.name, 0), devices.get(host.name, 0))
    return drops


def drops_since(now: Drops, earlier: Drops) -> Drops:
    """The packets that were dropped after ``earlier``."""
    return {name: _difference(drops, earlier[name]) for name, drops in now.items()}


def with_drops(stats: LinkStats, drops: Drops) -> LinkStats:
    """Adds ``drops`` to ``stats``; the machine's drops spoil a run wherever they happen."""
    lost = sum(each.machine for each in drops.values())
    lateness = stats.lateness
    if lost and not lateness.spoilt:
        why = (
            f"{lost} packets were dropped by this machine between hosts and routers; "
            "lower the rate or stop other programs"
        )
        lateness = msgspec.structs.replace(lateness, spoilt=True, why=why)
    return msgspec.structs.replace(stats, lateness=lateness, cables=drops)


def device_drops(text: bytes) -> dict[str, int]:
    """Packets dropped on their way into or out of each device, of /proc/net/dev.

    What a processor has no room for (netdev_max_backlog) is counted at both ends of a veth pair, as sent
    at one and received at the other. So one of the two tells of both ways.
    """
    rows = (line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    counters = {device.strip(): numbers.split() for device, numbers in rows}
    return {
        device: int(numbers[_RECEIVED_DROPPED]) + int(numbers[_SENT_DROPPED])
        for device, numbers in counters.items()
    }


def queue_drops(text: bytes) -> dict[str, int]:
    """Packets for which the queue of each device's token bucket had no room, as tc(8) tells."""
    if not text.strip():
        return {}
    queues = decoding.from_json(text, list[_Queue])
    return {queue.dev: queue.drops for queue in queues if queue.kind == "tbf"}


def _started_in(namespace: int, command: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        ["nsenter", f"--net={namespaces.path(namespace)}", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _difference(now: CableDrops, earlier: CableDrops) -> CableDrops:
    names = CableDrops.__struct_fields__
    # A device that was made anew counts from zero again.
    return CableDrops(**{name: max(getattr(now, name) - getattr(earlier, name), 0) for name in names})
