"""``howdah traffic`` from its arguments to its exit code."""

import sys
from pathlib import Path
from typing import NamedTuple

from howdah import HowdahError, document, interrupt
from howdah._native import parse_duration
from howdah.archive import Archive
from howdah.text import printable
from howdah.traffic.pattern import Pattern, load_pattern
from howdah.traffic.run import TrafficDisplay, TrafficRequest, run
from howdah.values.record import printable_command
from howdah.words.traffic import TrafficLines, TrafficTerminal, summary


class Asked(NamedTuple):
    """The command line."""

    pattern: str
    host: str
    lasting: str | None
    far_howdah: str | None
    dry_run: bool
    json: bool
    quiet: bool


def traffic(asked: Asked) -> int:
    """Sends, and returns the exit code; what went wrong is one line on standard error."""
    interrupt.install()
    lasting_s = None if asked.lasting is None else parse_duration(asked.lasting) / 1e9
    pattern = load_pattern(Path(asked.pattern), lasting_s)
    host = asked.host.removesuffix(":")
    if not host or host.startswith("-"):
        raise HowdahError(f"{asked.host!r} is no host; write: howdah traffic PATTERN.toml HOST")
    if asked.dry_run:
        if asked.json:
            document.show(pattern)
        else:
            print(pattern.in_words())
        return 0
    request = TrafficRequest(printable_command(sys.argv), pattern, host, asked.far_howdah)
    done = run(request, _display(pattern, silent=asked.json or asked.quiet), Archive())
    if asked.json:
        document.show(done.record)
    elif not asked.quiet and done.record.traffic is not None:
        print(summary(done.record, done.file))
    for problem in (done.record.error, done.archive_error):
        if problem is not None:
            print(f"howdah: {printable(problem)}", file=sys.stderr)
    return done.exit_code


def _display(pattern: Pattern, *, silent: bool) -> TrafficDisplay:
    if silent:
        return TrafficDisplay()
    return TrafficTerminal(pattern) if sys.stderr.isatty() else TrafficLines(pattern)
