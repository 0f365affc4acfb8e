"""The LANs of a dumbbell: a router at each end of the link, and from it a cable to every host of its side.

A cable is a pair of veth devices: ``eth0`` in the host, and one named after the host in the router. Both have
the same Ethernet address and ask for none (IFF_NOARP), so that no packet waits for an answer. The router's
devices share the address it has on the link (RFC 1812 §2.2.7, unnumbered lines).

A cable with a rate has a token bucket (tc-tbf(8), net/sched/sch_tbf.c) at both its ends. At the host it is
what a network card is: TCP keeps little there (TCP small queues), and it has room for all that a socket may
hold. At the router it is a port, whose queue drops what it has no room for. The bucket counts a packet of
segmentation offload as the segments it would be, each with its headers; it lets it pass whole, or below
some 0.6 Gb/s cuts it into segments.
"""

from collections.abc import Mapping, Sequence

import msgspec

from howdah.lab import hosts
from howdah.lab.hosts import Commands
from howdah.lab.topology import ADDRESSES, ADDRESSES6, ENDS, End, Host, Topology, opposite, prefixes
from howdah.values.link import LinkSpec

DEVICE = "eth0"
"""Of each host."""

_ETHERNET_HEADER_BYTES = 14
"""What the kernel counts of a frame beside its IP packet."""
_LARGEST_PACKET_BYTES = 80 * 2**10
"""64 KB of segmentation offload, with the headers of every segment, rounded up."""
_HOST_QUEUE_BYTES = 2**31 - 1
_PORT_QUEUE_FRAMES = 1000
_PORT_QUEUE_S = 0.01
"""A port's queue holds the larger of the two, so that a link a few milliseconds late loses nothing there."""
_AHEAD_S = 0.001
"""A bucket is as deep as its rate in this time, yet no deeper than one packet of the largest needs …"""
_LATE_S = 0.0001
"""… or a timer that fires so much late: otherwise the rate would not be reached."""


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket as the kernel takes it."""

    rate_bps: int
    """In frames without preamble, checksum and gap; for full frames that is the rate on the wire."""
    depth_bytes: int


def bucket(rate_bps: int, link: LinkSpec) -> Bucket:
    """The bucket of a cable that carries ``rate_bps`` on the wire."""
    frame_bytes = _frame_bytes(link)
    wire_bytes = link.mtu + link.frame_overhead_bytes
    byte_rate = rate_bps / 8
    depth = max(min(byte_rate * _AHEAD_S, _LARGEST_PACKET_BYTES), byte_rate * _LATE_S, 2 * frame_bytes)
    return Bucket(rate_bps * frame_bytes // wire_bytes, int(depth))


def router(
    end: End, topology: Topology, link: LinkSpec, device: str, namespaces: Mapping[str, str]
) -> Commands:
    """What makes a router of the namespace at ``end``, whose ``device`` is the link's.

    It makes the cables, too; ``namespaces`` has a path for each host of its side.
    """
    side = topology.side(end)
    other, other6 = prefixes(opposite(end))
    sysctls = {"ipv4/ip_forward": "1"}
    ip = [*hosts.end_of_link(end, device, link), f"route add {other} dev {device}"]
    if hosts.has_ipv6(link):
        sysctls |= {"ipv6/conf/all/forwarding": "1", "ipv6/conf/default/addr_gen_mode": "1"}
        ip.append(f"route add {other6} dev {device}")
    for place, to in enumerate(side, start=1):
        ip += _cable(end, place, to, link, namespaces[to.name])
    return Commands(sysctls, ip, _ports(topology, link, side))


def host(end: End, own: Host, topology: Topology, link: LinkSpec) -> Commands:
    """What gives a host's namespace its address and the way to all others, once its cable is there."""
    sysctls = {}
    ip = [
        "link set lo up",
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
    return Commands(sysctls, ip, tc)


def _cable(end: End, place: int, to: Host, link: LinkSpec, namespace: str) -> list[str]:
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
    return f"link set {device} arp off up"


def _ports(topology: Topology, link: LinkSpec, side: Sequence[Host]) -> list[str]:
    rate_bps = topology.lan_rate_bps
    if not rate_bps:
        return []
    queue_bytes = max(_PORT_QUEUE_FRAMES * _frame_bytes(link), int(rate_bps / 8 * _PORT_QUEUE_S))
    return [_shaped(to.name, bucket(rate_bps, link), queue_bytes) for to in side]


def _shaped(device: str, by: Bucket, queue_bytes: int) -> str:
    shape = f"tbf rate {by.rate_bps}bit burst {by.depth_bytes} limit {queue_bytes}"
    return f"qdisc add dev {device} root {shape}"


def _frame_bytes(link: LinkSpec) -> int:
    return link.mtu + _ETHERNET_HEADER_BYTES
