"""The OPS paper's experiments in the lab: who gets how much of a shared path beside whom. ``make bench-ops``.

Each run is a lab of its own (scenarios/ops-overlay1.toml, ops-overlay2.toml). The record holds the runs of
a part as long as they are of this commit, and goes on where it was stopped; parts that are not asked for stay
as they were, and every run says its commit. A run that this machine spoilt is made once more. The short
length takes some two hours, the whole one the paper's spans and days. See docs/ops.md.
"""

import argparse
import os
import signal
import sys
from collections.abc import Collection
from typing import get_args

from bench import parts, report
from bench.ops import experiment, figure, judge, plan, tables
from bench.ops.plan import Length, Run
from howdah import HowdahError
from howdah._native import format_duration

NAME = "ops"


def main() -> int:
    options = _options()
    runs = kept(options.only) if options.keep else []
    todo = plan.left(runs, options.only, options.length)[: options.most]
    took = format_duration(sum(plan.takes_s(case, options.length) for case in todo))
    print(f"{len(todo)} runs, about {took}", file=sys.stderr)
    if options.dry_run:
        for case in todo:
            print(f"{case.title}, {plan.span(case, options.length).total_s:g} s")
        return 0
    if os.geteuid() != 0:
        print("bench ops: servers in the lab need root; run as root", file=sys.stderr)
        return 1
    # Labs and servers are taken away again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for case in todo:
            run = experiment.measure(case, options.length)
            print(_line(run), file=sys.stderr)
            runs.append(run)
            if options.keep:
                report.write(NAME, judge.rows(runs), runs)
    except HowdahError as error:
        print(f"bench ops: {error}", file=sys.stderr)
        return 1
    met = report.publish(NAME, judge.rows(runs), runs, keep=options.keep)
    tables.show(runs)
    if options.keep:
        figure.draw()
    return 0 if met else 1


def kept(only: Collection[str]) -> list[Run]:
    """The runs of the record, but those of other commits in the parts that are measured now."""
    now = report.commit()
    runs: list[Run] = parts.record(NAME).get("runs", [])
    return [run for run in runs if run["part"] not in only or run["commit"] == now]


def _line(run: Run) -> str:
    rates = [
        f"{key.removesuffix('_bps')} {run[key] / 1e6:.1f} Mb/s"
        for key in ("foreground_bps", "background_bps")
        if key in run
    ]
    late = run["stats"]["lateness"]
    spoilt = f" SPOILT: {late['why']}" if late["spoilt"] else ""
    return f"{plan.case_of(run).title}: {run['error'] or ', '.join(rates)}{spoilt}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ops", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(plan.PARTS), default=list(plan.PARTS))
    parser.add_argument("--length", choices=get_args(Length), default="short")
    parser.add_argument("--most", type=int, metavar="N", help="so many runs now, and go on another time")
    parser.add_argument("--dry-run", action="store_true", help="print the runs that are left; make none")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
