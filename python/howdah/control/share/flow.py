"""Finding the flow of a policy that a transfer from this host is."""

from collections.abc import Collection, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from howdah import HowdahError
from howdah.arguments import NotHere
from howdah.control.policy.members import Member
from howdah.control.status import FlowStatus, Status


class Here(NamedTuple):
    """The state of this host that decides which flow a transfer is."""

    name: str
    """The host's own name; its agent may have another."""
    own_ports: tuple[int, int]
    """The first and the last port that connections it begins are given."""
    cgroup: str
    """The cgroup of this process, in the unified hierarchy."""
    enforced: Collection[str] | None
    """Flows to whose share a rule here would keep them; null: only root can see the rules."""


class NotYet(NotHere):
    """No rule is there, or not yet: rules come after shares, and a new controller begins without reports."""


def own_flow(status: Status, name: str, addresses: Sequence[str], here: Here) -> FlowStatus:
    """The flow that connections from here to ``addresses`` are, of the class ``name``.

    Raises HowdahError when they are none, or no agent is there to keep them to its share.
    """
    among = [each for each in status.flows if each.traffic_class == name]
    if not among:
        known = ", ".join(sorted({each.traffic_class for each in status.flows}))
        raise NotHere(f"{{traffic_class}} {name}: {status.policy} has no such class; it has {known}")
    found = _found(status, name, among, addresses, here)
    (host,) = (each for each in status.hosts if each.name == found.host)
    if host.heard_s is None or not host.lease_left_s:
        raise NotYet(
            f"{status.controller} has no message from the agent of {host.name}, so nothing there has more "
            "than its minimum; start it there: howdah control agent"
        )
    if host.drained:
        raise HowdahError(
            f"{host.name} is drained, so it has only its minimums; first: howdah control undrain {host.name}"
        )
    return found


def _found(
    status: Status, name: str, among: Sequence[FlowStatus], addresses: Sequence[str], here: Here
) -> FlowStatus:
    fitting = [each for each in among if _fits(each, addresses, here)]
    fitting.sort(key=lambda each: len(each.cgroup or ""), reverse=True)  # the deepest cgroup has it
    for each in fitting:
        if each.host == here.name if here.enforced is None else each.flow in here.enforced:
            return each
    meant = (str(Member(each.host, each.to, each.ports, each.cgroup)) for each in among)
    members = "; ".join(each.removesuffix(" ports 1-65535") for each in meant)
    where = " or ".join(addresses)
    if here.enforced is not None:
        raise NotYet(
            f"{{traffic_class}} {name}: no rule on this host holds connections to {where} to a share of "
            f"{name}. {status.policy} means {members}; is its agent running here?"
        )
    raise NotHere(
        f"{{traffic_class}} {name}: {here.name} to {where} is not of {name} in {status.policy}, "
        f"which means {members}"
    )


def _fits(flow: FlowStatus, addresses: Sequence[str], here: Here) -> bool:
    """Whether every connection there is meant, whichever ports it is given."""
    first, last = flow.ports
    return (
        first <= here.own_ports[0]
        and here.own_ports[1] <= last
        and goes(addresses, flow.to)
        and is_below(here.cgroup, flow.cgroup)
    )


def goes(addresses: Sequence[str], prefix: str | None) -> bool:
    """Whether one of the addresses is in the prefix; null: every one is."""
    return prefix is None or any(ip_address(address) in ip_network(prefix) for address in addresses)


def is_below(cgroup: str, wanted: str | None) -> bool:
    """Whether it is that cgroup or one below it; null: every one is."""
    return wanted is None or f"{cgroup}/".startswith(f"{wanted.rstrip('/')}/")
