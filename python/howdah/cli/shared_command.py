"""``howdah shared`` from the arguments of its commands to what they print."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from howdah import document, interrupt
from howdah.library import dataset as datasets
from howdah.library import recognition
from howdah.library.ended import ended
from howdah.text import count
from howdah.words.shared import Lines, compared, heard, summary, table, total_s, trained
from howdah.words.terminal import print_parts


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What ``keep --json`` prints."""

    file: str
    run: str
    path: str
    background: str | None


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What ``dataset --dry-run --json`` prints."""

    plan: str
    runs: int
    runs_left: int
    left_s: float


def keep(*, name: str, others: str | None, output: Path, json: bool) -> None:
    """Writes the series of a probe in the archive as a recording. Raises HowdahError."""
    made = recognition.keep(name, output, others=others)
    if json:
        document.show(Kept(file=str(output), run=made.run, path=made.path, background=made.label))
    else:
        print(f"{output}: {made.run} to {made.path}, {made.label or 'competing traffic not known'}")


def make(*, output: Path, json: bool, quiet: bool, **how: Any) -> None:  # noqa: ANN401, those of ``train``
    """Trains a model and keeps it with its training record. Raises HowdahError."""
    interrupt.install()
    made = recognition.train(model=output, on_step=_tick(quiet or json), **how)
    if json:
        document.show(made)
    elif not quiet:
        print("\n".join(trained(made, output)))


def compare(*, json: bool, quiet: bool, **how: Any) -> None:  # noqa: ANN401, those of the library's
    """Prints how good classifiers are, trained and tested on the same recordings. Raises HowdahError."""
    interrupt.install()
    found = recognition.compare(on_step=_tick(quiet or json), **how)
    if json:
        document.show(found.classifiers)
        return
    windows = f"{count(found.windows, 'window')} of {found.window_s:g} s"
    print(f"{windows}, accuracy (is there BBR; calibration error)")
    scores = compared({each.classifier: each.scores for each in found.classifiers})
    print_parts(scores)


def recognise(*, recordings: list[Path], model: Path | None, json: bool) -> None:
    """Prints who is there in recordings, window by window. Raises HowdahError."""
    found = recognition.recognise(recordings, model=model)
    if json:
        document.show(found)
        return
    for one in map(document.strange, found):
        known = "" if one.background is None else f", recorded as {one.background}"
        print(f"{one.file}: run {one.run} on {one.path}{known}")
        for line in heard(one.heard):
            print(line)


def dataset(*, plan: Path, output: Path, cores: float | None, dry_run: bool, json: bool, quiet: bool) -> int:
    """Records what the folder has not yet, and returns the exit code. Raises HowdahError."""
    interrupt.install()
    request = datasets.dataset_request(plan, output, cores=cores)
    wanted, _, carried, todo = request
    if dry_run:
        if json:
            left_s = total_s(todo, carried)
            document.show(
                Planned(plan=wanted.name, runs=len(wanted.runs()), runs_left=len(todo), left_s=left_s)
            )
        else:
            print(table(wanted, todo, carried))
        return 0
    done = ended(lambda: datasets.carry_out(request, datasets.SilentDisplay() if json or quiet else Lines()))
    made = done.record
    if json:
        document.show(made)
    elif not quiet:
        recorded = len(made.recorded)
        print(summary(made.plan, made.folder, made=recorded, spoilt=made.spoilt, runs_left=made.runs_left))
    return done.exit_code


def _tick(quiet: bool) -> Callable[[str], None]:
    def say(what: str) -> None:
        print(f"howdah: {what}", file=sys.stderr, flush=True)

    return (lambda what: None) if quiet else say
