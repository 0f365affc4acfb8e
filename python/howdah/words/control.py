"""A status as people read it."""

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table

from howdah._native import format_duration, format_rate
from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status


def shown(status: Status) -> Group:
    """The whole status in words."""
    return Group(*_lines(status), "", _table(status))


def _lines(status: Status) -> Iterator[str]:
    free = "" if status.free_bps is None else f", {format_rate(status.free_bps)} free"
    rates = format_rate(status.guarantee_bps), format_rate(status.trusted_bps)
    yield f"{status.policy}: {rates[0]} guaranteed, {rates[1]} of it shared out{free}"
    yield _leader(status)
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
            silence = format_duration(round(host.heard_s, 1))
            yield f"no message from {host.name} for {silence}: its leases have run out"


def _leader(status: Status) -> str:
    if status.leader is None:
        return f"no controller leads; {status.controller} stands by"
    if not status.leads:
        return f"{status.leader} leads; {status.controller} stands by"
    return f"{status.leader} leads; everything is in force" + (
        "" if status.settled else " except a change under way"
    )


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
    yield "-" if host.lease_left_s is None else format_duration(round(host.lease_left_s, 1))


def _rate(rate_bps: int | None) -> str:
    return "-" if rate_bps is None else format_rate(rate_bps)
