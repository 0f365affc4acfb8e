"""``howdah cp`` from its arguments to its exit code."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

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
from howdah.remote.endpoints import route
from howdah.text import printable
from howdah.transfer.display import Display, Quiet
from howdah.transfer.run import FAIRNESS, Given, Request, run
from howdah.values.plan import PathKind
from howdah.values.record import printable_command
from howdah.words.copy import summary
from howdah.words.copy_progress import Lines


def copy(*, json: bool, quiet: bool, **options: Any) -> int:  # noqa: ANN401, those of ``request``
    """Copies and returns the exit code; what went wrong is one line on standard error."""
    interrupt.install()
    done = run(request(**options), _display(silent=json or quiet), Archive())
    if json:
        document.show(done.record)
    elif not quiet and done.record.outcome is not None:
        print(summary(done.record, done.file))
    left_out = done.record.outcome.left_out if done.record.outcome else []
    for problem in (*left_out, done.record.error, done.archive_error):
        if problem is not None:
            print(f"howdah: {printable(problem)}", file=sys.stderr)
    return done.exit_code


def request(
    *,
    names: list[str],
    memory: str | None,
    dry_run: bool,
    path: str | None,
    traffic_class: str | None,
    fairness: str | None,
    no_listen: bool,
    plan: str | None,
    plaintext: bool,
    far_howdah: str | None,
    **choices: str | None,
) -> Request:
    """What the arguments of ``howdah cp`` ask for; ``choices`` are of the plan. Raises HowdahError."""
    memory_bytes, memory_s = (None, None) if memory is None else memory_of(memory)
    kind = _kind(path or "shared")
    of_plan = {"--cc": choices["cc"], "--plan": plan}
    return Request(
        command=printable_command(sys.argv),
        route=route(names, memory=memory is not None),
        memory_bytes=memory_bytes,
        memory_s=memory_s,
        dry_run=dry_run,
        encrypt=not plaintext,
        path=kind,
        traffic_class=traffic_class,
        plan_file=None if plan is None else Path(plan),
        given=tuple(_given(**choices)),
        fairness=_fairness(fairness, kind, no_listen=no_listen, of_plan=of_plan),
        far_howdah=far_howdah,
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


def _fairness(
    text: str | None, path: PathKind, *, no_listen: bool, of_plan: dict[str, str | None]
) -> float | None:
    """The knob; None: nobody is listened to. Raises HowdahError where it would change nothing."""
    against = [f"--path {path}"] if path != "shared" else []
    against += ["--no-listen"] if no_listen else []
    against += [option for option, value in of_plan.items() if value is not None]
    if text is None:
        return None if against else FAIRNESS
    if against:
        raise HowdahError(f"--fairness {text} changes nothing with {against[0]}; leave one of them out")
    try:
        return parse_fraction(text)
    except HowdahError:
        raise HowdahError(f"--fairness {text} is not from 0 to 1; give for example --fairness 0.5") from None


def _given(*, streams: str | None, cc: str | None, buffer: str | None, pace: str | None) -> Iterator[Given]:
    """The choices of the plan the user made, in the order they are told."""
    if streams is not None:
        if not (streams.isascii() and streams.isdecimal()):
            raise HowdahError(f"--streams {streams} is no whole number; give for example --streams 8")
        yield Given("streams", int(streams), "--streams", f"Streams: {streams}")
    if cc is not None:
        yield Given("congestion_control", cc, "--cc", f"Congestion control {cc}")
    if buffer is not None:
        size = parse_bytes(buffer)
        yield Given("buffer_bytes", size, "--buffer", f"Buffers of {format_bytes(size)}")
    if pace is not None:
        rate = parse_rate(pace)
        yield Given("pacing_bps", rate, "--pace", f"At most {format_rate(rate)} a stream")


def _display(*, silent: bool) -> Display:
    if silent:
        return Quiet()
    if not sys.stderr.isatty():
        return Lines()
    # Loaded for a terminal only, while ssh connects.
    from howdah.words.copy_terminal import Terminal  # noqa: PLC0415

    return Terminal()
