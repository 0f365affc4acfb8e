"""``make demo``: a real tree across an emulated 10 Gb/s, 100 ms link, watched, checked and cleaned up."""

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGINT
from subprocess import TimeoutExpired

from demo import data
from demo.compare import differences
from howdah import HowdahError, interrupt, lab
from howdah._native import format_bytes, format_duration, format_rate
from howdah.archive import Archive
from howdah.cc import programs
from howdah.interrupt import Interrupted
from howdah.lab import Lab
from howdah.values.record import Record

RATE_BPS = 10_000_000_000
RTT_NS = 100_000_000
HEADERS_BYTES = 52
"""IPv4, TCP and its timestamps, of every packet."""

_HOWDAH = Path(sys.executable).parent / "howdah"
_SHOWN = 5
_STOP_S = 2.0


def main() -> int:
    """Runs the demo; returns its exit code."""
    interrupt.install()
    try:
        with _programs_as_before(), data.place() as place:
            return _in(place)
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1


@contextmanager
def _programs_as_before() -> Iterator[None]:
    """Takes out of the kernel what a copy by root loads into it, when it remembers the path."""
    before = {program.name for program in programs.listed() if program.loaded}
    try:
        yield
    finally:
        for program in programs.listed():
            if program.loaded and program.name not in before:
                programs.unload(program.name)


def _in(place: data.Place) -> int:
    near, far = place.folder / "near", place.folder / "far"
    tree = near / "tree"
    far.mkdir()
    tree.mkdir(parents=True)
    link = lab.symmetric(RATE_BPS, RTT_NS)
    _say(f"lab:  two hosts, {format_rate(RATE_BPS)} and {RTT_NS / 1e6:.0f} ms apart, sshd on the far one")
    with lab.started(link, sshd=True) as wan:
        for note in wan.notes:
            _say(f"      {note}")
        big = f"{data.BIG_BYTES / 2**30:g} GiB"
        _say(f"data: the Python standard library and one file of {big}, in {place.what}")
        start = time.monotonic()
        files = data.make(tree, far)
        _say(f"      {files:,} files made in {format_duration(time.monotonic() - start)}")
        code, record = _copy(wan, tree, far)
        lateness = wan.stats().lateness
    if code:
        return code
    _say("check: both sides, byte by byte")
    found = list(differences(tree, far / tree.name))
    for line in found[:_SHOWN]:
        _say(f"       {line}")
    if found:
        _say(f"the two sides differ in {len(found)} places")
        return 1
    _say("       they are the same: names, permissions, times, links, every byte")
    if record is not None:
        _summary(record)
    spoilt = f"spoilt the figures: {lateness.why}" if lateness.spoilt else "kept up"
    late_ms = f"{(lateness.p99_ns or 0) / 1e6:.2g} ms"
    _row("this machine", f"{spoilt} (99 % of packets were at most {late_ms} late)")
    return 0


def _copy(wan: Lab, tree: Path, far: Path) -> tuple[int, Record | None]:
    """``howdah cp`` in the foreground; its exit code and its record."""
    started_at = datetime.now(UTC)
    argv = ["howdah", "cp", str(tree), f"far:{far}/"]
    _say(f"copy: {' '.join(argv)}")
    with wan.popen("near", [_HOWDAH, *argv[1:]]) as process:
        try:
            code = process.wait()
        except Interrupted as signal:
            # A terminal's Ctrl-C has reached it already.
            if signal.number != SIGINT:
                process.terminate()
            with suppress(TimeoutExpired):
                process.wait(_STOP_S)
            raise
    if code:
        return code, None
    newest = next(iter(Archive().newest()), None)
    if isinstance(newest, Record) and newest.started_at >= started_at:
        return 0, newest
    return 0, None


def _summary(record: Record) -> None:
    outcome = record.outcome
    if outcome is None or record.plan is None:
        return
    mtu, frame = 1500, 1538
    most_bps = RATE_BPS * (mtu - HEADERS_BYTES) / frame
    _say("")
    _row("moved", f"{format_bytes(outcome.bytes)} in {format_duration(outcome.elapsed_s)}")
    for name, rate_bps in (("goodput", outcome.goodput_bps), ("once moving", outcome.moving_bps)):
        if rate_bps is not None:
            share = f"{rate_bps / most_bps:.0%} of the {format_rate(most_bps)} that the link can carry"
            _row(name, f"{format_rate(rate_bps)}, {share}")
    _row("plan", record.plan.in_short())
    for sentence in record.plan.why.summary:
        _row("", sentence)
    _row("record", f"{record.id}, kept in the archive: howdah archive show last")


def _row(name: str, text: str) -> None:
    """A line of the summary, folded where the terminal ends."""
    width = shutil.get_terminal_size().columns
    _say(textwrap.fill(text, width, initial_indent=f"  {name:12}  ", subsequent_indent=" " * 18))


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
