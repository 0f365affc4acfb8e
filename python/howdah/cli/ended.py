"""How a command ends that makes a run: what was made of it, what went wrong, and the exit code."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from howdah import HowdahError
from howdah.interrupt import Interrupted

T = TypeVar("T")


class Ended(NamedTuple, Generic[T]):
    """A run that began, however it ended."""

    record: T
    """The record, or the account of what was made."""
    problems: list[str]
    """A line each: what ended the run, and why its record could not be kept."""
    exit_code: int


def ended(run: Callable[[], T]) -> Ended[T]:
    """Makes a run. Raises what ``run`` raises without a record, since then nothing had begun."""
    try:
        return Ended(run(), [], 0)
    except (HowdahError, Interrupted) as problem:
        record: Any = problem.record
        if record is None:
            raise
        code = 128 + problem.number if isinstance(problem, Interrupted) else 1
        return Ended(record, [str(problem), *getattr(problem, "__notes__", [])], code)
