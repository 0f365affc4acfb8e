"""howdah cp beside the file tools of Debian: the same lab, the same bytes, in turns; see ``--help``.

At each round-trip time one lab is up, with every tool's server waiting in it. Each tool first copies
next to nothing, then a part of the work; the difference says how long the whole would take. A tool that
would need more than a minute is not given all of it, and that time is what counts. The others take turns,
round after round, and the median counts. The clock runs from the start of a command to its end; what
arrived is compared byte by byte, off the clock.
"""

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench import memory, report
from bench.peers import figure, iperf3, run, work
from bench.peers.globus import Globus
from bench.peers.howdah import Howdah
from bench.peers.judge import rows
from bench.peers.openssh import Rsync, Scp
from bench.peers.rclone import Rclone
from bench.peers.tool import Stage, Tool
from bench.peers.work import Work
from bench.peers.xrootd import Xrootd
from howdah import lab

RATE_BPS = 10_000_000_000
SLOW_S = 60.0
PARTS = {"file": 1 / 16, "files": 1 / 64}
"""How much of the work the first copy by a tool is."""

TOOLS: dict[str, Tool] = {
    "howdah": Howdah(),
    "howdah-cold": Howdah(keeps_login=False),
    "globus-1": Globus(1),
    "globus-8": Globus(8),
    "xrdcp": Xrootd(),
    "rclone": Rclone(),
    "scp": Scp(),
    "rsync": Rsync(),
}


@dataclasses.dataclass(frozen=True)
class Task:
    """A whole work, the part of it that each tool copies first, and next to nothing."""

    whole: Work
    first: Work
    start: Work


def main() -> int:
    options = _options()
    if os.geteuid() != 0:
        print("bench peers: the ssh server of the lab needs root; run as root", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # Beside what is copied, a part of it, and its copy; small files take whole pages, and servers keep logs.
    with (
        memory.warm(),
        work.scratch(3 * options.bytes, 4 * options.files * max(options.file_bytes, 4096) + 2**30) as scratch,
    ):
        print(f"work in {scratch}", file=sys.stderr)
        large = scratch / work.LARGE
        tasks = {
            "file": Task(
                work.one_file(large / "file", options.bytes),
                work.one_file(large / "file-part", int(options.bytes * PARTS["file"])),
                work.one_file(large / "file-start", 1),
            ),
            "files": Task(
                work.small_files(scratch / "tree", options.files, options.file_bytes),
                work.small_files(
                    scratch / "tree-part", int(options.files * PARTS["files"]), options.file_bytes
                ),
                work.small_files(scratch / "tree-start", 1, 1),
            ),
        }
        runs: list[dict[str, Any]] = []
        for rtt_ms in options.rtt:
            kinds = ["file", "files"] if rtt_ms in options.files_rtt else ["file"]
            try:
                runs += _at(rtt_ms, [tasks[kind] for kind in kinds], options, scratch)
            except RuntimeError as error:
                print(f"bench peers: {error}", file=sys.stderr)
                return 1
    met = report.publish("peers", rows(runs), runs, keep=options.keep)
    if options.keep:
        figure.draw()
    return 0 if met else 1


def _at(
    rtt_ms: float, tasks: Sequence[Task], options: argparse.Namespace, scratch: Path
) -> Iterator[dict[str, Any]]:
    tools = [TOOLS[name] for name in options.tools]
    link = lab.symmetric(RATE_BPS, round(rtt_ms * 1e6))
    with contextlib.ExitStack() as stack:
        wan = stack.enter_context(lab.started(link, sshd=True))
        stage = Stage(wan, scratch, round(RATE_BPS / 8 * rtt_ms / 1e3))
        for tool in tools:
            stack.enter_context(tool.serving(stage))
        stack.enter_context(iperf3.serving(stage))
        for task in tasks:
            for done in _in_turns(tools, stage, task, rtt_ms, options.rounds):
                _say(done)
                yield dataclasses.asdict(done)
        yield {"tool": "link", "rtt_ms": rtt_ms, "stats": msgspec.to_builtins(wan.stats())}


def _in_turns(
    tools: Sequence[Tool], stage: Stage, task: Task, rtt_ms: float, rounds: int
) -> Iterator[run.Run]:
    turns = []
    for tool in tools:
        first = _first(tool, stage, task, rtt_ms)
        yield first
        if first.reckoned_s is None:
            turns.append(tool)
    turn = run.Turn(rtt_ms, "round")
    for _ in range(rounds):
        plan: dict[str, Any] | None = None
        for tool in turns:
            done = run.copy(tool, stage, task.whole, turn)
            plan = done.facts.get("plan") or plan
            yield done
        if plan is not None and task.whole.kind == "file":
            yield run.ceiling(stage, task.whole.bytes, plan, turn)


def _first(tool: Tool, stage: Stage, task: Task, rtt_ms: float) -> run.Run:
    """The first copy; ``reckoned_s`` is set when the whole work would take too long."""
    start = run.copy(tool, stage, task.start, run.Turn(rtt_ms, "start", 0.0))
    part = task.first.bytes / task.whole.bytes
    first = run.copy(tool, stage, task.first, run.Turn(rtt_ms, "first", part))
    whole_s = start.wall_s + max(first.wall_s - start.wall_s, 0.0) / part
    if first.error or whole_s <= SLOW_S or isinstance(tool, Howdah):
        return first
    return dataclasses.replace(first, reckoned_s=whole_s)


def _say(done: run.Run) -> None:
    rate = done.error or f"{(done.goodput_bps or 0) / 1e9:.3f} Gb/s"
    what = "" if done.part == 1 else f" ({done.part:.3g} of it)"
    print(
        f"{done.rtt_ms:g} ms, {done.work}{what}, {done.tool}: {rate} in {done.wall_s:.2f} s", file=sys.stderr
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--rtt", type=float, nargs="+", default=[20.0, 100.0, 183.0], metavar="MS")
    parser.add_argument("--files-rtt", type=float, nargs="*", default=[100.0], metavar="MS")
    parser.add_argument("--tools", nargs="+", choices=list(TOOLS), default=list(TOOLS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=2 * 2**30, help="of the one file")
    parser.add_argument("--files", type=int, default=10_000, help="small files")
    parser.add_argument("--file-bytes", type=int, default=10_000, help="of each small file")
    parser.add_argument("--quick", action="store_true", help="little work, one round; nothing is kept")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    if options.quick:
        options.bytes, options.files, options.rounds, options.keep = 2**28, 1000, 1, False
    return options


if __name__ == "__main__":
    sys.exit(main())
