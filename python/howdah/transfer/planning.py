"""What is decided before a copy begins: what its path is, its plan, and the job that Rust carries out."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from howdah.archive import Archive
from howdah.remote.messages import FarHello, Job
from howdah.remote.ssh import Login
from howdah.transfer import sources
from howdah.transfer.ends import Greeted
from howdah.transfer.request import Request
from howdah.transfer.resuming import Recollection
from howdah.transfer.service import Service, Underway, service
from howdah.values import record
from howdah.values.path import Path as KnownPath
from howdah.values.plan import Plan
from howdah.values.record import HostLimits

STDIN, STDOUT = 0, 1


def plan_only(request: Request, far: FarHello) -> Plan:
    """The plan that the request would be carried out by, and nothing is done. Raises HowdahError for none.

    What is sent at once of what is remembered is chosen when a copy begins, and is no part of it.
    """
    path = path_of(request, Greeted(far))
    if request.path != "guaranteed":
        memory = Recollection(request, Archive()).of(far.rtt_s, None)
        path = msgspec.structs.replace(path, memory=memory)
    with service(request) as kind:
        return plan_of(request, kind, path)


def plan_of(request: Request, kind: Service, path: KnownPath, handed: Plan | None = None) -> Plan:
    """The plan that was handed in, or that the kind of path makes, with what the request gives."""
    decided = handed or kind.plan(path)
    if not request.encrypt:
        decided = decided.given("encrypt", False, "--plaintext", "Plaintext streams")
    chosen = None
    for choice in request.given:
        if choice.key == "congestion_control":
            chosen = str(choice.value)
        else:
            decided = decided.given(*choice)
    named = chosen is not None or any(change.congestion_control for change in decided.changes)
    if not named and decided.congestion_control in (None, *path.sender.congestion_controls_available):
        return decided
    # Only here: a copy whose control is there already does not load it.
    from howdah.transfer import congestion  # noqa: PLC0415

    route = request.route
    sender = congestion.Sender(path.sender, route.origin if route.direction == "push" else route.host)
    decided = congestion.scheduled(decided, sender, dry_run=request.dry_run)
    if chosen is None:
        return congestion.brought(decided, sender, dry_run=request.dry_run)
    return congestion.given(decided, chosen, sender, dry_run=request.dry_run)


def path_of(request: Request, greeted: Greeted) -> KnownPath:
    """The path of a copy, as far as both ends' kernels know it."""
    (far, origin), route = greeted, request.route
    near = HostLimits.here() if origin is None else origin.limits
    pushed = route.direction == "push"
    ends = (near, far.limits) if pushed else (far.limits, near)
    source = "the far kernel, on the ssh connection" if origin is None else f"{route.origin} to {route.host}"
    return KnownPath(
        sender=ends[0],
        receiver=ends[1],
        rtt_s=far.rtt_s,
        rtt_source="unknown" if far.rtt_s is None else source,
        kind=request.path,
        bytes_total=request.memory_bytes if request.from_memory else sources.size(request.route),
        encrypt=request.encrypt,
        streams=next((int(choice.value) for choice in request.given if choice.key == "streams"), None),
        host=request.route.host.rpartition("@")[2],
        link=record.lab_link(),
        programs_loadable=pushed and origin is None and near.privileged,
    )


def address_of(far: FarHello, logins: Sequence[Login]) -> str | None:
    """The far host's own address on the ssh connection; None where that did not go straight to it."""
    straight = len(logins) == 1 and logins[0].data_address is not None
    return far.addresses[0] if far.addresses and straight else None


def job_of(
    request: Request,
    underway: Underway,
    digests: Path | None,
    detour_port: int | None,
    near_ports: tuple[int, int] | None,
) -> Job:
    """The job of one session, for both ends."""
    route = request.route
    return Job(
        direction=route.direction,
        sources=route.sources,
        destination=route.destination,
        destination_is_folder=route.destination_is_folder,
        filters=list(request.filters),
        walk=request.walk,
        skip=request.skip,
        delete=request.delete is not None,
        delete_excluded=request.delete is not None and request.delete.excluded,
        max_delete=request.delete.most if request.delete else None,
        keep=request.keep,
        names=request.names.path if request.names else None,
        names_nul_separated=request.names is not None and request.names.nul_separated,
        memory_bytes=request.memory_bytes,
        memory_s=request.memory_s,
        pipe=None if not route.pipe else STDIN if route.direction == "push" else STDOUT,
        dry_run=request.dry_run,
        encrypt=underway.plan.encrypt,
        sync=request.sync,
        data_address=underway.data_address,
        detour_port=detour_port,
        near_ports=near_ports,
        digests=os.fsencode(digests) if digests else None,
        sample_every_s=request.sample_every_s,
        patience_s=request.patience_s,
    )
