"""``howdah sweep`` from its arguments to its exit code."""

import sys

import msgspec

from howdah import document, interrupt
from howdah.cli.ended import ended
from howdah.library.sweep import SweepDisplay, carry_out, remaining, sweep_plan, total_s
from howdah.words.sweep import SweepLines, summary, table


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--dry-run --json`` prints."""

    sweep: str
    cells: dict[str, int]
    """How often each is measured."""
    runs_left: int
    left_s: float


def sweep_path(
    *,
    what: str,
    lasting: float | None,
    dry_run: bool,
    beside_others: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Measures and returns the exit code. Raises HowdahError when it cannot begin or go on."""
    interrupt.install()
    plan = sweep_plan(what, for_s=lasting, far_howdah=far_howdah)
    if dry_run:
        todo = remaining(plan)
        cells = {str(cell): repeats for cell, repeats in plan.repeats().items()}
        runs_left = sum(len(runs) for _, runs in todo)
        if json:
            left_s = total_s(todo, plan)
            document.show(Planned(sweep=plan.id, cells=cells, runs_left=runs_left, left_s=left_s))
        else:
            print(table(plan, todo))
        return 0
    show = SweepDisplay() if quiet or json else SweepLines(plan)
    done = ended(lambda: carry_out(plan, show, sys.argv, beside_others=beside_others))
    if json:
        document.show(done.record)
    elif not quiet:
        made = done.record
        print(summary(made.sweep, len(made.records), made.late, made.runs_left))
    return done.exit_code
