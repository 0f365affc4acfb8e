"""What a copy that came to its end has not done of what it was asked for."""

from howdah.transfer.request import Request
from howdah.values.outcome import Outcome, Removal


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
