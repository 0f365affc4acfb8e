"""What a copy cannot do of what it was asked for, and what it has not done of it.

A broken data connection of a pipe is the session's own affair (crates/transfer): what it lost is sent again
from memory. What was lost with the far end itself is lost, since no pipe gives its bytes again.
"""

import re

from howdah import HowdahError, streams
from howdah.arguments import BadArgument
from howdah.remote.endpoints import Route
from howdah.remote.messages import Keep, Skip
from howdah.transfer.request import Request
from howdah.values.outcome import Outcome, Removal

_AGAIN = re.compile(r"(,? (and|then|and then) )?(run )?the same command (again|goes on).*")
"""What an error says to do for files."""


def in_words(request: Request, outcome: Outcome) -> str | None:
    """What was not done of what was asked for; None: nothing."""
    parts = [_left_out(request, outcome)] if outcome.left_out else []
    if outcome.removal is not None:
        parts += _not_removed(request, outcome.removal)
    return "; ".join(parts) or None


def _not_removed(request: Request, removal: Removal) -> list[str]:
    if removal.held == "left-out":
        rest = "would be" if request.dry_run else "was"
        return [f"nothing {rest} removed, because the source may have what could not be read"]
    if removal.held == "too-many":
        most = request.delete.most if request.delete else None
        then = (
            "so none would be removed; allow more"
            if request.dry_run
            else f"so none was removed; list them with {_named(request, 'dry_run')}, or allow more"
        )
        one = removal.extraneous == 1
        what = "1 file, folder or link" if one else f"{removal.extraneous:,} files, folders and links"
        return [
            f"the target has {what} that the source does not have, "
            f"more than {_named(request, 'max_delete')} {most}, {then}"
        ]
    if removal.failed:
        what = "1 file or folder" if removal.failed == 1 else f"{removal.failed:,} files or folders"
        return [f"{what} of the target could not be removed; the warnings say why"]
    return []


def _named(request: Request, argument: str) -> str:
    return argument if request.spell is None else request.spell(argument, {})


def _left_out(request: Request, outcome: Outcome) -> str:
    named = len(outcome.left_out)
    count = named + outcome.left_out_more
    what = "1 file or folder" if count == 1 else f"{count:,} files or folders"
    which = f" (the first {named:,} are named)" if outcome.left_out_more else ""
    rest = "would be" if request.dry_run else "was"
    return f"{what} could not be read or placed, or not kept as asked{which}; everything else {rest} copied"


def check_pipe(request: Request) -> None:
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
