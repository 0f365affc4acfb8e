"""``howdah sweep`` from its arguments to its exit code."""

import sys

import msgspec

from howdah import HowdahError, document, interrupt
from howdah.arguments import BadArgument
from howdah.library.ended import ended
from howdah.library.sweep import SweepDisplay, carry_out, refusal, remaining, sweep_plan, total_s
from howdah.text import printable
from howdah.words.sweep import SweepLines, summary, table


class Planned(msgspec.Struct, frozen=True):
    """What ``--dry-run --json`` prints."""

    sweep: str
    cells: dict[str, int]
    """How often each is measured."""
    runs_left: int
    left_s: float
    refused: str | None
    """Why it would be refused now; null: nothing says so."""


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
        refused = _in_words(refusal(plan, todo, beside_others=beside_others))
        if json:
            left_s = total_s(todo, plan)
            document.show(Planned(plan.id, cells, runs_left, left_s, refused))
            return 0
        print(table(plan, todo))
        if refused is not None:
            print(f"howdah: the sweep would be refused now: {printable(refused)}", file=sys.stderr)
        return 0
    show = SweepDisplay() if quiet or json else SweepLines(plan)
    done = ended(lambda: carry_out(plan, show, sys.argv, beside_others=beside_others))
    if json:
        document.show(done.record)
    elif not quiet:
        made = done.record
        print(summary(made.sweep, len(made.records), made.late, made.runs_left))
    return done.exit_code


def _in_words(refused: HowdahError | None) -> str | None:
    if isinstance(refused, BadArgument):
        return refused.spelt(lambda name, _: f"--{name.replace('_', '-')}")
    return None if refused is None else str(refused)
