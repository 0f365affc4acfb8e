"""What a running controller knows, put together for people."""

import time

from howdah.control.messages import Share
from howdah.control.orders import Asked
from howdah.control.policy import Flow
from howdah.control.running import keys
from howdah.control.running.controller import RunningController
from howdah.control.running.sightings import Sighting
from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status

_S = 1_000_000_000


def picture(controller: RunningController) -> Status:
    """All of it, now."""
    now_ns, policy, core = controller.clock_ns(), controller.policy, controller.core
    leads = core.leads(now_ns)
    bounds = [peer.account.bound_bps(now_ns) for peer in core.peers.values()]
    other = _other(controller)
    return Status(
        unix_s=time.time(),
        policy=policy.name,
        guarantee_bps=policy.guarantee_bps,
        trusted_bps=policy.trusted_bps,
        free_bps=max(0, policy.trusted_bps - sum(bounds)) if leads else None,
        controller=controller.name,
        leader=controller.name if leads else other.controller if other else None,
        epoch=core.epoch if leads else other.epoch if other else None,
        revision=controller.revision,
        settled=core.settled(now_ns) is not None,
        askable=[each.name for each in policy.classes if each.asked],
        asked=[_asked(key, value) for key, value in sorted(controller.asked.items())],
        changed=controller.orders.changed,
        hosts=_hosts(controller, now_ns),
        flows=[
            _flow(controller, each.name, flow, leads, now_ns)
            for each in policy.classes
            for flow in each.flows
        ],
    )


def _other(controller: RunningController) -> keys.Leading | None:
    """Who said last that it leads, unless that was this one."""
    leading = controller.leading
    return leading if leading and leading.controller != controller.name else None


def _asked(key: str, value: Asked) -> AskedStatus:
    name, _, who = key.removeprefix(keys.ASKED).partition("/")
    return AskedStatus(traffic_class=name, who=who, until_unix_s=value.until_unix_s, host=value.host)


def _hosts(controller: RunningController, now_ns: int) -> list[HostStatus]:
    drained = controller.orders.drained
    seen = controller.sightings
    return [
        _host(name, seen.get(name), name in drained, now_ns)
        for name in sorted({*controller.targets.minimums_bps, *seen})
    ]


def _host(name: str, seen: Sighting | None, drained: bool, now_ns: int) -> HostStatus:
    if seen is None or seen.report is None:
        return HostStatus(name=name, heard_s=None, lease_left_s=None, drained=drained)
    return HostStatus(
        name=name,
        heard_s=(now_ns - seen.heard_ns) / _S,
        lease_left_s=seen.left_ns(now_ns) / _S,
        drained=drained,
    )


def _flow(controller: RunningController, name: str, flow: Flow, leads: bool, now_ns: int) -> FlowStatus:
    host = flow.member.agent
    seen = controller.sightings.get(host)
    rates = seen.rates(flow.id) if seen else None
    measured = seen.report.measured.get(flow.id) if seen and seen.report else None
    return FlowStatus(
        flow=flow.id,
        traffic_class=name,
        host=host,
        to=flow.member.to,
        ports=flow.member.ports,
        cgroup=flow.member.cgroup,
        share_bps=seen.share_bps(flow.id, now_ns) if seen else None,
        target_bps=_target(controller, host, flow.id).rate_bps if leads else None,
        minimum_bps=controller.targets.minimums_bps[host][flow.id],
        sent_bps=rates.sent_bps if rates else None,
        acked_bps=rates.acked_bps if rates else None,
        connections=measured.connections if measured else None,
        idle=bool(seen and seen.report and flow.id in seen.report.idle),
    )


def _target(controller: RunningController, host: str, flow: str) -> Share:
    return controller.core.peers[host].target[flow]
