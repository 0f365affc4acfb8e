"""How a run that was called for ends: with its record, or with an error that carries it."""

import os
from typing import TypeVar

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
