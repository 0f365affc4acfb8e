"""``howdah select``: the configuration to take at a round trip, from a question and the archive."""

import msgspec

from howdah.archive import Archive
from howdah.arguments import BadArgument, NotHere, check_above_0
from howdah.decide.dedicated import known_as, obstacle
from howdah.profiles.selection.answer import SelectionReport, selection_report
from howdah.profiles.selection.evidence import TransferTraits, profile, runs_for_path, runs_named
from howdah.profiles.selection.prior import model_prior
from howdah.profiles.selection.select import select
from howdah.remote.far import greet
from howdah.values.path import Path
from howdah.values.record import HostLimits, lab_link


def ask(
    rtt_s: float | None = None,
    host: str | None = None,
    *,
    path: str | None = None,
    capacity_bps: float | None = None,
    size_bytes: int | None = None,
    extrapolate: bool = False,
    far_howdah: str | None = None,
    archive: Archive | None = None,
) -> SelectionReport:
    """The answer, from the models where there is no profile, and beyond one where ``extrapolate`` lets them.

    Raises HowdahError for a round trip that no profile covers, without ``extrapolate``, and a quantity of 0.
    """
    if rtt_s is None and host is None:
        raise BadArgument("the round trip is missing; give {rtt_s}, or {host} to measure it")
    for name, value in (("rtt_s", rtt_s), ("capacity_bps", capacity_bps), ("size_bytes", size_bytes)):
        check_above_0(name, value)
    here = HostLimits.here()
    ends = Path(sender=here, receiver=here, rtt_s=rtt_s, programs_loadable=here.privileged)
    if host is not None:
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
    runs, wanted = (archive or Archive()).runs(), TransferTraits(size_bytes=size_bytes)
    if host is not None and path is None:
        found = runs_for_path(runs, own, ends.rtt_s, wanted)
    else:
        found = runs_named(runs, path, ends.rtt_s, wanted, extrapolate=extrapolate)
    by_model = extrapolate or not len(profile(found.runs))
    known_bps = capacity_bps or seen_bps or found.capacity_bps
    prior = model_prior(ends, ends.rtt_s, found.runs, known_bps) if by_model else None
    selection = select(found.runs, ends.rtt_s, prior)
    selection.rests_on.extend(found.notes)
    if problem := obstacle(ends, selection.chosen.configuration):
        selection.rests_on.append(f"From this host: {problem}.")
    return selection_report(selection, found.path, found.left_out)
