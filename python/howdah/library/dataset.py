"""Data sets: ``record_dataset``, and its two halves, of which the command is made."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah import HowdahError
from howdah.arguments import BadArgument, typed
from howdah.dataset import recorder
from howdah.dataset.plan import DatasetPlan, Run, load
from howdah.dataset.recorder import SilentDisplay
from howdah.library.ended import Name, unless_stopped

__all__ = ["DatasetDone", "DatasetRequest", "SilentDisplay", "carry_out", "dataset_request", "record_dataset"]


class DatasetRequest(NamedTuple):
    """A data set to record."""

    plan: DatasetPlan
    folder: Path
    cores: float
    """How many processors the labs may take together."""
    todo: list[Run]
    """The runs that the folder does not hold."""


class DatasetDone(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded of a data set, and what is left of it."""

    plan: str
    folder: str
    recorded: list[str]
    """Files made now."""
    spoilt: int
    """How often the machine was too slow for a run."""
    left_out: list[str]
    """Files that are not there because it was each time."""
    runs_left: int


@typed
def record_dataset(plan: Name, folder: Name, *, cores: float | None = None) -> DatasetDone:
    """Records what a folder lacks of a data set, in labs on this machine, as ``howdah shared dataset`` does.

    The same call again goes on where one was stopped. ``plan`` is a TOML file (docs/shared.md), ``cores`` how
    many processors the labs may take together; None: all. Raises HowdahError for a plan that cannot be, a
    folder that holds another plan's recordings, and where it cannot go on; what was recorded stays.
    """
    return carry_out(dataset_request(plan, folder, cores=cores), SilentDisplay())


def dataset_request(plan: Name, folder: Name, *, cores: float | None = None) -> DatasetRequest:
    """What ``record_dataset`` is asked for, checked. Raises HowdahError."""
    wanted, where = load(Path(plan)), Path(folder)
    if where.exists() and not where.is_dir():
        raise HowdahError(f"{where} is not a folder; give a folder, or a new name")
    here = float(len(os.sched_getaffinity(0)))
    if cores is not None and not 0 < cores <= here:
        raise BadArgument(f"{{cores}} is not above 0 and up to the {here:g} of this machine", cores=cores)
    return DatasetRequest(wanted, where, cores or here, recorder.left(wanted, where))


def carry_out(request: DatasetRequest, display: SilentDisplay) -> DatasetDone:
    """Records what is to do, shown by ``display``; raises as ``record_dataset`` does.

    A signal whose handler ``howdah.interrupt`` was told to install raises Interrupted, with a DatasetDone.
    """
    plan, folder, cores, todo = request
    made = recorder.record(plan, todo, folder, cores, display)
    done = DatasetDone(
        plan=plan.name,
        folder=str(folder),
        recorded=[str(folder / run.file) for run in made.recorded],
        spoilt=made.spoilt,
        left_out=[str(folder / run.file) for run in made.left_out],
        runs_left=len(todo) - len(made.recorded),
    )
    return unless_stopped(done, made.exit_code)
