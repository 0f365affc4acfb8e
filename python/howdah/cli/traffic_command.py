"""``howdah traffic`` from its arguments to its exit code."""

import sys

from howdah import document, interrupt
from howdah.cli.ended import ended
from howdah.library.traffic import carry_out, traffic_request
from howdah.text import printable
from howdah.words.traffic import display, summary


def traffic(
    *,
    pattern: str,
    host: str,
    lasting: float | None,
    dry_run: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Sends, and returns the exit code; what went wrong is one line on standard error."""
    interrupt.install()
    request = traffic_request(pattern, host, sys.argv, for_s=lasting, far_howdah=far_howdah)
    if dry_run:
        if json:
            document.show(request.pattern)
        else:
            print(request.pattern.in_words())
        return 0
    done = ended(lambda: carry_out(request, display(request.pattern, silent=json or quiet)))
    if json:
        document.show(done.record)
    elif not quiet and done.record.traffic is not None:
        print(summary(done.record, kept=done.problems in ([], [done.record.error])))
    for problem in done.problems:
        print(f"howdah: {printable(problem)}", file=sys.stderr)
    return done.exit_code
