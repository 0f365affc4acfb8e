"""Copies to which things happen, by seed: ``make bench-faults``.

Each case is one copy in a lab of its own, one fault, a look at what is left, and the same command again.
A case replays from its seed: ``ARGS="--only SEED"``. What may be left is in docs/guarantees.md.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from bench import memory
from bench.faults import failing
from bench.faults.cases import FAILING, case
from bench.faults.look import FINDINGS, Finding
from bench.faults.run import Outcome, carry_out, names
from bench.report import Row, Target, publish
from howdah import HowdahError, interrupt

CASES = 1_000
KINDS_MIN = 60
CASES_A_CORE = 2
"""At once, because a case mostly waits."""
_BENCH = os.getpid()
_PR_SET_PDEATHSIG = 1
"""sys/prctl.h."""


def main() -> int:
    """Runs the bench; returns its exit code."""
    parser = argparse.ArgumentParser(prog="bench.faults", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help="so many, from the first seed on")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", type=int, help="one seed, and say all of it; nothing is kept")
    given = parser.parse_args()
    seeds = [given.only] if given.only is not None else range(given.first, given.first + given.cases)
    if any(case(seed).fault in FAILING for seed in seeds):
        failing.build()
    interrupt.install()
    outcomes = []
    # At a signal the cases that run come to their end, and no other begins. The lab of one case must not keep
    # the file system of another mounted.
    with ProcessPoolExecutor(CASES_A_CORE * (os.cpu_count() or 1), initializer=join) as pool:
        for outcome in pool.map(run, seeds):
            outcomes.append(outcome)
            print(line(outcome), file=sys.stderr, flush=True)
            if given.only is not None and outcome.said:
                print(f"      {outcome.said}", file=sys.stderr)
    runs = [msgspec.to_builtins(outcome) for outcome in outcomes]
    return 0 if publish("faults", rows(outcomes), runs, keep=given.only is None) else 1


def join() -> None:
    """Has this process, which is to run cases, end its case when the bench is killed. Needs root."""
    memory.own_mounts()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def run(seed: int) -> Outcome:
    """The case of a seed, in a folder in memory of its own. A case that breaks is a finding: others go on."""
    drawn, began = case(seed), time.monotonic()
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            return carry_out(drawn, Path(folder))
    except interrupt.Interrupted:
        # If the bench was killed, nobody takes an outcome, or gives another case.
        if os.getppid() != _BENCH:
            os._exit(1)
        raise
    except (HowdahError, OSError, subprocess.SubprocessError) as error:
        broken = (Finding("no verdict", repr(error)),)
        lasted_s = time.monotonic() - began
        return Outcome(seed, drawn.fault, drawn.moment, False, -1, "", 0, broken, lasted_s)


def line(outcome: Outcome) -> str:
    """An outcome in a line."""
    found = "; ".join(f"{each.what.upper()}: {each.detail}" for each in outcome.findings) or "fine"
    struck = "" if outcome.struck else ", not struck"
    return (
        f"{outcome.seed:5} {outcome.fault}, {outcome.moment}{struck}: exit {outcome.exit_code}, "
        f"{outcome.runs} more, {outcome.lasted_s:.1f} s: {found}"
    )


def rows(outcomes: list[Outcome]) -> list[Row]:
    """What the cases showed."""
    struck = [outcome for outcome in outcomes if outcome.struck]
    kinds = {(outcome.fault, outcome.moment) for outcome in struck}
    found = names(outcomes)
    return [
        Row("cases", len(outcomes), "", Target.at_least(CASES)),
        Row("in which the fault met the copy", len(struck), ""),
        Row("kinds of point in a transfer", len(kinds), "", Target.at_least(KINDS_MIN)),
        *(Row(what, found.get(what, 0), "", Target.at_most(0)) for what in FINDINGS),
        Row("copies that went on by themselves", sum(each.exit_code == 0 for each in struck), ""),
        Row("that the same command finished at once", sum(each.runs == 1 for each in outcomes), ""),
        Row("that took it more than once", sum(each.runs > 1 for each in outcomes), ""),
    ]


if __name__ == "__main__":
    sys.exit(main())
