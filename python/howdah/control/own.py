"""Which flow of a policy a transfer from this host will be."""

from collections.abc import Collection, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from howdah import HowdahError
from howdah.control.status import FlowStatus, HostStatus, Status


class Here(NamedTuple):
    """What this host knows of itself."""

    name: str
    """As it is called; its agent may call it something else."""
    own_ports: tuple[int, int]
    """The first and the last that connections it begins are given."""
    cgroup: str
    """Of this process, in the unified hierarchy."""
    held: Collection[str] | None
    """Flows to whose share a rule here would hold them; null: only root can see the rules."""


class NotYet(HowdahError):
    """Nothing holds it, or not yet: rules come after shares, and a new controller has heard of nobody."""


def flow(status: Status, name: str, addresses: Sequence[str], here: Here) -> FlowStatus:
    """The flow that connections from here to ``addresses`` are, of the class ``name``.

    Raises HowdahError when they are none, or nobody is there to hold them.
    """
    among = [each for each in status.flows if each.traffic_class == name]
    if not among:
        known = ", ".join(sorted({each.traffic_class for each in status.flows}))
        raise HowdahError(f"--class {name}: {status.policy} has no such class; it has {known}")
    found = _found(status, name, among, addresses, here)
    (host,) = (each for each in status.hosts if each.name == found.host)
    _check_host(host, status)
    return found


def _found(
    status: Status, name: str, among: Sequence[FlowStatus], addresses: Sequence[str], here: Here
) -> FlowStatus:
    members = "; ".join(f"{each.host}{_to(each)}{_ports(each)}" for each in among)
    fitting = [each for each in among if _fits(each, addresses, here)]
    fitting.sort(key=lambda each: len(each.cgroup or ""), reverse=True)  # the deepest cgroup has it
    where = " or ".join(addresses)
    if here.held is not None:
        for each in fitting:
            if each.flow in here.held:
                return each
        raise NotYet(
            f"--class {name}: no rule on this host holds connections to {where} to a share of {name}. "
            f"{status.policy} means {members}; is its agent running here?"
        )
    for each in fitting:
        if each.host == here.name:
            return each
    raise HowdahError(
        f"--class {name}: {here.name} to {where} is not of {name} in {status.policy}, which means {members}"
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


def _check_host(host: HostStatus, status: Status) -> None:
    if host.heard_s is None or not host.lease_left_s:
        raise NotYet(
            f"the agent of {host.name} is not heard of by {status.controller}, so nothing there has more "
            "than its minimum; on it: howdah control agent"
        )
    if host.drained:
        raise HowdahError(
            f"{host.name} is drained, so it is left its minimums; first: howdah control undrain {host.name}"
        )


def _to(flow: FlowStatus) -> str:
    whose = f" cgroup {flow.cgroup}" if flow.cgroup else ""
    return f"{whose} to {flow.to}" if flow.to else whose


def _ports(flow: FlowStatus) -> str:
    first, last = flow.ports
    return "" if (first, last) == (1, 65535) else f" ports {first}-{last}"
