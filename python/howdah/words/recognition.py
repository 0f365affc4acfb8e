"""Who is on a path, and how good a classifier is, for people."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from howdah.recognition.model import Recognition
from howdah.recognition.training import Scores, Training, record_file
from howdah.text import count

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
