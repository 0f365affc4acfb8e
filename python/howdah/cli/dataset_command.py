"""``howdah shared dataset`` from its arguments to its exit code."""

import os
from pathlib import Path

import msgspec

from howdah import HowdahError, document, interrupt
from howdah.dataset.plan import DatasetPlan
from howdah.dataset.planfile import load
from howdah.dataset.recorder import DatasetResult, SilentDisplay, left, record
from howdah.text import count
from howdah.words.dataset import Lines, table, total_s


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--dry-run --json`` prints."""

    plan: str
    runs: int
    runs_left: int
    left_s: float


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--json`` prints."""

    plan: str
    folder: str
    recorded: list[str]
    """Files made now."""
    spoilt: int
    """How often the machine was too slow for a run."""
    left_out: list[str]
    """Files that are not there because it was each time."""
    runs_left: int


def dataset(file: Path, folder: Path, cores: float | None, *, dry_run: bool, json: bool, quiet: bool) -> int:
    """Records what the folder has not yet, and returns the exit code. Raises HowdahError."""
    interrupt.install()
    plan = load(file)
    if folder.exists() and not folder.is_dir():
        raise HowdahError(f"{folder} is no folder; give one, or a name that is free")
    carried = _cores(cores)
    todo = left(plan, folder)
    if dry_run:
        if json:
            left_s = total_s(todo, carried)
            document.show(Planned(plan=plan.name, runs=len(plan.runs()), runs_left=len(todo), left_s=left_s))
        else:
            print(table(plan, todo, carried))
        return 0
    result = record(plan, todo, folder, carried, SilentDisplay() if json or quiet else Lines())
    runs_left = len(todo) - len(result.recorded)
    if json:
        document.show(
            Recorded(
                plan=plan.name,
                folder=str(folder),
                recorded=[str(folder / run.file) for run in result.recorded],
                spoilt=result.spoilt,
                left_out=[str(folder / run.file) for run in result.left_out],
                runs_left=runs_left,
            )
        )
    elif not quiet:
        print(_summary(plan, folder, result, runs_left))
    return result.exit_code


def _summary(plan: DatasetPlan, folder: Path, result: DatasetResult, runs_left: int) -> str:
    made = f"{count(len(result.recorded), 'recording')} made in {folder}"
    spoilt = f", {count(result.spoilt, 'run')} spoilt by this machine" if result.spoilt else ""
    if runs_left:
        return f"{made}{spoilt}; {runs_left:,} left: the same command goes on with {plan.name}"
    return f"{made}{spoilt}; the data set {plan.name} is whole"


def _cores(asked: float | None) -> float:
    """Raises HowdahError for what is none."""
    here = float(len(os.sched_getaffinity(0)))
    if asked is None:
        return here
    if not 0 < asked <= here:
        raise HowdahError(f"--cores {asked:g} is not above 0 and at most the {here:g} of this machine")
    return asked
