"""Probings: ``howdah.probe``, and the half of it that the command shows."""

from collections.abc import Callable
from pathlib import Path

from howdah import interrupt
from howdah.archive import Archive
from howdah.arguments import typed
from howdah.library.ended import Name, log, record_of
from howdah.measure.probe import ProbeDisplay, ProbeRequest, run
from howdah.probing.prober import ProbeUpdate
from howdah.values.record import Record

__all__ = ["ProbeDisplay", "ProbeRequest", "carry_out", "probe"]


@typed
def probe(
    host: str,
    *,
    for_s: float | None = None,
    udp: bool = False,
    active: bool = False,
    bursts: Name | None = None,
    on_progress: Callable[[ProbeUpdate], None] | None = None,
    far_howdah: str | None = None,
    archive: Archive | None = None,
) -> Record:
    """Measures the round trip to a host as ``howdah probe`` does; ``record.probe`` is what it showed.

    By ICMP echo, which needs nothing at the far end, or by UDP over ssh where that is not answered.

    Args:
        host: as ssh knows it, or an address.
        for_s: seconds, 1 to 3,600; by default 10, or as long as the bursts take.
        udp: by UDP and not by ICMP echo.
        active: sends bursts of TCP beside the probes, which tells more and costs as much as it says.
        bursts: a file with a pattern of other bursts.
        on_progress: called every 0.1 s with the probes whose fate is known since the call before; what it
            raises ends the probing, and the record has what was seen until then.
        far_howdah: the program at the far host where it is not in its PATH.
        archive: where the record is kept; by default the user's.

    Raises:
        HowdahError: when nothing answers, or the record could not be kept (then it is ``error.record``).

    >>> seen = howdah.probe("dtn2", for_s=1).probe
    >>> assert 0.02 <= seen.base_rtt_s < 0.04
    """
    request = ProbeRequest(
        host=host,
        for_s=for_s,
        udp=udp,
        far_howdah=far_howdah,
        active=active or bursts is not None,
        bursts=None if bursts is None else Path(bursts),
        command=["howdah.probe", host],
    )
    return carry_out(request, _Progress(on_progress), archive)


def carry_out(request: ProbeRequest, display: ProbeDisplay, archive: Archive | None = None) -> Record:
    """Carries a probing out, shown by ``display``; returns and raises as ``probe`` does.

    What was seen until a signal came is in the record of ``Interrupted``, as for a copy.
    """
    done = run(request, display, archive or Archive())
    stopped = interrupt.Interrupted(done.interrupted) if done.interrupted else done.failed
    return record_of(done.record, None, done.archive_error, stopped)


class _Progress(ProbeDisplay):
    """A display that hands progress to the caller and what is said to the log."""

    def __init__(self, on_progress: Callable[[ProbeUpdate], None] | None) -> None:
        self._on_progress = on_progress

    def far_says(self, text: str) -> None:
        log(text)

    def say(self, line: str) -> None:
        log(line)

    def look(self, taken: ProbeUpdate, for_s: float) -> None:
        if self._on_progress is not None:
            self._on_progress(taken)
