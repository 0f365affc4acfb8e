"""A million files of 1 KB over 10 Gb/s and 100 ms, in memory, beside other file tools: ``make bench-small``.

howdah and rsync copy all of them, in turns, and both log in anew for each copy. xrdcp, rclone and
globus-url-copy would need hours. So each copies one file and then a part of the files, and the difference
says how long the whole would take. The clock runs from the start of a command to its end. What arrived is
compared byte by byte, off the clock.
"""

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from bench import memory, report
from bench.peers import judge, run, work
from bench.peers.globus import Globus
from bench.peers.howdah import Howdah
from bench.peers.openssh import Rsync
from bench.peers.rclone import Rclone
from bench.peers.tool import Stage, Tool
from bench.peers.work import Work
from bench.peers.xrootd import Xrootd
from bench.report import Row, Target
from howdah import lab

NAME = "small"
FILES, FILE_BYTES = 1_000_000, 1000
ROUNDS = 3
LINK = lab.symmetric(10_000_000_000, 100_000_000)
HOWDAH, RSYNC = Howdah(keeps_login=False), Rsync()
SLOW: tuple[Tool, ...] = (Globus(1), Globus(8), Xrootd(), Rclone())
"""Tools that send each file by itself."""
PART_FILES = 2000
_RTT_MS = 100.0
_LONGEST_S = 1800.0

Found = dict[str, Any]


def main() -> int:
    """Runs the bench; returns its exit code."""
    options = _options()
    if os.geteuid() != 0:
        print("bench small: the ssh server of the lab needs root; run as root", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    runs: list[Found] = []
    try:
        for done in _measured(options.files, options.rounds):
            runs.append(done)
            print(_line(done), file=sys.stderr)
    except RuntimeError as error:
        print(f"bench small: {error}", file=sys.stderr)
        return 1
    return 0 if report.publish(NAME, rows(runs), runs, keep=options.keep) else 1


def rows(runs: list[Found]) -> list[Row]:
    """The table, from the runs alone."""
    copies = [each for each in runs if each["tool"] != "link" and each["purpose"] != "start"]
    by_tool = judge.judged(copies)
    rates = {tool: judge.median(of) for tool, of in by_tool.items()}
    ours = rates.get(HOWDAH.name)
    slow = {tool: rate for tool, rate in rates.items() if rate and tool not in (HOWDAH.name, RSYNC.name)}
    best = max(slow, key=lambda tool: slow[tool], default="none")
    return [
        Row(HOWDAH.name, ours, "files/s", Target.at_least(17_000), _spread(by_tool.get(HOWDAH.name, []))),
        *(
            Row(tool, rate, "files/s", note=_spread(by_tool[tool]))
            for tool, rate in rates.items()
            if tool != HOWDAH.name
        ),
        judge.ratio(f"{HOWDAH.name} / {RSYNC.name}", ours, rates.get(RSYNC.name), Target.at_least(10), ""),
        judge.ratio(f"{HOWDAH.name} / {best}", ours, slow.get(best), Target.at_least(30), "best of these"),
        *(judge.lateness("the link", each["stats"]) for each in runs if each["tool"] == "link"),
    ]


def _measured(files: int, rounds: int) -> Iterator[Found]:
    # Beside the files and their copy, a part of them; small files take whole pages, and servers keep logs.
    with memory.warm(), work.scratch(2**20, 4 * files * 4096 + 2**30) as scratch:
        whole = work.small_files(scratch / "tree", files, FILE_BYTES)
        part = work.small_files(scratch / "tree-part", PART_FILES, FILE_BYTES)
        start = work.small_files(scratch / "tree-start", 1, FILE_BYTES)
        with contextlib.ExitStack() as stack:
            wan = stack.enter_context(lab.started(LINK, sshd=True))
            stage = Stage(wan, scratch, round(10_000_000_000 / 8 * _RTT_MS / 1e3))
            for tool in SLOW:
                stack.enter_context(tool.serving(stage))
                yield from _in_part(tool, stage, start, part, whole)
            turn = run.Turn(_RTT_MS, "round", timeout_s=_LONGEST_S)
            for number in range(rounds):
                for tool in (HOWDAH, RSYNC) if number % 2 == 0 else (RSYNC, HOWDAH):
                    yield dataclasses.asdict(run.copy(tool, stage, whole, turn))
            yield {"tool": "link", "rtt_ms": _RTT_MS, "stats": msgspec.to_builtins(wan.stats())}


def _in_part(tool: Tool, stage: Stage, start: Work, part: Work, whole: Work) -> Iterator[Found]:
    """A copy of one file, and one of a part of all, which tells how long all would take."""
    one = run.copy(tool, stage, start, run.Turn(_RTT_MS, "start", 0.0))
    yield dataclasses.asdict(one)
    share = part.files / whole.files
    first = run.copy(tool, stage, part, run.Turn(_RTT_MS, "first", share))
    all_s = one.wall_s + max(first.wall_s - one.wall_s, 0.0) / share
    yield dataclasses.asdict(dataclasses.replace(first, reckoned_s=all_s))


def _line(done: Found) -> str:
    if done["tool"] == "link":
        return "the lab is closed"
    took = done["error"] or f"{done['files']:,} files in {done['wall_s']:.2f} s"
    reckoned = f"; {done['reckoned_s']:.0f} s for all" if done["reckoned_s"] else ""
    return f"{done['tool']}: {took}{reckoned}"


def _spread(runs: judge.Runs) -> str:
    rates = [rate for rate in map(judge.rate, runs) if rate is not None]
    if not rates:
        return "; ".join(str(each["error"]) for each in runs)[-60:]
    if runs[0]["reckoned_s"] is not None:
        return f"reckoned from {PART_FILES:,} files"
    return f"{judge.short(min(rates))}–{judge.short(max(rates))} in {len(rates)} runs"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.small", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES, help="another number keeps no record")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="another number keeps no record")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    options.keep = options.keep and (options.files, options.rounds) == (FILES, ROUNDS)
    return options


if __name__ == "__main__":
    sys.exit(main())
