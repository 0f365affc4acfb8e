"""The LSST paper's experiment, with a controller and real applications: ``make bench-lsst``.

Four hosts share 1 Gb/s × 180 ms with 0.01 % lost each way: a PostgreSQL replication, a copy of files in the
background, and images by nuttcp and by ``howdah cp``. While it runs the controller's page is at
http://127.0.0.1:7310. The record holds the last run of every part, as long as all are of one commit.
"""

import argparse
import signal
import sys
from collections.abc import Iterator

from bench import parts, report
from bench.cc import judge as cc_judge
from bench.lsst import experiment, figure, judge, scenario, tables
from bench.parts import Run
from howdah import HowdahError

NAME = "lsst"
PARTS = {"figure": experiment.figure, "leader": experiment.leader, "longer": experiment.longer}
KEYS = ("part", "rtt_ms", "loss")
"""What tells a run from all others."""


def main() -> int:
    options = _options()
    # Programs, labs and servers are taken away again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        runs = parts.gather(NAME, KEYS, _measured(options), judge.rows, _line, keep=options.keep)
    except HowdahError as error:
        print(f"bench lsst: {error}", file=sys.stderr)
        return 1
    met = report.publish(NAME, judge.rows(runs), runs, keep=options.keep)
    if options.keep:
        figure.draw()
    return 0 if met else 1


def _measured(options: argparse.Namespace) -> Iterator[Run]:
    wanted = scenario.load()
    for part in options.only:
        if part in PARTS:
            yield PARTS[part](wanted)
        else:
            yield from tables.measure(options.rtt, options.at_once)


def _line(run: Run) -> str:
    return tables.line(run) if run["part"] == "table1" else f"{run['part']} {cc_judge.spoilt(run)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.lsst", description=__doc__)
    choices = [*PARTS, "table1"]
    rtts = sorted({cell.rtt_ms for cell in tables.paper()})
    parser.add_argument("--only", nargs="+", choices=choices, default=choices)
    parser.add_argument("--rtt", type=int, nargs="+", choices=rtts, default=rtts, help="rows of Table 1, ms")
    parser.add_argument("--at-once", type=int, default=2, help="cells of the table measured at a time")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    whole = set(options.only) == set(choices) and set(options.rtt) == set(rtts)
    options.keep = options.keep and parts.keeps(NAME, whole=whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
