"""``howdah cp`` from its arguments to its exit code."""

import contextlib
import sys
from pathlib import Path
from typing import get_args

from howdah import HowdahError, document, interrupt
from howdah._native import (
    format_bytes,
    format_rate,
    parse_bytes,
    parse_duration,
    parse_fraction,
    parse_rate,
)
from howdah.archive import Archive
from howdah.cli.arguments import Arguments
from howdah.remote.endpoints import route
from howdah.text import printable
from howdah.transfer.display import Display, Quiet
from howdah.transfer.run import FAIRNESS, Given, Request, run
from howdah.values.plan import PathKind
from howdah.values.record import printable_command
from howdah.words.copy import summary
from howdah.words.copy_progress import Lines


def copy(arguments: Arguments) -> int:
    """Copies and returns the exit code; what went wrong is one line on standard error."""
    interrupt.install()
    json, quiet = "--json" in arguments.flags, "--quiet" in arguments.flags
    done = run(request(arguments), _display(silent=json or quiet), Archive())
    if json:
        document.show(done.record)
    elif not quiet and done.record.outcome is not None:
        print(summary(done.record, done.file))
    left_out = done.record.outcome.left_out if done.record.outcome else []
    for problem in (*left_out, done.record.error, done.archive_error):
        if problem is not None:
            print(f"howdah: {printable(problem)}", file=sys.stderr)
    return done.exit_code


def request(arguments: Arguments) -> Request:
    """What the arguments of ``howdah cp`` ask for. Raises HowdahError for what cannot be."""
    values = arguments.values
    memory, plan_file = values.get("--memory"), values.get("--plan")
    memory_bytes, memory_s = (None, None) if memory is None else memory_of(memory)
    path = _kind(values.get("--path", "shared"))
    return Request(
        command=printable_command(sys.argv),
        route=route(arguments.names, memory=memory is not None),
        memory_bytes=memory_bytes,
        memory_s=memory_s,
        dry_run="--dry-run" in arguments.flags,
        encrypt="--plaintext" not in arguments.flags,
        path=path,
        traffic_class=values.get("--class"),
        plan_file=None if plan_file is None else Path(plan_file),
        given=tuple(_given(values)),
        fairness=_fairness(values, path, listens="--no-listen" not in arguments.flags),
        far_howdah=values.get("--far-howdah"),
    )


def memory_of(text: str) -> tuple[int | None, float | None]:
    """What ``--memory`` says: bytes, or seconds. Raises HowdahError for what is neither."""
    with contextlib.suppress(HowdahError):
        return parse_bytes(text), None
    try:
        return None, parse_duration(text) / 1e9
    except HowdahError:
        raise HowdahError(f"--memory {text} is neither a size, as 10GiB, nor a time, as 10s") from None


def _kind(text: str) -> PathKind:
    kinds: tuple[PathKind, ...] = get_args(PathKind)
    for kind in kinds:
        if text == kind:
            return kind
    raise HowdahError(f"--path {text} is no kind of path; it is one of {', '.join(kinds)}")


def _fairness(values: dict[str, str], path: PathKind, *, listens: bool) -> float | None:
    """The knob; None: nobody is listened to. Raises HowdahError where it would change nothing."""
    text = values.get("--fairness")
    if text is None:
        may = listens and path == "shared" and not {"--cc", "--plan"} & set(values)
        return FAIRNESS if may else None
    for option, against in (
        (f"--path {path}", path != "shared"),
        ("--no-listen", not listens),
        *((option, option in values) for option in ("--cc", "--plan")),
    ):
        if against:
            raise HowdahError(f"--fairness {text} changes nothing with {option}; leave one of them out")
    try:
        return parse_fraction(text)
    except HowdahError:
        raise HowdahError(f"--fairness {text} is not from 0 to 1; give for example --fairness 0.5") from None


def _given(values: dict[str, str]) -> list[Given]:
    """The choices of the plan the user made, in the order they are told."""
    given = []
    if (text := values.get("--streams")) is not None:
        if not (text.isascii() and text.isdecimal()):
            raise HowdahError(f"--streams {text} is no whole number; give for example --streams 8")
        given.append(Given("streams", int(text), "--streams", f"Streams: {text}"))
    if (text := values.get("--cc")) is not None:
        given.append(Given("congestion_control", text, "--cc", f"Congestion control {text}"))
    if (text := values.get("--buffer")) is not None:
        size = parse_bytes(text)
        given.append(Given("buffer_bytes", size, "--buffer", f"Buffers of {format_bytes(size)}"))
    if (text := values.get("--pace")) is not None:
        rate = parse_rate(text)
        given.append(Given("pacing_bps", rate, "--pace", f"At most {format_rate(rate)} a stream"))
    return given


def _display(*, silent: bool) -> Display:
    if silent:
        return Quiet()
    if not sys.stderr.isatty():
        return Lines()
    # Loaded for a terminal only, while ssh connects.
    from howdah.words.copy_terminal import Terminal  # noqa: PLC0415

    return Terminal()
