"""Sweeps: ``howdah.sweep``, and its parts, of which the command is made."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from howdah.archive import Archive
from howdah.arguments import BadArgument, check_above_0, typed
from howdah.library.ended import Name, unless_stopped
from howdah.measure import schedule
from howdah.measure import sweep as measured
from howdah.measure.plan import SweepPlan, load_plan
from howdah.measure.runs import RunMeasured
from howdah.measure.schedule import total_s
from howdah.measure.sweep import SweepDisplay, Todo, refusal
from howdah.values.record import printable_command

__all__ = [
    "SweepDisplay",
    "SweepDone",
    "SweepPlan",
    "carry_out",
    "refusal",
    "remaining",
    "sweep",
    "sweep_plan",
    "total_s",
]


class SweepDone(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep has measured, and what is left of it."""

    sweep: str
    records: list[str]
    """The records of the runs made now, by id."""
    late: int
    """How many of them the lab was late for."""
    runs_left: int


@typed
def sweep(
    what: Name | SweepPlan,
    *,
    for_s: float | None = None,
    beside_others: bool = False,
    on_measured: Callable[[RunMeasured], None] | None = None,
    far_howdah: str | None = None,
) -> SweepDone:
    """Measures the configurations of a path as ``howdah sweep`` does: what the user's archive lacks of them.

    The same call again goes on where one was stopped.

    Args:
        what: a host, the plan in a file whose name ends in .toml, or a plan.
        for_s: seconds that there are for a host; by default 5 s a run.
        beside_others: measures although another howdah measures or copies on this host.
        on_measured: called after each run, in the thread of this call; what it raises ends the sweep.
        far_howdah: the program at the far host where it is not in its PATH.

    Raises:
        HowdahError: where it cannot begin or go on. The runs made so far are kept.
    """
    plan = what if isinstance(what, SweepPlan) else sweep_plan(what, for_s=for_s, far_howdah=far_howdah)
    return carry_out(
        plan, _Progress(on_measured), ["howdah.sweep", str(plan.id)], beside_others=beside_others
    )


def sweep_plan(what: Name, *, for_s: float | None = None, far_howdah: str | None = None) -> SweepPlan:
    """The plan of ``sweep``: read from a file, or made for a host, which is asked over ssh for its limits.

    Raises HowdahError for a plan that cannot be, a host that does not answer, and too short a time.
    """
    check_above_0("for_s", for_s)
    if str(what).endswith(".toml"):
        if for_s is not None:
            raise BadArgument(
                "{for_s} is only for a host; in a plan, set repeats, and time or size", for_s=for_s
            )
        plan = load_plan(Path(what))
        return msgspec.structs.replace(plan, far_howdah=far_howdah or plan.far_howdah)
    return schedule.plan(str(what), far_howdah, for_s)


def remaining(plan: SweepPlan) -> Todo:
    """The runs of a plan that the user's archive lacks, in the order in which they are made."""
    return list(schedule.remaining(plan, schedule.finished_in(Archive(), plan)))


def carry_out(
    plan: SweepPlan, display: SweepDisplay, command: Sequence[str], *, beside_others: bool
) -> SweepDone:
    """Measures what remains, shown by ``display``; ``command`` is for the records. Raises as ``sweep`` does.

    A signal whose handler ``howdah.interrupt`` was told to install raises Interrupted, with a SweepDone.
    """
    made = measured.sweep(plan, display, command=printable_command(command), beside_others=beside_others)
    left = sum(len(runs) for _, runs in remaining(plan))
    done = SweepDone(sweep=plan.id, records=made.records, late=made.late, runs_left=left)
    return unless_stopped(done, made.exit_code)


class _Progress(SweepDisplay):
    """A display that hands each run to the caller."""

    def __init__(self, on_measured: Callable[[RunMeasured], None] | None) -> None:
        self._on_measured = on_measured

    def measured(self, one: RunMeasured) -> None:
        if self._on_measured is not None:
            self._on_measured(one)
