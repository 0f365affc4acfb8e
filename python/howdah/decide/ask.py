"""``howdah select``: the configuration to take at a round trip, from a question and the archive."""

from typing import NamedTuple

import msgspec

from howdah.archive import Archive
from howdah.archive.runs import Runs
from howdah.arguments import BadArgument, NotHere, check_above_0
from howdah.decide.dedicated import known_as, obstacle
from howdah.profiles.selection.answer import SelectionReport, selection_report
from howdah.profiles.selection.evidence import PathRuns, TransferTraits, profile, runs_for_path, runs_named
from howdah.profiles.selection.prior import model_prior
from howdah.profiles.selection.select import select
from howdah.remote.far import greet
from howdah.values.path import Path
from howdah.values.record import HostLimits, lab_link


class Question(NamedTuple):
    """One question of a user: at which round trip, on which path, for which transfer."""

    rtt_s: float | None
    """The base RTT in seconds; None: measured to the host."""
    host: str | None = None
    path: str | None = None
    capacity_bps: float | None = None
    """The capacity that the models are asked for; None: that of the lab, else measured, else assumed."""
    size_bytes: int | None = None
    """The size of the transfer; None: of none in particular."""
    extrapolate: bool = False
    far_howdah: str | None = None


def ask(question: Question, archive: Archive | None = None) -> SelectionReport:
    """The answer, from the models where there is no profile, and beyond one where ``extrapolate`` lets them.

    Raises HowdahError for a round trip that no profile covers, without ``extrapolate``, and a quantity of 0.
    """
    if question.rtt_s is None and question.host is None:
        raise BadArgument("the round trip is missing; give {rtt_s}, or {host} to measure it")
    for name in ("rtt_s", "capacity_bps", "size_bytes"):
        check_above_0(name, getattr(question, name))
    here = HostLimits.here()
    ends = Path(sender=here, receiver=here, rtt_s=question.rtt_s, programs_loadable=here.privileged)
    if question.host is not None:
        far = greet(question.host, question.far_howdah)
        ends = msgspec.structs.replace(
            ends,
            receiver=far.limits,
            rtt_s=question.rtt_s or far.rtt_s,
            host=question.host.rpartition("@")[2],
            link=lab_link(),
        )
    if ends.rtt_s is None:
        raise NotHere("the round trip to {host} could not be measured; give {rtt_s}", host=question.host)
    own, capacity_bps = known_as(ends)
    found = _source((archive or Archive()).runs(), question, own, ends.rtt_s)
    by_model = question.extrapolate or not len(profile(found.runs))
    known_bps = question.capacity_bps or capacity_bps or found.capacity_bps
    prior = model_prior(ends, ends.rtt_s, found.runs, known_bps) if by_model else None
    selection = select(found.runs, ends.rtt_s, prior)
    selection.rests_on.extend(found.notes)
    if problem := obstacle(ends, selection.chosen.configuration):
        selection.rests_on.append(f"From this host: {problem}.")
    return selection_report(selection, found.path, found.left_out)


def _source(runs: Runs, question: Question, own: str | None, rtt_s: float) -> PathRuns:
    wanted = TransferTraits(size_bytes=question.size_bytes)
    if question.host is not None and question.path is None:
        return runs_for_path(runs, own, rtt_s, wanted)
    return runs_named(runs, question.path, rtt_s, wanted, extrapolate=question.extrapolate)
