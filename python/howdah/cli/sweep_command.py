"""``howdah sweep`` from its arguments to its exit code."""

import sys
from pathlib import Path
from typing import NamedTuple

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


class Asked(NamedTuple):
    """The command line."""

    what: str
    lasting: str | None
    far_howdah: str | None
    dry_run: bool
    beside_others: bool
    json: bool
    quiet: bool


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


def run(asked: Asked) -> int:
    """Measures and returns the exit code. Raises HowdahError when it cannot begin or go on."""
    interrupt.install()
    plan = _plan(asked)
    if asked.dry_run:
        _would(plan, asked)
        return 0
    show = SweepDisplay() if asked.quiet or asked.json else SweepLines(plan)
    command = printable_command(sys.argv)
    result = sweep(plan, show, command=command, beside_others=asked.beside_others)
    runs_left = sum(len(runs) for _, runs in schedule.remaining(plan, schedule.finished_in(Archive(), plan)))
    if asked.json:
        document.show(Done(sweep=plan.id, records=result.records, late=result.late, runs_left=runs_left))
    elif not asked.quiet:
        print(_summary(plan, result, runs_left))
    return result.exit_code


def _plan(asked: Asked) -> SweepPlan:
    if asked.what.endswith(".toml"):
        if asked.lasting is not None:
            raise HowdahError("--for is for a host; a plan says how long by its repeats, and time or size")
        plan = load_plan(Path(asked.what))
        return msgspec.structs.replace(plan, far_howdah=asked.far_howdah or plan.far_howdah)
    for_s = None if asked.lasting is None else parse_duration(asked.lasting) / 1e9
    return default.plan(asked.what, asked.far_howdah, for_s)


def _would(plan: SweepPlan, asked: Asked) -> None:
    todo = list(schedule.remaining(plan, schedule.finished_in(Archive(), plan)))
    if not asked.json:
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
