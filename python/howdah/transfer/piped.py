"""A copy of which one end is a pipe: what of a request it cannot carry out, and what an early end leaves.

A broken data connection is the session's own affair (crates/transfer): what it lost is sent again from
memory. What was lost with the far end itself is lost, since no pipe gives its bytes again.
"""

import re

from howdah import HowdahError, streams
from howdah.arguments import BadArgument
from howdah.remote.endpoints import Route
from howdah.remote.messages import Keep, Skip
from howdah.transfer.request import Request

_AGAIN = re.compile(r"(,? (and|then|and then) )?(run )?the same command (again|goes on).*")
"""What an error says to do for files."""


def check(request: Request) -> None:
    """Raises HowdahError for what a request wants of a pipe that only files and folders have."""
    descriptor, name = (0, "input") if request.route.direction == "push" else (1, "output")
    if descriptor in streams.CLOSED:
        raise HowdahError(f"standard {name} is closed, and - stands for it; open it and run the line again")
    of_files = {
        "{dry_run}": request.dry_run,
        "a filter, as {filters},": request.filters,
        "{files_from}": request.names,
        "what is skipped, as by {update},": request.skip != Skip(),
        "{delete}": request.delete,
        "what is kept, as by {keep},": request.keep != Keep(),
    }
    for option, given in of_files.items():
        if given:
            raise BadArgument(f"{option} is for files and folders, and - is a pipe; leave it out")
    if request.route.direction == "pull" and (request.verify or request.manifest is not None):
        option = "{verify}" if request.verify else "{manifest}"
        raise BadArgument(f"{option} reads the target again, which is impossible for a pipe; leave it out")


def ended_early(route: Route, why: str, *, moved: bool) -> str:
    """Why it failed, and in place of what to do for files what is so for a pipe (``moved``: it gave some)."""
    clauses = why.split("; ")
    kept = [left for clause in clauses if (left := _AGAIN.sub("", clause))]
    # What is refused for good is refused again.
    again = kept != clauses or any(clause.startswith("make room") for clause in kept)
    if route.direction == "push":
        left = "nothing new is at the target"
    elif moved:
        left = "the output until then is correct, but incomplete"
    else:
        left = "there was no output"
    advice = ["a pipe gives its bytes once, so run the whole line again"] if again else []
    return "; ".join([*kept, left, *advice])
