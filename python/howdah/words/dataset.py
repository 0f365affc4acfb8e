"""A data set on the terminal: what it has, and a line for each run with the time left."""

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from howdah._native import format_bytes, format_duration, format_rate
from howdah.dataset.plan import DatasetPlan, Run
from howdah.dataset.recorder import SilentDisplay
from howdah.dataset.run import RunMade
from howdah.recognition.recording import BURSTS, label
from howdah.text import count


class Lines(SilentDisplay):
    """A line for each run on standard error."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._runs = self._made = 0
        self._total = self._left = 0.0
        """All work and the work left, in seconds of a processor."""
        self._begun_s = 0.0

    def begins(self, plan: DatasetPlan, todo: list[Run], cores: float) -> None:
        """Writes how much is left, and how long it takes."""
        self._runs, self._begun_s = len(todo), self._now_s()
        if not todo:
            return
        self._total = self._left = sum(map(work, todo))
        lasts_s = total_s(todo, cores)
        until = datetime.now().astimezone() + timedelta(seconds=lasts_s)
        _say(
            f"data set {plan.name}: {count(len(todo), 'recording')} left, about "
            f"{format_duration(round(lasts_s))}, until {until:%H:%M}"
        )

    def made(self, run: Run, made: RunMade, *, again: bool) -> None:
        """Writes the run, and the time left by what the runs so far took."""
        sent = BURSTS if run.bursts else label(run.ours)
        ours = f" beside {sent} of ours" if run.ours or run.bursts else ""
        what = f"{run.path.name}, {label(run.background)}{ours}, run {run.file.split('.')[-2]}"
        if made.spoilt is None or not again:
            self._made += 1
            self._left -= work(run)
        became = "recorded" if made.spoilt is None else f"spoilt: {made.spoilt}"
        after = "" if made.spoilt is None else "; made again" if again else "; left out"
        done = self._total - self._left
        spent_s = self._now_s() - self._begun_s
        left_s = max(1, round(self._left * spent_s / done)) if done > 0 else None
        left = "" if left_s is None or self._made == self._runs else f" · {format_duration(left_s)} left"
        _say(f"[{self._made}/{self._runs}] {what}: {became}{after}{left}")


def work(run: Run) -> float:
    """The seconds of a processor that a run takes, about."""
    return run.cores * run.lasts_s


def total_s(todo: list[Run], cores: float) -> float:
    """The seconds that runs take together, about."""
    return max(sum(map(work, todo)) / cores, max((run.lasts_s for run in todo), default=0.0))


def table(plan: DatasetPlan, todo: list[Run], cores: float) -> str:
    """A table of what would be recorded: each path, the classes, and the time."""
    lines = []
    for path in plan.paths:
        queue = path.link.near_to_far.queue_bytes
        room = "one BDP" if queue is None else format_bytes(queue)
        here = [run for run in todo if run.path == path]
        lines.append(
            f"{path.name}: {format_rate(path.rate_bps)}, {path.rtt_s * 1e3:g} ms, queue {room}; "
            f"{count(path.runs, 'run')} of each class, {path.beside_ours} beside ours; {len(here)} left"
        )
    lines.append("classes: " + "; ".join(map(label, plan.classes)))
    beside = [label(each) for each in plan.ours if each]
    if beside:
        lines.append("beside streams of ours: " + "; ".join(beside))
    took = format_duration(round(total_s(todo, cores)))
    lines.append(
        f"{count(len(todo), 'recording')} of {format_duration(round(plan.length_s))} left, about {took} "
        f"on {cores:g} processors"
    )
    return "\n".join(lines)


def summary(plan: str, folder: str, *, made: int, spoilt: int, runs_left: int) -> str:
    """What was recorded, and whether the data set is whole."""
    said = f"{count(made, 'recording')} made in {folder}"
    said += f", {count(spoilt, 'run')} spoilt by this machine" if spoilt else ""
    if runs_left:
        return f"{said}; {runs_left:,} left: the same command goes on with {plan}"
    return f"{said}; the data set {plan} is complete"


def _say(line: str) -> None:
    print(f"howdah: {line}", file=sys.stderr, flush=True)
