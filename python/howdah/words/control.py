"""A status as people read it."""

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table

from howdah._native import format_duration, format_rate
from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status
from howdah.text import some

_SILENT_S = 1.0
"""Twice the time between two reports of an agent without a lease."""


def shown(status: Status) -> Group:
    """The whole status in words."""
    return Group(*_lines(status), "", _table(status))


def _lines(status: Status) -> Iterator[str]:
    free = "" if status.free_bps is None else f", {format_rate(status.free_bps)} free"
    rates = format_rate(status.guarantee_bps), format_rate(status.trusted_bps)
    yield f"{status.policy}: {rates[0]} guaranteed, {rates[1]} of it shared out{free}"
    yield _leader(status)
    if status.differs:
        yield f"{status.leader} has another content of {status.policy}: give all controllers the same file"
    if status.asked:
        yield "asked for: " + ", ".join(_asked(each, status.unix_s) for each in status.asked)
    for name, terms in sorted(status.changed.items()):
        yield f"changed: {name} " + ", ".join(f"{key} {value}" for key, value in terms.items())
    if drained := [host.name for host in status.hosts if host.drained]:
        yield f"drained: {', '.join(drained)}"
    if silent := [host.name for host in status.hosts if host.heard_s is None]:
        yield f"no message yet from: {', '.join(silent)}"
    resting = set(status.askable) - {each.traffic_class for each in status.asked}
    if idle := [flow.flow for flow in status.flows if flow.idle and flow.traffic_class not in resting]:
        yield f"idle, so others have their shares: {', '.join(idle)}"
    for host in status.hosts:
        if not host.lease_left_s and host.heard_s is not None:
            yield _unleased(host, host.heard_s)
    leased = {host.name for host in status.hosts if host.lease_left_s}
    if bare := [flow.flow for flow in status.unplaced if flow.host in leased]:
        yield f"without a rule on their host, which its agent tells the reason of: {', '.join(bare)}"


def _unleased(host: HostStatus, heard_s: float) -> str:
    silence = format_duration(round(heard_s, 1))
    if host.leased:
        return f"no message from {host.name} for {silence}: its leases have run out"
    if heard_s < _SILENT_S:
        return f"{host.name} reports, and has no lease yet"
    return f"no message from {host.name} for {silence}: it had no lease"


def _leader(status: Status) -> str:
    if status.leader is None:
        why = f": {status.trouble}" if status.trouble else ""
        return f"no controller leads{why}; {status.controller} stands by"
    if not status.leads:
        return f"{status.leader} leads; {status.controller} stands by"
    return f"{status.leader} leads; {_in_force(status)}"


def _in_force(status: Status) -> str:
    """What is in force, by the word of its leader."""
    if status.settled:
        return "everything is in force"
    heard_s = [host.heard_s for host in status.hosts if host.heard_s is not None]
    if not heard_s:
        return "no agent has reported yet"
    if not any(host.lease_left_s for host in status.hosts) and min(heard_s) >= _SILENT_S:
        return f"no agent has reported for {format_duration(round(min(heard_s), 1))}"
    bare = {flow.host for flow in status.unplaced}
    lacking = [
        host.name
        for host in status.hosts
        if not host.drained and (not host.lease_left_s or host.name in bare)
    ]
    where = f"on {some(lacking)}" if lacking else "a change under way"
    return f"everything is in force except {where}"


def _asked(asked: AskedStatus, now_unix_s: float) -> str:
    host = f" on {asked.host}" if asked.host else ""
    text = f"{asked.traffic_class}{host} by {asked.who}"
    if asked.until_unix_s is None:
        return text
    return f"{text} for {format_duration(max(0, round(asked.until_unix_s - now_unix_s)))} more"


def _table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("flow", min_width=max((len(flow.flow) for flow in status.flows), default=0))
    for column in ("share", "target", "minimum", "sent", "conns", "lease"):
        table.add_column(column, justify="right")
    hosts = {host.name: host for host in status.hosts}
    for flow in status.flows:
        table.add_row(flow.flow, *_cells(flow, hosts[flow.host]))
    return table


def _cells(flow: FlowStatus, host: HostStatus) -> Iterator[str]:
    yield "ordinary" if flow.share_bps == 0 else _rate(flow.share_bps)
    yield _rate(flow.target_bps)
    yield _rate(flow.minimum_bps)
    yield _rate(flow.sent_bps)
    yield "-" if flow.connections is None else f"{flow.connections:,}"
    yield "-" if host.lease_left_s is None else _lease(host.lease_left_s, leased=host.leased)


def _lease(left_s: float, *, leased: bool) -> str:
    if left_s == 0:
        return "run out" if leased else "none yet"
    return format_duration(round(left_s, 1))


def _rate(rate_bps: int | None) -> str:
    return "-" if rate_bps is None else format_rate(rate_bps)
