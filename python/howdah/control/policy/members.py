"""Members of classes: the traffic of a host to a prefix, by ports, of a cgroup."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

import msgspec

from howdah import HowdahError, tomlfile
from howdah.cc.shares import ALL_PORTS, Place

Network = IPv4Network | IPv6Network


class MemberText(msgspec.Struct, forbid_unknown_fields=True):
    """A member as a person writes it."""

    host: str
    to: str | None = None
    ports: str = ALL_PORTS
    cgroup: str | None = None


class Member(msgspec.Struct, frozen=True):
    """TCP connections of a host to a prefix, of a cgroup or both, with a port of either end in the range."""

    agent: str
    """The name of the host's agent."""
    to: str | None
    """A prefix, as 10.9.0.0/16; null: anywhere."""
    ports: tuple[int, int]
    """The first and the last port."""
    cgroup: str | None = None
    """Their cgroup, as /system.slice/postgresql.service, with those below it; null: any."""

    def __str__(self) -> str:
        first, last = self.ports
        whose = f" cgroup {self.cgroup}" if self.cgroup else ""
        to = f" to {self.to}" if self.to else ""
        return f"{self.agent}{whose}{to} ports {first if first == last else f'{first}-{last}'}"

    def place(self, namespace: int | None) -> Place:
        """The place of a rule for it, in one network namespace (by its inode) or all."""
        return Place(self.to, f"{self.ports[0]}-{self.ports[1]}", namespace, self.cgroup)


def name(text: str, where: str) -> str:
    """The name of a class or a host. Raises HowdahError, also for dots: they part the keys of the bus."""
    if "." in text:
        raise HowdahError(f"{where} {text!r}: give a name without dots")
    return tomlfile.name(text, where)


def read(text: MemberText, where: str) -> Member:
    """The member. Raises HowdahError naming what is no host name, prefix, range of ports or cgroup."""
    agent = name(text.host, f"{where}: host")
    try:
        Place(text.to, text.ports, cgroup=text.cgroup).check()
    except HowdahError as error:
        raise HowdahError(f"{where}: {error}") from None
    first, _, last = text.ports.partition("-")
    to = None if text.to is None else str(_network(text.to))
    return Member(agent, to, (int(first), int(last or first)), text.cgroup)


def check_apart(members: Iterable[tuple[str, Member]], where: str) -> None:
    """Raises HowdahError when a connection could belong to two of the members; each comes with its table.

    On one host may stand beside each other what rules of ``howdah cc attach`` may: prefixes that do not
    overlap, or the same prefix with ports that do not. Of different cgroups all may: the deepest has it.
    """
    earlier: dict[tuple[str, str | None], list[tuple[str, Member, Network | None]]] = {}
    for table, member in members:
        network = None if member.to is None else ip_network(member.to)
        known = earlier.setdefault((member.agent, member.cgroup), [])
        for other_table, other, other_network in known:
            if network == other_network:
                meet, mend = _ports_meet(member, other), "give ports outside of it"
            else:
                meet, mend = _overlap(network, other_network), "give the same prefix and other ports"
            if meet:
                raise HowdahError(f"{where}: {table}: {member} overlaps {other_table}: {other}; {mend}")
        known.append((table, member, network))


def _ports_meet(one: Member, other: Member) -> bool:
    return one.ports[0] <= other.ports[1] and other.ports[0] <= one.ports[1]


def _overlap(one: Network | None, other: Network | None) -> bool:
    return one is None or other is None or one.network_address in other or other.network_address in one


def _network(text: str) -> Network:
    address, _, bits = text.partition("/")
    return ip_network((address, int(bits)) if bits else address)
