"""The choice of a configuration: ``howdah.select``."""

from typing import TYPE_CHECKING

from howdah import interrupt
from howdah.archive import Archive
from howdah.arguments import typed
from howdah.remote.endpoints import bare

if TYPE_CHECKING:
    from howdah.profiles.selection.answer import SelectionReport


@typed
def select(
    rtt_s: float | None = None,
    host: str | None = None,
    *,
    path: str | None = None,
    size_bytes: int | None = None,
    capacity_bps: float | None = None,
    extrapolate: bool = False,
    far_howdah: str | None = None,
    archive: Archive | None = None,
) -> "SelectionReport":
    """The best configuration at a round trip, how fast and how sure, as ``howdah select`` says it.

    Args:
        rtt_s: the round trip in seconds; by default measured to ``host``.
        host: whose runs to take, as ssh knows it.
        path: whose runs to take in place of the host's: another host, or a lab's link in words.
        size_bytes: of a transfer of this size, where runs are of several.
        capacity_bps: what the models are asked for, bits per second, where there is no profile.
        extrapolate: asks the models outside the profile.
        far_howdah: the program at the far host where it is not in its PATH.
        archive: the runs to choose by; by default the user's.

    Raises:
        HowdahError: where neither a round trip nor a host is given, and where no profile covers the round
            trip and the models are not asked.

    >>> best = howdah.select(0.093, capacity_bps=10e9).chosen
    >>> assert best.rate_low_bps <= best.rate_mid_bps <= 10e9
    """
    # numpy is not loaded by a program that copies. A C extension whose loading is broken off crashes later.
    with interrupt.Held():
        from howdah.decide.ask import ask  # noqa: PLC0415

    return ask(
        rtt_s=rtt_s,
        host=None if host is None else bare(host),
        path=path,
        capacity_bps=capacity_bps,
        size_bytes=size_bytes,
        extrapolate=extrapolate,
        far_howdah=far_howdah,
        archive=archive,
    )
