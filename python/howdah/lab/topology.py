"""The hosts of a lab, their names and addresses, and what joins them to its link.

A pair is two hosts, ``near`` and ``far``, each an end of the link. In a dumbbell the ends are routers, and
every host has a cable to the router of its side, so that many hosts share the link::

    left1 ──┐                                    ┌── right1
            ├── left-router ══ link ══ right-router
    left2 ──┘                                    └── right2

With one host on the right that is a star. What the link calls near is the left side, and far the right.
Every lab uses the same addresses; its namespaces are its own.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from howdah._native import HowdahError, format_rate

End = Literal["near", "far"]
"""An end of the link."""
ENDS: tuple[End, End] = ("near", "far")
ADDRESSES: dict[End, str] = {"near": "10.77.0.1", "far": "10.77.0.2"}
ADDRESSES6: dict[End, str] = {"near": "fd77::1", "far": "fd77::2"}
ROUTERS: dict[End, str] = {"near": "left-router", "far": "right-router"}

HOSTS_MAX = 100
"""The most hosts on one side."""
LAN_BPS_MIN, LAN_BPS_MAX = 1_000_000, 1_000_000_000_000

_NAME = re.compile(r"[a-z][a-z0-9-]{0,14}")
"""Names of hosts: the router's device for a host has the same name, and a device has 15 characters."""
_TAKEN = {"all", "default", "lo", "localhost", "wan0"}
"""Names of devices, of what stands for all devices below /proc/sys/net, and of every host."""


class LabHost(msgspec.Struct, frozen=True):
    """One host."""

    name: str
    """The name of the host, and of its IPv4 address."""
    name6: str
    """The name of its IPv6 address."""
    address: str
    address6: str


class Lan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cables between the hosts and the routers of both sides; each host has one to itself."""

    rate_bps: int | None = None
    """The rate on the wire, each way; null: not shaped."""


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hosts of a lab by name, and how they reach the link."""

    left: tuple[str, ...] = ("near",)
    right: tuple[str, ...] = ("far",)
    lan: Lan | None = None
    """The cables; null: a pair, whose hosts are the ends of the link."""

    def side(self, end: End) -> tuple[LabHost, ...]:
        """The hosts at one end of the link."""
        names = self.left if end == "near" else self.right
        if self.lan is None:
            (name,) = names
            return (LabHost(name, f"{name}6", ADDRESSES[end], ADDRESSES6[end]),)
        net, net6 = _nets(end)
        return tuple(
            LabHost(name, f"{name}-v6", f"{net}.{place}", f"{net6}::{place}")
            for place, name in enumerate(names, start=1)
        )

    @property
    def lan_rate_bps(self) -> int | None:
        """The rate of each cable on the wire; null where there are none or nothing shapes them."""
        return self.lan.rate_bps if self.lan else None

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        """All hosts, the left side first."""
        return (*self.side("near"), *self.side("far"))

    @property
    def ends(self) -> dict[End, str]:
        """The names of the hosts or routers at the ends of the link."""
        return dict(ROUTERS) if self.lan else {"near": self.left[0], "far": self.right[0]}

    @property
    def servers(self) -> tuple[LabHost, ...]:
        """The hosts that get an OpenSSH server: the far host of a pair, all hosts of a dumbbell."""
        return self.hosts if self.lan else self.side("far")


PAIR = Topology()


def opposite(end: End) -> End:
    """The other end of the link."""
    return "far" if end == "near" else "near"


def prefixes(end: End) -> tuple[str, str]:
    """The IPv4 and IPv6 addresses of the LAN at one end of the link."""
    net, net6 = _nets(end)
    return f"{net}.0/24", f"{net6}::/64"


def dumbbell(
    left: int | Sequence[str] = 1, right: int | Sequence[str] = 1, *, lan_rate_bps: int | None = None
) -> Topology:
    """Hosts on two LANs, by number (left1, left2 …) or by name.

    Raises HowdahError naming a number, name or rate that cannot be.
    """
    topology = Topology(_named(left, "left"), _named(right, "right"), Lan(lan_rate_bps))
    uses = Counter(name for host in topology.hosts for name in (host.name, host.name6))
    uses.update((*ROUTERS.values(), *_TAKEN))
    again = [name for name in (*topology.left, *topology.right) if uses[name] > 1]
    if again:
        raise HowdahError(f"host name {again[0]} is taken in this lab; give another")
    if lan_rate_bps is not None and not LAN_BPS_MIN <= lan_rate_bps <= LAN_BPS_MAX:
        raise HowdahError(
            f"the LAN's rate is {format_rate(lan_rate_bps)}; it must be {format_rate(LAN_BPS_MIN)} to "
            f"{format_rate(LAN_BPS_MAX)}, or not given"
        )
    return topology


def _named(hosts: int | Sequence[str], side: str) -> tuple[str, ...]:
    count = hosts if isinstance(hosts, int) else len(hosts)
    if not 1 <= count <= HOSTS_MAX:
        raise HowdahError(f"{count} hosts on the {side}; it must be 1 to {HOSTS_MAX}")
    if isinstance(hosts, int):
        return tuple(f"{side}{place}" for place in range(1, hosts + 1))
    wrong = [name for name in hosts if not _NAME.fullmatch(name)]
    if wrong:
        raise HowdahError(
            f"{wrong[0]!r} is not a host name; give 1 to 15 lower-case letters, digits and dashes, "
            "a letter first"
        )
    return tuple(hosts)


def _nets(end: End) -> tuple[str, str]:
    number = ENDS.index(end) + 1
    return f"10.77.{number}", f"fd77:{number}"
