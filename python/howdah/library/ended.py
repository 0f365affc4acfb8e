"""How a run that was called for ends: with its record, or with an error that carries it."""

import os
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from howdah import HowdahError, interrupt
from howdah.values.record import Record

DoneT = TypeVar("DoneT")

Name = str | os.PathLike[str]
"""The name of a file. Where it may be remote, a text is ``[user@]host:path``, and a path object is local."""


def record_of(record: Record, error: str | None, unkept: str | None, stopped: BaseException | None) -> Record:
    """The record, or whatever ended the run, with the record where it can carry one.

    That the record could not be kept is a note of another error, or else the error.
    """
    problem = stopped
    if problem is None:
        if error is None and unkept is None:
            return record
        problem = HowdahError(error or unkept)
    if isinstance(problem, HowdahError | interrupt.Interrupted):
        problem.record = record
    if unkept is not None and str(problem) != unkept:
        problem.add_note(unkept)
    raise problem


def unless_stopped(done: DoneT, exit_code: int) -> DoneT:
    """What was done, or Interrupted with it where a signal ended the work with this exit code."""
    if not exit_code:
        return done
    stopped = interrupt.Interrupted(exit_code - 128)
    stopped.record = done
    raise stopped


def log(text: str) -> None:
    """Writes lines of ssh or the far end to the logger ``howdah``."""
    if text:
        # Seldom needed, and it takes a while to load.
        import logging  # noqa: PLC0415

        logging.getLogger("howdah").info("%s", text.rstrip())


class Ended(NamedTuple, Generic[DoneT]):
    """A run that began, however it ended."""

    record: DoneT
    """The record, or the account of what was made."""
    problems: list[str]
    """A line each: what ended the run, and why its record could not be kept."""
    exit_code: int


def ended(run: Callable[[], DoneT]) -> Ended[DoneT]:
    """Makes a run. Raises what ``run`` raises without a record, since then nothing had begun."""
    try:
        return Ended(run(), [], 0)
    except (HowdahError, interrupt.Interrupted) as problem:
        record: Any = problem.record
        if record is None:
            raise
        code = 128 + problem.number if isinstance(problem, interrupt.Interrupted) else 1
        return Ended(record, [str(problem), *getattr(problem, "__notes__", [])], code)
