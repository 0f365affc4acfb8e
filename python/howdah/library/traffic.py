"""Background traffic: ``howdah.send_traffic``, and its two halves, of which the command is made."""

from collections.abc import Callable, Sequence
from pathlib import Path

from howdah import HowdahError
from howdah.archive import Archive
from howdah.arguments import check_within, typed
from howdah.bounds import TRAFFIC_S
from howdah.library.ended import Name, record_of
from howdah.remote.endpoints import bare
from howdah.traffic.account import LoadSample
from howdah.traffic.pattern import load_pattern
from howdah.traffic.run import TrafficDisplay, TrafficRequest, run
from howdah.values.record import Record, printable_command

__all__ = ["TrafficDisplay", "TrafficRequest", "carry_out", "send_traffic", "traffic_request"]


@typed
def send_traffic(
    pattern: Name,
    host: str,
    *,
    for_s: float | None = None,
    on_progress: Callable[[float, dict[str, LoadSample]], None] | None = None,
    far_howdah: str | None = None,
    archive: Archive | None = None,
) -> Record:
    """Sends background traffic to a host as ``howdah traffic`` does; ``record.traffic`` says what arrived.

    Args:
        pattern: the TOML file with the loads.
        host: as ssh knows it; it needs howdah installed.
        for_s: seconds, 0.1 to 86,400, in place of the pattern's.
        on_progress: called often with the seconds so far and the last sample of each load, by name; what it
            raises ends the traffic.
        far_howdah: the program at the far host where it is not in its PATH.
        archive: where the record is kept; by default the user's.

    Raises:
        HowdahError: for a pattern or a host that cannot be, and when a load fails. Then ``error.record`` is
            the record of what was sent until then.
    """
    request = traffic_request(pattern, host, ["howdah.send_traffic"], for_s=for_s, far_howdah=far_howdah)
    return carry_out(request, _Progress(on_progress), archive)


def traffic_request(
    pattern: Name,
    host: str,
    command: Sequence[str],
    *,
    for_s: float | None = None,
    far_howdah: str | None = None,
) -> TrafficRequest:
    """What ``send_traffic`` is asked for, checked; ``command`` is for the record. Raises HowdahError."""
    check_within("for_s", for_s, TRAFFIC_S, mend="leave it out for the pattern's")
    loads = load_pattern(Path(pattern), for_s)
    # An IPv6 address may end with colons of its own.
    name = bare(host.removesuffix(":") if host.count(":") == 1 else host)
    if not name or name.startswith("-") or any(mark in name for mark in " /[]"):
        raise HowdahError(f"{host!r} is not a host; write: howdah traffic PATTERN.toml HOST")
    return TrafficRequest(printable_command(command), loads, name, far_howdah)


def carry_out(request: TrafficRequest, display: TrafficDisplay, archive: Archive | None = None) -> Record:
    """Sends the traffic, shown by ``display``; returns and raises as ``send_traffic`` does.

    A signal whose handler ``howdah.interrupt`` was told to install raises Interrupted, with the record.
    """
    done = run(request, display, archive or Archive())
    return record_of(done.record, done.record.error, done.archive_error, done.stopped)


class _Progress(TrafficDisplay):
    """A display that hands progress to the caller."""

    def __init__(self, on_progress: Callable[[float, dict[str, LoadSample]], None] | None) -> None:
        self._on_progress = on_progress

    def progress(self, now_s: float, samples: dict[str, LoadSample]) -> None:
        if self._on_progress is not None:
            self._on_progress(now_s, samples)
