"""Whether data can be trusted to a copy that is killed, besieged, or fast: ``make bench-trust``.

``resent`` kills ends of a copy with -9 and counts what is sent again; ``strangers`` has a thousand strangers
a second at the data port; ``encrypted`` is a copy with all guarantees beside iperf3 and xrdcp with TLS.
The parts can be run one at a time: the record holds the last run of each, as long as all are of one commit.
What a copy guarantees is in docs/guarantees.md.
"""

import argparse
import os
import sys
from collections.abc import Iterator

from bench import memory, parts, report
from bench.parts import Run
from bench.trust import besieged, encrypted, judge, resent
from howdah import HowdahError, interrupt
from howdah._native import parse_bytes

NAME = "trust"
KEYS = ("part", "path", "case", "pair", "besieged", "round", "tool", "streams")
"""What tells a run from all others."""
PARTS = (resent.PART, besieged.PART, encrypted.PART)


def main() -> int:
    """Runs the bench; returns its exit code."""
    options = _options()
    if os.geteuid() != 0:
        print("bench trust: the ssh server of the lab needs root; run as root", file=sys.stderr)
        return 1
    # Labs, servers and files are taken away again.
    interrupt.install()
    memory.own_mounts()
    try:
        runs = parts.gather(NAME, KEYS, _measured(options), judge.rows, line, keep=options.keep)
    except (HowdahError, RuntimeError) as error:
        print(f"bench trust: {error}", file=sys.stderr)
        return 1
    return 0 if report.publish(NAME, judge.rows(runs), runs, keep=options.keep) else 1


def line(run: Run) -> str:
    """A run in a line."""
    about = f"{run['part']}, {run['path']}"
    if "stats" in run:
        return f"{about}: done"
    if run["part"] == resent.PART:
        if not isinstance(run["case"], int):
            return f"{about}: {run['case']}, {run['payload_bytes'] / 2**20:.1f} MiB on the wire"
        sessions = run["sessions"]
        where = f"at {100 * sessions[0]['struck_at']:.1f} %" if judge.struck(run) else "TOO LATE"
        ended = "identical" if run["same"] else f"NOT IDENTICAL, {sessions[-1]['said']}"
        return (
            f"{about}: {run['case']}, {'push' if run['push'] else 'pull'}, {run['killed']} killed {where}; "
            f"{run['again_bytes'] / 2**20:.1f} MiB again, {judge.again_percent(run):.2f} %; "
            f"{len(sessions)} runs, {sum(each['wall_s'] for each in sessions):.1f} s, {ended}"
        )
    rate = run["error"] or f"{run['goodput_bps'] / 1e9:.3f} Gb/s in {run['wall_s']:.2f} s"
    if run["part"] == besieged.PART:
        beside = f"beside {judge.came_hz(run):.0f} strangers a second" if run["besieged"] else "alone"
        return f"{about}: pair {run['pair']}, {beside}: {rate}"
    streams = "" if run["streams"] is None else f", {run['streams']} streams"
    return f"{about}: round {run['round']}, {run['tool']}{streams}: {rate}"


def _measured(options: argparse.Namespace) -> Iterator[Run]:
    size, times = options.size, options.times
    if resent.PART in options.only:
        yield from resent.measure(size or resent.SIZE_BYTES, times or resent.KILLS)
    if besieged.PART in options.only:
        sizes = {path: size or usual for path, usual in besieged.SIZES_BYTES.items()}
        yield from besieged.measure(sizes, times or besieged.PAIRS)
    if encrypted.PART in options.only:
        yield from encrypted.measure(size or encrypted.SIZE_BYTES, times or encrypted.ROUNDS)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.trust", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--size", type=_size, help="of each file, as 256MiB; nothing is kept then")
    parser.add_argument("--times", type=int, help="kills, pairs and rounds; nothing is kept then")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="do not write bench/results")
    options = parser.parse_args()
    usual = options.size is None and options.times is None
    options.keep = options.keep and usual and parts.keeps(NAME, whole=set(options.only) == set(PARTS))
    return options


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except HowdahError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
