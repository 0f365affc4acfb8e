"""The choice of a configuration at a round trip, from a question and the archive: ``howdah.select``."""

from typing import TYPE_CHECKING

import msgspec

from howdah import interrupt
from howdah.archive import Archive
from howdah.arguments import BadArgument, NotHere, check_above_0, typed
from howdah.remote.endpoints import bare
from howdah.remote.far import greet
from howdah.values.path import Path
from howdah.values.record import HostLimits, lab_link

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
        HowdahError: where neither a round trip nor a host is given, for a quantity of 0, and where no profile
            covers the round trip and the models are not asked.

    >>> best = howdah.select(0.093, capacity_bps=10e9).chosen
    >>> assert best.rate_low_bps <= best.rate_mid_bps <= 10e9
    """
    if rtt_s is None and host is None:
        raise BadArgument("the round trip is missing; give {rtt_s}, or {host} to measure it")
    for name, value in (("rtt_s", rtt_s), ("capacity_bps", capacity_bps), ("size_bytes", size_bytes)):
        check_above_0(name, value)
    # numpy is not loaded by a program that copies. A C extension whose loading is broken off crashes later.
    with interrupt.Held():
        from howdah.decide.dedicated import known_as, obstacle  # noqa: PLC0415
        from howdah.profiles.selection import answer, evidence, prior  # noqa: PLC0415
        from howdah.profiles.selection import select as selected  # noqa: PLC0415

    here = HostLimits.here()
    ends = Path(sender=here, receiver=here, rtt_s=rtt_s, programs_loadable=here.privileged)
    if host is not None:
        host = bare(host)
        far = greet(host, far_howdah)
        ends = msgspec.structs.replace(
            ends,
            receiver=far.limits,
            rtt_s=rtt_s or far.rtt_s,
            host=host.rpartition("@")[2],
            link=lab_link(),
        )
    if ends.rtt_s is None:
        raise NotHere("the round trip to {host} could not be measured; give {rtt_s}", host=host)
    own, seen_bps = known_as(ends)
    runs, wanted = (archive or Archive()).runs(), evidence.TransferTraits(size_bytes=size_bytes)
    if host is not None and path is None:
        found = evidence.runs_for_path(runs, own, ends.rtt_s, wanted)
    else:
        found = evidence.runs_named(runs, path, ends.rtt_s, wanted, extrapolate=extrapolate)
    by_model = extrapolate or not len(evidence.profile(found.runs))
    known_bps = capacity_bps or seen_bps or found.capacity_bps
    models = prior.model_prior(ends, ends.rtt_s, found.runs, known_bps) if by_model else None
    selection = selected(found.runs, ends.rtt_s, models)
    selection.rests_on.extend(found.notes)
    if problem := obstacle(ends, selection.chosen.configuration):
        selection.rests_on.append(f"From this host: {problem}.")
    return answer.selection_report(selection, found.path, found.left_out)
