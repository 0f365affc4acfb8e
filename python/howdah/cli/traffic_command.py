"""``howdah traffic`` from its arguments to its exit code."""

import sys
from pathlib import Path

from howdah import HowdahError, document, interrupt
from howdah._native import parse_duration
from howdah.archive import Archive
from howdah.text import printable
from howdah.traffic.pattern import Pattern, load_pattern
from howdah.traffic.run import TrafficDisplay, TrafficRequest, run
from howdah.values.record import printable_command
from howdah.words.traffic import TrafficLines, TrafficTerminal, summary


def traffic(
    *,
    pattern: str,
    host: str,
    lasting: str | None,
    dry_run: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Sends, and returns the exit code; what went wrong is one line on standard error."""
    interrupt.install()
    lasting_s = None if lasting is None else parse_duration(lasting) / 1e9
    load = load_pattern(Path(pattern), lasting_s)
    name = host.removesuffix(":")
    if not name or name.startswith("-"):
        raise HowdahError(f"{host!r} is no host; write: howdah traffic PATTERN.toml HOST")
    if dry_run:
        if json:
            document.show(load)
        else:
            print(load.in_words())
        return 0
    request = TrafficRequest(printable_command(sys.argv), load, name, far_howdah)
    done = run(request, _display(load, silent=json or quiet), Archive())
    if json:
        document.show(done.record)
    elif not quiet and done.record.traffic is not None:
        print(summary(done.record, done.file))
    for problem in (done.record.error, done.archive_error):
        if problem is not None:
            print(f"howdah: {printable(problem)}", file=sys.stderr)
    return done.exit_code


def _display(pattern: Pattern, *, silent: bool) -> TrafficDisplay:
    if silent:
        return TrafficDisplay()
    return TrafficTerminal(pattern) if sys.stderr.isatty() else TrafficLines(pattern)
