"""What ``howdah jobs``, ``limit``, ``pause`` and ``continue`` do."""

import sys

from howdah import document
from howdah.library import jobs as running_jobs
from howdah.library.jobs import Standing
from howdah.text import printable
from howdah.words.jobs import line


def jobs(*, json: bool) -> int:
    """Prints the copies that run. Returns 1 where one does not answer."""
    found = running_jobs.running()
    if json:
        sys.stdout.buffer.write(document.line(found.standing))
    elif found.standing:
        for each in found.standing:
            print(line(each))
    elif not found.silent:
        print("none of your copies runs on this host")
    for job in found.silent:
        print(
            f"howdah: the copy {printable(job)} does not answer; if Ctrl-Z stopped it, type fg in its shell",
            file=sys.stderr,
        )
    return 1 if found.silent else 0


def limit(*, job: str, rate: str, json: bool) -> None:
    """Changes a limit. Raises HowdahError."""
    _show(running_jobs.limit(job, rate), json=json)


def pause(*, job: str, json: bool) -> None:
    """Pauses a copy. Raises HowdahError."""
    _show(running_jobs.pause(job), json=json)


def resume(*, job: str, json: bool) -> None:
    """Has a copy go on. Raises HowdahError."""
    _show(running_jobs.resume(job), json=json)


def _show(standing: Standing, *, json: bool) -> None:
    if json:
        document.show(standing)
    else:
        print(line(standing))
