"""``howdah sweep`` from its arguments to its exit code."""

import sys
from pathlib import Path

import msgspec

from howdah import HowdahError, document, interrupt
from howdah._native import parse_duration
from howdah.archive import Archive
from howdah.measure import default, schedule
from howdah.measure.plan import SweepPlan, load_plan
from howdah.measure.schedule import total_s
from howdah.measure.sweep import SweepDisplay, SweepResult, sweep
from howdah.text import count
from howdah.values.record import printable_command
from howdah.words.sweep import SweepLines, table


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--dry-run --json`` prints."""

    sweep: str
    cells: dict[str, int]
    """How often each is measured."""
    runs_left: int
    left_s: float


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    sweep: str
    records: list[str]
    """Of the runs made now."""
    late: int
    """How many of them the lab was late for."""
    runs_left: int


def sweep_path(
    *,
    what: str,
    lasting: str | None,
    dry_run: bool,
    beside_others: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Measures and returns the exit code. Raises HowdahError when it cannot begin or go on."""
    interrupt.install()
    plan = _plan(what, lasting, far_howdah)
    if dry_run:
        _would(plan, json=json)
        return 0
    show = SweepDisplay() if quiet or json else SweepLines(plan)
    command = printable_command(sys.argv)
    result = sweep(plan, show, command=command, beside_others=beside_others)
    runs_left = sum(len(runs) for _, runs in schedule.remaining(plan, schedule.finished_in(Archive(), plan)))
    if json:
        document.show(Done(sweep=plan.id, records=result.records, late=result.late, runs_left=runs_left))
    elif not quiet:
        print(_summary(plan, result, runs_left))
    return result.exit_code


def _plan(what: str, lasting: str | None, far_howdah: str | None) -> SweepPlan:
    if what.endswith(".toml"):
        if lasting is not None:
            raise HowdahError("--for is for a host; a plan says how long by its repeats, and time or size")
        plan = load_plan(Path(what))
        return msgspec.structs.replace(plan, far_howdah=far_howdah or plan.far_howdah)
    for_s = None if lasting is None else parse_duration(lasting) / 1e9
    return default.plan(what, far_howdah, for_s)


def _would(plan: SweepPlan, *, json: bool) -> None:
    todo = list(schedule.remaining(plan, schedule.finished_in(Archive(), plan)))
    if not json:
        print(table(plan, todo))
        return
    planned = Planned(
        sweep=plan.id,
        cells={str(cell): repeats for cell, repeats in plan.repeats().items()},
        runs_left=sum(len(runs) for _, runs in todo),
        left_s=total_s(todo, plan),
    )
    document.show(planned)


def _summary(plan: SweepPlan, result: SweepResult, runs_left: int) -> str:
    made = f"{count(len(result.records), 'run')} measured"
    late = f", {result.late} of them late: the machine, not the link, made their rates" if result.late else ""
    if runs_left:
        return f"{made}{late}; {runs_left:,} left: the same command goes on with {plan.id}"
    return f"{made}{late}; the sweep {plan.id} is whole"
