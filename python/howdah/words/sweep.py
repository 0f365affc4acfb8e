"""A sweep on the terminal: what it will do, and a line for each run with the time left."""

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from howdah._native import format_duration, format_rate
from howdah.measure.plan import SweepCell, SweepPlan
from howdah.measure.runs import RunMeasured
from howdah.measure.schedule import run_s, total_s
from howdah.measure.sweep import SweepDisplay, Todo
from howdah.text import count, printable


class SweepLines(SweepDisplay):
    """Writes a line for each run on standard error."""

    def __init__(self, plan: SweepPlan, now_s: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._now_s = now_s
        self._runs = self._made = 0
        self._total_s = self._left_s = 0.0
        self._begun_s = 0.0
        self._costs_s: dict[str, float] = {}

    def begins(self, todo: Todo) -> None:
        """Writes what is left, and how long it takes."""
        self._runs = sum(len(runs) for _, runs in todo)
        if not self._runs:
            return
        self._total_s = self._left_s = total_s(todo, self._plan)
        self._begun_s = self._now_s()
        cells = {str(run.cell): run.cell for _, runs in todo for run in runs}
        # The cost of a lab is not known for each run, so all costs are scaled to the same sum.
        alone_s = sum(run_s(run.cell, self._plan) for _, runs in todo for run in runs)
        scale = self._total_s / alone_s if alone_s else 1.0
        self._costs_s = {name: scale * run_s(cell, self._plan) for name, cell in cells.items()}
        until = datetime.now().astimezone() + timedelta(seconds=self._total_s)
        _write(
            f"sweep {self._plan.id}: {count(self._runs, 'run')} left, about "
            f"{format_duration(round(self._total_s))}, until {until:%H:%M}"
        )

    def measured(self, one: RunMeasured) -> None:
        """Writes the run, and the time left by how the time so far compares with what was expected."""
        if not one.attempt:
            self._made += 1
            self._left_s -= self._costs_s[one.cell]
        spent_s, expected_s = self._now_s() - self._begun_s, self._total_s - self._left_s
        left_s = max(0.0, self._left_s) * (spent_s / expected_s if expected_s > 0 else 1.0)
        left = f"{format_duration(max(1, round(left_s)))} left" if self._made < self._runs else "last"
        rate = "-" if one.rate_bps is None else format_rate(one.rate_bps)
        note = " late" if one.late else ""
        again = f" attempt {one.attempt + 1}" if one.attempt else ""
        place = f"[{self._made}/{self._runs}]"
        _write(f"{place} {one.cell}, repeat {one.repeat + 1}{again}: {rate}{note} · {left}")


def summary(sweep: str, made: int, late: int, runs_left: int) -> str:
    """What a sweep has measured, and whether it is whole."""
    said = f"{count(made, 'run')} measured"
    said += f", {late} of them late: this machine limited them, not the link" if late else ""
    if runs_left:
        return f"{said}; {runs_left:,} left: the same command goes on with {sweep}"
    return f"{said}; the sweep {sweep} is complete"


def table(plan: SweepPlan, todo: Todo) -> str:
    """The table of a sweep: each cell with its repeats, the runs left and the time of one."""
    left: dict[SweepCell, int] = {}
    for _, runs in todo:
        for each in runs:
            left[each.cell] = left.get(each.cell, 0) + 1
    rows = [("cell", "repeats", "left", "a run")]
    for cell, repeats in sorted(plan.repeats().items(), key=lambda item: _by_rtt(item[0])):
        rows.append((str(cell), str(repeats), str(left.get(cell, 0)), format_duration(run_s(cell, plan))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    first, *others = widths
    lines = []
    for name, *numbers in rows:
        columns = [text.rjust(width) for text, width in zip(numbers, others, strict=True)]
        lines.append("  ".join([name.ljust(first), *columns]))
    runs_left = sum(left.values())
    took = format_duration(round(total_s(todo, plan)))
    where = f"to {plan.host}" if plan.host else f"in {count(len(todo), 'lab')}"
    return "\n".join([*lines, f"{count(runs_left, 'run')} left {where}, about {took}; sweep {plan.id}"])


def _by_rtt(cell: SweepCell) -> tuple[object, ...]:
    return (cell.rtt_ns or 0, cell.congestion_control, cell.streams, cell.buffer_bytes or 0, str(cell))


def _write(line: str) -> None:
    print(f"howdah: {printable(line)}", file=sys.stderr, flush=True)
