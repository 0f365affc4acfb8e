"""``howdah cp`` from its arguments to its exit code."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from howdah import Archive, HowdahError, document, interrupt
from howdah._native import parse_bytes, parse_duration, parse_fraction, parse_rate
from howdah.cli.cp import COMMANDS, patience_of, ports_of
from howdah.cli.ended import ended
from howdah.cli.table import as_typed, spell
from howdah.guarded import write_no_more
from howdah.library.copy import PIPE, Memory, Offer, Request, Rule, carry_out, copy_request
from howdah.text import printable
from howdah.values.plan import PathKind
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
            _tell(told if note is None else f"{told}\nnote: {printable(note)}")
    left_out = record.outcome.left_out if record.outcome else []
    for line in (*left_out, *done.problems):
        print(f"howdah: {printable(line)}", file=sys.stderr)
    return done.exit_code


def _tell(text: str) -> None:
    """Prints for people. A reader that has gone (head) takes nothing from the copy, which is done."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
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
    memory: str | None,
    path: PathKind | None,
    filters: list[Rule] | None,
    keep: list[str] | None,
    no_listen: bool,
    fairness: str | None,
    streams: str | None,
    cc: str | None,
    buffer: str | None,
    pace: str | None,
    plaintext: bool,
    no_sync: bool,
    bring: bool,
    ports: str | None,
    patience: str | None,
    **as_it_is: Any,  # noqa: ANN401, what ``copy_request`` takes by the same name
) -> Request:
    """What the arguments of ``howdah cp`` ask for. Raises HowdahError for what cannot be."""
    if streams is not None and not (streams.isascii() and streams.removeprefix("-").isdecimal()):
        raise HowdahError(f"--streams {streams} is not a whole number; give for example --streams 8")
    return copy_request(
        names,
        sys.argv,
        before_s=since_process_start_s(),
        memory=None if memory is None else memory_of(memory),
        path=path or "shared",
        filters=_rules(filters or []),
        keep=keep or (),
        listen=not no_listen,
        fairness=_fairness(fairness),
        streams=None if streams is None else int(streams),
        congestion_control=cc,
        buffer_bytes=None if buffer is None else parse_bytes(buffer),
        pacing_bps=None if pace is None else parse_rate(pace),
        encrypt=not plaintext,
        sync=not no_sync,
        agree=(lambda _: True) if bring else asked,
        ports=ports_of(ports),
        patience_s=patience_of(patience),
        **as_it_is,
    )


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


def memory_of(text: str) -> Memory:
    """What ``--memory`` says: a size, or a time. Raises HowdahError for what is neither."""
    with contextlib.suppress(HowdahError):
        return Memory(size_bytes=parse_bytes(text))
    try:
        return Memory(for_s=parse_duration(text) / 1e9)
    except HowdahError:
        raise HowdahError(f"--memory {text} is neither a size, as 10GiB, nor a time, as 10s") from None


def _fairness(text: str | None) -> float | None:
    """The knob that was given. Raises HowdahError for what is no part of one."""
    try:
        return None if text is None else parse_fraction(text)
    except HowdahError:
        raise HowdahError(f"--fairness {text} is not from 0 to 1; give for example --fairness 0.5") from None
