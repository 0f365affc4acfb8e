"""Why is it slow? Bottlenecks made on purpose, and whether each copy names its own: ``make bench-why``.

Fourteen kinds by ten seeds, which draw rates, round trips, sizes, streams and directions. A copy is right if
the largest share in its record is of the cause that was made. Its share is compared with what the bottleneck
alone takes: by the rate that it was given, by the processor's account, or beyond a copy without it.

Two kinds are kept for the test alone: "a processor at the receiver" and "pacing by a plan". No rule of the
attribution was tuned on them.
"""

import argparse
import os
import sys

from bench import memory, parts, report
from bench.parts import Run
from bench.why import judge, run
from bench.why.kinds import KINDS, cases
from howdah import HowdahError, interrupt

NAME = "why"
KEYS = ("kind", "seed")
SEEDS = 10


def main() -> int:
    """Runs the bench; returns its exit code."""
    options = _options()
    if os.geteuid() != 0:
        print("bench why: disks, processors and labs need root; run as root", file=sys.stderr)
        return 1
    interrupt.install()
    memory.own_mounts()
    chosen = [case for case in cases(options.seeds) if not options.only or options.only in case.kind]
    if options.first:
        chosen = [case for case in chosen if case.seed >= options.first]
    if options.keep and options.whole:
        # A bench that was stopped goes on.
        made = {parts.key(run, KEYS) for run in parts.kept(NAME)}
        left = [case for case in chosen if (case.kind, case.seed) not in made]
        chosen = left or chosen
    try:
        runs = parts.gather(NAME, KEYS, run.measure(chosen), judge.rows, line, keep=options.keep)
    except (HowdahError, OSError) as error:
        print(f"bench why: {error}", file=sys.stderr)
        return 1
    return 0 if report.publish(NAME, judge.rows(runs), runs, keep=options.keep) else 1


def line(run: Run) -> str:
    """A run in a line."""
    shares = ", ".join(
        f"{each['cause']} {each['share']:.0%}" for each in run["shares"] if each["share"] >= 0.02
    )
    verdict = "right" if run["right"] else f"WRONG, {' or '.join(run['expected'])}"
    flags = " ".join(run["flags"])
    return (
        f"{run['kind']}, seed {run['seed']}: {run['named']}, {verdict}; "
        f"{run['share']:.0%} of {run['total_s']:.1f} s, truly {run['true_share']:.0%}; {shares} {flags}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.why", description=__doc__)
    parser.add_argument("--only", choices=list(KINDS), help="one kind")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    options.whole = not options.only and not options.first and options.seeds >= SEEDS
    options.keep = options.keep and parts.keeps(NAME, whole=options.whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
