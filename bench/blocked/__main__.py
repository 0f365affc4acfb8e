"""Copies where firewalls or a jump host are in the way, and first copies: ``make bench-blocked``.

``rates`` copies in every state of the path, beside an open one and beside scp (docs/firewall.md); ``first``
counts the round trips until the far end that a copy brings is there (docs/transfer.md).
"""

import argparse
import os
import sys
from collections.abc import Iterator

from bench import parts, report
from bench.blocked import first, judge, rates
from bench.parts import Run
from howdah import HowdahError, interrupt

NAME = "blocked"
KEYS = ("part", "path", "rtt_ms", "round", "state", "direction", "tool", "bytes", "which")
"""What tells a run from all others."""
PARTS = (rates.PART, first.PART)


def main() -> int:
    """Runs the bench; returns its exit code."""
    options = _options()
    if os.geteuid() != 0:
        print("bench blocked: the ssh servers of the lab need root; run as root", file=sys.stderr)
        return 1
    interrupt.install()
    try:
        runs = parts.gather(NAME, KEYS, _measured(options), judge.rows, line, keep=options.keep)
    except (HowdahError, RuntimeError) as error:
        print(f"bench blocked: {error}", file=sys.stderr)
        return 1
    return 0 if report.publish(NAME, judge.rows(runs), runs, keep=options.keep) else 1


def line(run: Run) -> str:
    """A run in a line."""
    if "stats" in run:
        return f"{run['path']}: done"
    if run["part"] == rates.PART:
        about = f"{run['path']}, round {run['round']}, {run['direction']}, {run['state']}, {run['tool']}"
        rate = f"{run['bytes'] * 8e-9 / run['wall_s']:.3f} Gb/s in {run['wall_s']:.2f} s"
        moving = f", {run['moving_bps'] / 1e9:.3f} while data moved" if run.get("moving_bps") else ""
        return f"{about}: {run['error'] or rate + moving}"
    about = f"{run['rtt_ms']} ms, round {run['round']}, {run['which']} copy"
    if run["error"]:
        return f"{about}: {run['error']}"
    there = "" if run["whole_s"] is None else f"the far end there after {run['whole_s']:.2f} s, "
    return f"{about}: {there}{run['sent_bytes']} bytes of ssh, {run['wall_s']:.2f} s"


def _measured(options: argparse.Namespace) -> Iterator[Run]:
    if first.PART in options.only:
        yield from first.measure(options.rounds or first.ROUNDS)
    if rates.PART in options.only:
        yield from rates.measure(options.bytes, options.rounds or rates.ROUNDS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.blocked", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--bytes", type=int, default=rates.FILE_BYTES, help="of the file; another keeps no record"
    )
    parser.add_argument("--rounds", type=int, help="another number keeps no record")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    usual = options.bytes == rates.FILE_BYTES and options.rounds is None
    clean = not (report.commit() or "+").endswith("+")
    whole = set(options.only) == set(PARTS)
    options.keep = options.keep and usual and clean and parts.keeps(NAME, whole=whole)
    return options


if __name__ == "__main__":
    sys.exit(main())
