"""``howdah shared`` for people: a data set and its runs, who is on a path, how good a classifier is."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from rich.table import Table

from howdah._native import format_bytes, format_duration, format_rate
from howdah.dataset.plan import DatasetPlan, Run
from howdah.dataset.recorder import SilentDisplay
from howdah.dataset.run import RunMade
from howdah.recognition.model import Recognition
from howdah.recognition.recording import BURSTS, label
from howdah.recognition.training import Scores, Training, record_file
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


_PROTOCOLS = {"runs": "runs not seen", "paths": "paths not seen", "random": "random folds"}


def heard(found: Sequence[Recognition]) -> Iterator[str]:
    """A line a window: since when, who, and how sure."""
    for each in found:
        when = f"{each.start_s - found[0].start_s:8.1f} s"
        who = f"{each.background} ({each.probability:.2f})"
        if each.new and each.background == "nobody":
            who += ", on a path unlike those in training,"
        elif each.new:
            who = f"unlike anything in training; nearest: {who}"
        yield f"  {when}  {who} after {each.heard_s:g} s; any bbr {each.bbr:.2f}"


def compared(scores: Mapping[str, Sequence[Scores]]) -> Table:
    """The scores of classifiers, by name, a row each."""
    shown = Table(box=None, pad_edge=False)
    for column in ("classifier", *(_PROTOCOLS[each.protocol] for each in next(iter(scores.values())))):
        shown.add_column(column, no_wrap=True)
    for name, found in scores.items():
        shown.add_row(name, *map(_in_short, found))
    return shown


def trained(made: Training, output: Path) -> Iterator[str]:
    """What a model was trained on, and its scores on what it had not seen."""
    used = count(len(made.recordings), "recording")
    windows = f"{count(made.windows, 'window')} of {made.window_s:g} s"
    yield f"{output}: {made.classifier}, {used}, {windows}, {len(made.classes)} classes"
    for scores in made.scores:
        yield f"  {_PROTOCOLS[scores.protocol]}: {_in_short(scores)}"
    stopped = made.stopped
    yield f"  stopping early: {stopped.accuracy:.3f} after {stopped.mean_s:.1f} s on average"
    missed = ", ".join(f"{name} {share:.2f}" for name, share in made.new.found.items())
    yield f"  called new: {made.new.false_alarms:.2f} of what is known; left out of training: {missed}"
    yield f"  the training record is {record_file(output)}"


def _in_short(scores: Scores) -> str:
    bbr = "-" if scores.accuracy_bbr is None else f"{scores.accuracy_bbr:.3f}"
    return f"{scores.accuracy:.3f} ({bbr}; {scores.calibration_error:.3f})"
