"""What ``howdah jobs``, ``limit``, ``pause`` and ``continue`` do."""

import sys

from howdah import document
from howdah._native import format_bytes, format_rate
from howdah.library import jobs as running_jobs
from howdah.library.jobs import Standing
from howdah.text import printable
from howdah.values.bottleneck import MOST
from howdah.words.bottleneck import SHORT


def line(standing: Standing) -> str:
    """``0f3a9c  moving  1.2 GB of 4 GB  98 Mb/s  limit 1Gb/s  path 93% of the time  run42 to dtn2:/d``."""
    done = format_bytes(standing.bytes_done)
    total = "" if standing.bytes_total is None else f" of {format_bytes(standing.bytes_total)}"
    rate = "-" if standing.rate_bps is None else format_rate(standing.rate_bps)
    limit = "no limit" if standing.limit == "none" else f"limit {standing.limit}"
    if standing.limit != "none" and standing.limit_bps is None:
        limit += " (no limit at this hour)"
    first, more = standing.from_[0], len(standing.from_) - 1
    source = f"{first} and {more} more" if more else first
    parts = [standing.job, standing.state, f"{done}{total}", rate, limit]
    if standing.shares and standing.shares[0].share >= MOST:
        main = standing.shares[0]
        parts.append(f"{SHORT[main.cause]} {main.share:.0%} of the time")
    parts.append(f"{source} to {standing.to}")
    return printable("  ".join(parts))


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
