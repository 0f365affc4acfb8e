"""Congestion controls of this host's kernel: loaded, given to connections, taken away."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from howdah import HowdahError, _native
from howdah.archive import Archive
from howdah.arguments import BadArgument, Refusing
from howdah.cc import choose, programs, resume
from howdah.cc.programs import Attaching, Loading, Targeted, controls, status, unload
from howdah.cc.resume import Destination, Memory, Saved
from howdah.cc.shares import ALL_PORTS, Place
from howdah.values.memory import LIFETIME_S, PathMemory
from howdah.values.record import HostLimits, lab_link

__all__ = [
    "attach",
    "controls",
    "detach",
    "forget",
    "load",
    "remember",
    "remember_paths",
    "set_target",
    "status",
    "unload",
]


def load(name: str, parameters: Mapping[str, str] | None = None) -> Loading:
    """Loads a program of howdah so that it outlives this process, or swaps it in place.

    ``parameters`` are as ``howdah cc list`` prints them, with their units. Raises HowdahError for a name or a
    parameter that there is not, without root, and where the kernel refuses; what it said is a note then.
    """
    settings = list((parameters or {}).items())
    with Refusing():
        _native.cc_check_settings(name, settings)
    return programs.load(name, settings)


def remember_paths(archive: Archive | None = None) -> dict[str, Memory]:
    """Tells the loaded ``resume`` what the archive remembers of each path; what it knows then, by path.

    It is for all programs, and counts anew. Raises HowdahError without root, and where ``resume`` is not
    loaded.
    """
    # Only this call needs the archive's database.
    from howdah.library.archive import paths  # noqa: PLC0415

    found = destinations(paths(archive), HostLimits.here().congestion_control_default)
    return {path: resume.remember(*told) for path, told in found.items()}


def destinations(memories: Iterable[PathMemory], then: str) -> dict[str, tuple[Destination, Saved]]:
    """Those that this host sends to and whose memory may be used, until it is too old; by path.

    Connections of other programs are not a copy's streams: the first one to a destination sends what all of
    them may send at once, and others begin as ever for a while (``hd_resume``). ``then`` is the congestion
    control that goes on. A host without an address that is known, or can be looked up, is left out. In a lab
    only its own path counts, in its own namespace: labs have the same addresses.
    """
    from howdah.archive.paths import named  # noqa: PLC0415

    link = lab_link()
    here = None if link is None else named("", None, link)
    namespace = None if link is None else Path("/proc/self/ns/net").stat().st_ino
    found = {}
    for memory in memories:
        mine = memory.path == here if link is not None else not memory.path.startswith("lab ")
        if memory.direction != "push" or not mine or memory.why_not() is not None:
            continue
        address = memory.address or _address(memory.path)
        if address is None or not memory.capacity_bytes:
            continue
        saved = Saved(
            capacity_bytes=memory.capacity_bytes,
            rtt_s=memory.rtt_s,
            valid_s=LIFETIME_S - memory.age_s,
            then=then,
        )
        found[memory.path] = Destination(address, namespace=namespace), saved
    return found


def set_target(
    name: str = "hold",
    *,
    rate_bps: int | None = None,
    window_packets: int | None = None,
    none: bool = False,
    flow: str | None = None,
) -> Targeted:
    """Sets what ``hold`` holds: a rate in bits per second, a window in packets, or ``none``.

    ``flow`` is one connection, as LOCAL,REMOTE; None: all without a target of their own. Raises HowdahError
    where not exactly one of the three is given, and for a control that holds nothing.
    """
    if name.removeprefix("hd_") != "hold":
        raise BadArgument(
            f"{name} has no setting to change while it runs; set parameters with: howdah cc load {name} --set"
        )
    if [rate_bps is not None, window_packets is not None, none].count(True) != 1:
        raise BadArgument("give what to hold: one of {rate_bps}, {window_packets} and {none}")
    with Refusing():
        _native.cc_check_target(rate_bps, window_packets, flow)
    return programs.set_target(rate_bps, window_packets, flow)


def remember(
    to: str,
    *,
    rate_bps: int,
    rtt_s: float,
    port: int | None = None,
    namespace: int | None = None,
    streams: int = 1,
    jump_part: float | None = None,
    valid_s: float = 3600.0,
    then: str = "cubic",
) -> Memory:
    """Begins new connections under ``resume`` with what the path carried before (RFC 9959).

    Args:
        to: the address of the far end, or a prefix, as 10.9.0.0/16.
        rate_bps: of payload, of all streams together.
        rtt_s: of the path without a queue, seconds.
        port: of either end; None: all.
        namespace: the inode of the only network namespace it is for.
        streams: how many share the jump.
        jump_part: how much they jump to, 0.001 to 1; None: as the parameter of the program says, a half.
        valid_s: how long this is believed, seconds.
        then: the congestion control that goes on.

    Raises:
        HowdahError: for what cannot be, where ``resume`` is not loaded, and without root.
    """
    destination = _destination(to, port, namespace)
    saved = Saved(
        capacity_bytes=round(rate_bps * rtt_s / 8),
        rtt_s=rtt_s,
        streams=streams,
        jump_part=jump_part,
        valid_s=valid_s,
        then=choose(then, HostLimits.here().congestion_controls_available).control,
    )
    with Refusing():
        saved.check()
    return resume.remember(destination, saved)


def forget(to: str, *, port: int | None = None, namespace: int | None = None) -> Memory:
    """Ends what ``remember`` of the same destination began. Raises HowdahError where nothing is known."""
    return resume.forget(_destination(to, port, namespace))


def attach(
    control: str,
    *,
    to: str | None = None,
    ports: str | None = None,
    cgroup: str | None = None,
    namespace: int | None = None,
    rate_bps: int | None = None,
    window_packets: int | None = None,
) -> Attaching:
    """Gives connections a control, those there are and those to come.

    Args:
        control: as Linux or howdah names it.
        to: the prefix that they go to, as 10.9.0.0/16.
        ports: of either end, as 5000-5100; None: all.
        cgroup: the path of the only one it is for, with those below it.
        namespace: the inode of the only network namespace it is for.
        rate_bps: what ``hold`` holds there, bits per second.
        window_packets: the same as a window.

    Raises:
        HowdahError: for a place that cannot be, a control that is not available, and without root.
    """
    place = _place(to, ports, cgroup, namespace)
    chosen = choose(control, HostLimits.here().congestion_controls_available).control
    return programs.attach(place, chosen, rate_bps, window_packets)


def detach(
    *,
    to: str | None = None,
    ports: str | None = None,
    cgroup: str | None = None,
    namespace: int | None = None,
) -> Attaching:
    """Ends what ``attach`` of the same place began. Raises HowdahError where there is no such rule."""
    return programs.detach(_place(to, ports, cgroup, namespace))


def _place(to: str | None, ports: str | None, cgroup: str | None, namespace: int | None) -> Place:
    place = Place(to, ports or ALL_PORTS, namespace, cgroup)
    with Refusing():
        place.check()
    return place


def _destination(to: str, port: int | None, namespace: int | None) -> Destination:
    _place(to, None if port is None else str(port), None, namespace)
    return Destination(to, port, namespace)


def _address(host: str) -> str | None:
    from howdah.probing.far_end import resolved  # noqa: PLC0415

    try:
        return resolved(host, host)[0]
    except HowdahError:
        return None
