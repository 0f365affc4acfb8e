"""``howdah cp`` from its arguments to its exit code."""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from howdah import Archive, HowdahError, document, interrupt
from howdah.cli.cp import COMMANDS
from howdah.cli.table import Read, as_typed, spell
from howdah.guarded import write_no_more
from howdah.library.copy import PIPE, Memory, Offer, Request, Rule, carry_out, copy_request
from howdah.library.ended import ended
from howdah.text import printable
from howdah.values.record import since_process_start_s
from howdah.words.copy import slash_note, summary, times_note
from howdah.words.copy_progress import display


def copy(*, json: bool, quiet: bool, **options: Any) -> int:  # noqa: ANN401, those of ``request``
    """Copies and returns the exit code; what went wrong is one line on standard error."""
    interrupt.install()
    # The data has standard output for itself.
    to_pipe = options["names"][-1] == PIPE
    if to_pipe and json:
        raise HowdahError(
            "--json and the data would both go to standard output; "
            "leave --json out, and afterwards: howdah archive show last --json"
        )
    silent = json or quiet or (to_pipe and sys.stdout.isatty())
    done = ended(lambda: carry_out(_noted(request(**options), quiet=quiet), display(silent=silent)))
    record = done.record
    if json:
        document.show(record)
    elif not quiet and record.outcome is not None:
        kept = Archive().inbox.file(record.id)
        told = summary(record, kept if kept.exists() else None)
        note = slash_note(options["names"], record.outcome)
        if to_pipe:
            print(told, file=sys.stderr)
        else:
            is_result = record.outcome.dry_run_plan is not None
            _tell(told if note is None else f"{told}\nnote: {printable(note)}", is_result=is_result)
    left_out = record.outcome.left_out if record.outcome else []
    for line in (*left_out, *done.problems):
        print(f"howdah: {printable(line)}", file=sys.stderr)
    return done.exit_code


def _tell(text: str, *, is_result: bool) -> None:
    """Prints for people. A reader that has gone (head) takes nothing from the copy, which is done.

    Nor does a full disk, unless what it would have is all that was asked for (``is_result``).
    """
    try:
        print(text, flush=True)
    except OSError as error:
        if is_result and not isinstance(error, BrokenPipeError):
            raise
        write_no_more()


def _noted(asked: Request, *, quiet: bool) -> Request:
    """The same, when what there is to know of it beforehand has been said."""
    note = times_note(asked.keep, asked.skip)
    if note is not None and not quiet:
        print(f"howdah: note: {note}", file=sys.stderr)
    return asked


def _named_as_typed(made: Callable[..., Request]) -> Callable[..., Request]:
    """The same; what is refused is named as the line of ``howdah cp`` has it."""

    @functools.wraps(made)
    def request(**given: Any) -> Request:  # noqa: ANN401, those of the table
        (command,) = COMMANDS
        asked = as_typed(command, given, lambda: made(**given))
        return asked._replace(spell=lambda name, values: spell(command, given, name, values))

    return request


@_named_as_typed
def request(
    *,
    names: list[str],
    memory: Read | None,
    filters: list[Rule] | None,
    bring: bool,
    **others: Any,  # noqa: ANN401, whatever ``copy_request`` takes
) -> Request:
    """What the arguments of ``howdah cp`` ask for. Raises HowdahError for what cannot be."""
    return copy_request(
        names,
        sys.argv,
        before_s=since_process_start_s(),
        memory=None if memory is None else Memory(**memory.value),
        filters=_rules(filters or []),
        agree=(lambda _: True) if bring else asked,
        **_by_name(others),
    )


def _by_name(given: dict[str, Any]) -> dict[str, Any]:
    """The values by the library's names for them; what was not given is left to the library."""
    (command,) = COMMANDS
    rows = {row.key: row for rows in command.rows.values() for row in rows}
    named = {}
    for key, value in given.items():
        (name,) = rows[key].sets
        if isinstance(value, bool) and name != key:
            # As --no-listen is of listen.
            named[name] = not value
        elif value is not None:
            named[name] = value.value if isinstance(value, Read) else value
    return named


def _rules(given: list[Rule]) -> list[Rule]:
    """The rules with what the first ``-F`` and the second mean; as in rsync, more of them mean nothing."""
    left: Iterator[Rule] = iter((("filter", ": /.rsync-filter"), ("filter", "- .rsync-filter")))
    rules = (next(left, None) if rule == ("F", "") else rule for rule in given)
    return [rule for rule in rules if rule is not None]


def asked(offer: Offer) -> bool:
    """Whether whoever sits at the terminal takes an offer; without a terminal nobody does."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"howdah: {offer.in_words()}. Bring it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
