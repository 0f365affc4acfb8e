"""hd_hold and its sisters against what they must reach: ``make bench-cc``.

The whole takes an hour, so it can be run in parts: the record holds the last run of every part and cell, as
long as all are of one commit; the first part run on another commit begins a new record.
"""

import argparse
import signal
import sys
from collections.abc import Iterator

import rich

from bench import parts, report
from bench.cc import cpu, crowd, figure, judge, rate, table
from bench.parts import Run
from howdah import HowdahError

NAME = "cc"
KEYS = ("part", "series", "falling", "rtt_ms", "loss")
"""What tells a run from all others."""


def main() -> int:
    options = _options()
    # Programs and labs are taken away again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        runs = parts.gather(NAME, KEYS, _measured(options), judge.rows, _line, keep=options.keep)
    except HowdahError as error:
        print(f"bench cc: {error}", file=sys.stderr)
        return 1
    for falling in table.FALLING:
        if any(run.get("falling") == falling for run in runs):
            rich.print(judge.beside_the_paper(runs, falling))
    met = report.publish(NAME, judge.rows(runs), runs, keep=options.keep)
    if options.keep:
        figure.draw()
    return 0 if met else 1


def _measured(options: argparse.Namespace) -> Iterator[Run]:
    simple = {"steady": rate.steady, "change": rate.changes, "crowd": crowd.measure}
    for part in options.only:
        if part in simple:
            yield simple[part]()
        elif part == "cpu":
            yield from map(cpu.measure, cpu.SERIES)
        else:
            yield from table.measure(table.places(options.rtt, options.falling), options.at_once)


def _line(run: Run) -> str:
    if run["part"] != "table":
        return " ".join(str(word) for word in parts.key(run, KEYS) if word is not None)
    cell = judge.cell(run)
    late = judge.spoilt(run)
    where = f"{cell.rtt_ms} ms, {100 * cell.loss:g} %, {judge.FALLS[run['falling']]}"
    took = f"{judge.median_s(run):.3f} s, paper {table.paper()[cell]:.2f}"
    timeouts = sum(each["total_rto"] for each in run["transfers"])
    return f"{where}: {took}, {timeouts} timeouts {late}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cc", description=__doc__)
    choices = list(judge.PARTS)
    rtts = sorted({cell.rtt_ms for cell in table.paper()})
    parser.add_argument("--only", nargs="+", choices=choices, default=choices)
    parser.add_argument(
        "--rtt", type=int, nargs="+", choices=rtts, default=rtts, help="rows of the table, ms"
    )
    parser.add_argument("--falling", nargs="+", choices=table.FALLING, default=table.FALLING)
    parser.add_argument("--at-once", type=int, default=2, help="cells of the table measured at a time")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    whole = (
        set(options.only) == set(choices)
        and set(options.rtt) == set(rtts)
        and set(options.falling) == set(table.FALLING)
    )
    options.keep = options.keep and parts.keeps(NAME, whole=whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
