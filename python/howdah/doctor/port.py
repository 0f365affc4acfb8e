"""The data port of a far host → a finding: what is open, and what to ask its administrator for."""

from howdah.doctor.judge import HostFinding
from howdah.ports import in_words
from howdah.remote.dataport import Tried

WHAT = "data port"
RANGE = (50000, 50999)
"""The range to ask for where there is none yet."""


def judge_port(tried: Tried) -> HostFinding:
    """The finding. Where a firewall lets in some ports of a range and others not, each is named."""
    answering = ", ".join(map(str, tried.open))
    which = "its kernel chose it" if tried.ports is None else f"of {in_words(tried.ports)}"
    if not tried.closed:
        return HostFinding(WHAT, "good", f"open: {tried.far} answers at {answering}, {which}")
    found = "closed: " + "; ".join(f"{tried.far}:{port}: {why}" for port, why in tried.closed.items())
    if answering:
        found += f"; {answering} answers"
    ports = in_words(tried.ports or RANGE)
    ask = (
        "ask the administrator of its firewall to let in "
        f"TCP from {tried.near or 'here'} to {tried.far}, ports {ports}"
    )
    if tried.ports is None:
        ask += f", and copy with --ports {ports}"
    if tried.from_there:
        return HostFinding(
            WHAT, "good", f"{found}, but {tried.far} connects to this host, so copies go straight"
        )
    cost = (
        f"copies go through the ssh connection, which is slower; {ask}"
        if tried.through_ssh
        else f"no copy reaches it, and its sshd forwards no data either; {ask}, or for AllowTcpForwarding yes"
    )
    if tried.near is None:
        return HostFinding(WHAT, "gap", found, cost)
    cost += "; the line below lets in this host alone: give the network of your near hosts there instead"
    return HostFinding(WHAT, "gap", found, cost, commands=[_rule(tried.near, ports)])


def _rule(near: str, ports: str) -> str:
    """The line for root that lets in the near address alone."""
    family = "ip6" if ":" in near else "ip"
    return (
        f"nft insert rule inet filter input {family} saddr {near.partition('%')[0]} tcp dport {ports} accept"
    )
