"""A million small files, twenty levels deep, names of any bytes, beside rsync: ``make bench-million``.

It measures the memory of both ends at three sizes of the tree, and how long a first copy, a second one that
has nothing to do, and copies that remove take. Both tools log in anew over the same path, in turns.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench import memory, parts, report
from bench.million import copies, judge
from bench.parts import Run
from howdah import HowdahError, interrupt

NAME = "million"
KEYS = ("files", "path", "kind", "tool", "round")
"""What tells a run from all others."""
ROUNDS = 3


def main() -> int:
    """Runs the bench; returns its exit code."""
    options = _options()
    if os.geteuid() != 0:
        print("bench million: the ssh server of the lab needs root; run as root", file=sys.stderr)
        return 1
    interrupt.install()
    memory.own_mounts()
    try:
        measured = copies.measure(options.files, options.rounds, options.folder)
        runs = parts.gather(NAME, KEYS, measured, judge.rows, line, keep=options.keep)
    except (HowdahError, RuntimeError) as error:
        print(f"bench million: {error}", file=sys.stderr)
        return 1
    return 0 if report.publish(NAME, judge.rows(runs), runs, keep=options.keep) else 1


def line(run: Run) -> str:
    """A run in a line."""
    about = f"{run['files']:,} files, {run['path']}, {run['kind']}, round {run['round']}, {run['tool']}"
    if "differences" in run:
        return f"{about}: {run['differences']} differences {run['first']}"
    peaks = ", ".join(f"{end} {run['peak_bytes'][end] / 2**20:.0f} MiB" for end in ("near", "far"))
    spent = ", ".join(f"{end} {cpu_s:.2f} s" for end, cpu_s in run["cpu_s"].items())
    return f"{about}: {run['wall_s']:.2f} s; {peaks}; CPU {spent}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.million", description=__doc__)
    sizes = list(copies.SIZES)
    parser.add_argument("--files", type=int, nargs="+", default=sizes, help="other sizes keep no record")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="another number keeps no record")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="on a disk with 25 GB"
    )
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    whole = set(options.files) <= set(copies.SIZES) and options.rounds == ROUNDS
    options.keep = options.keep and whole
    return options


if __name__ == "__main__":
    sys.exit(main())
