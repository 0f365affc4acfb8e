"""Running copies of this user on this host: which there are, and their limits and pauses.

>>> from howdah.library import jobs
>>> for each in jobs.running().standing:
...     print(each.job, each.state, each.bytes_done)
"""

from howdah.arguments import typed
from howdah.transfer.jobs import Ask, Found, ask, named, running
from howdah.transfer.standing import Standing
from howdah.values.limit import Limits

__all__ = ["Found", "Standing", "limit", "pause", "resume", "running"]


@typed
def limit(job: str, limits: str) -> Standing:
    """Has other limits count for a copy soon, written as ``--limit`` takes them; how it stands.

    Raises HowdahError for what is no limit, and where no copy of that name answers.
    """
    Limits.parse(limits, "the limit")
    return ask(named(job), Ask(do="limit", limit=limits))


@typed
def pause(job: str) -> Standing:
    """Has a copy send nothing until it is resumed; its session stays. Raises HowdahError as ``limit``."""
    return ask(named(job), Ask(do="pause"))


@typed
def resume(job: str) -> Standing:
    """Has a paused copy go on. Raises HowdahError as ``limit`` does."""
    return ask(named(job), Ask(do="continue"))
