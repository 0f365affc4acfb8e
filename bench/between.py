"""A file copied from one far host to another, started on a third behind 1 Mb/s: ``make bench-between``.

Beside it, in turns, the same copy started on the host that sends. docs/remote-to-remote.md says how it works.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench import memory, one_copy
from bench.peers import work
from bench.report import Row, Target, publish
from howdah import lab
from howdah.lab import Lab, lan, topology

RATE_BPS, RTT_NS = 10_000_000_000, 100_000_000
THIRD_BPS = 1_000_000
FILE_BYTES = 4 << 30
ROUNDS = 5
SHARE = 0.95
"""Of a direct copy, that which is started elsewhere has to reach (the issue's words)."""
_NAMES = {"third": "near", "direct": "dtn1"}
"""The host on which each copy is started."""


def behind_a_slow_line(star: Lab, host: str) -> None:
    """Gives a host on the left a line of THIRD_BPS each way: at its own end, and at the router's."""
    shape = ["root", "tbf", "rate", f"{THIRD_BPS}bit", "burst", "3000", "limit", "60000"]
    for at, device in ((host, lan.DEVICE), (topology.ROUTERS["near"], host)):
        star.run(at, ["tc", "qdisc", "replace", "dev", device, *shape], check=True)


def copied(star: Lab, start: str, source: Path, scratch: Path) -> dict[str, Any]:
    """One copy, with what is kept of it."""
    of = f"dtn1:{source}" if start == "third" else str(source)
    wall_s, record, _, outcome = one_copy.copied(
        star, _NAMES[start], source, scratch / "data", of=of, to="dtn2"
    )
    return {
        "start": start,
        "wall_s": wall_s,
        "bytes": outcome.bytes,
        "goodput_bps": outcome.bytes * 8 / wall_s,
        "moving_bps": outcome.moving_bps,
        "setup_s": outcome.setup_s,
        "connect_s": record.connect_s,
        "streams": len(outcome.streams),
        "rtt_s": record.rtt_s,
    }


def measure(size_bytes: int, rounds: int) -> list[dict[str, Any]]:
    """The copies of each round; those before the first only make logins, which are kept."""
    link = lab.symmetric(RATE_BPS, RTT_NS)
    hosts = lab.dumbbell(["near", "dtn1"], ["dtn2"])
    runs = []
    # Memory of this machine that nothing has touched for a while comes slowly.
    with memory.warm(), work.scratch(2 * size_bytes + (1 << 28), 1 << 28) as scratch:
        file = work.one_file(scratch / work.LARGE / "file", size_bytes).source
        small = work.one_file(scratch / work.LARGE / "small", 1 << 20).source
        with lab.started(link, hosts, sshd=True) as star:
            behind_a_slow_line(star, "near")
            for start in _NAMES:
                copied(star, start, small, scratch)
            for number in range(rounds):
                for start in sorted(_NAMES, reverse=number % 2 == 1):
                    # The next far end is on its way to being ready, and disturbs the copy after it.
                    time.sleep(3.0)
                    runs.append({"round": number, **copied(star, start, file, scratch)})
                    print(f"{runs[-1]['start']:6} {runs[-1]['goodput_bps'] / 1e9:6.2f} Gb/s", flush=True)
    return runs


def rows_of(runs: list[dict[str, Any]]) -> list[Row]:
    """The table of the runs."""

    def middle(start: str, key: str) -> float:
        return statistics.median(float(run[key]) for run in runs if run["start"] == start)

    rows = []
    for start, what in (("direct", "started on the sending host"), ("third", "started on a third, 1 Mb/s")):
        rows.append(Row(f"{what}: over the whole command", middle(start, "goodput_bps") / 1e9, "Gb/s"))
        rows.append(Row(f"{what}: while data moved", middle(start, "moving_bps") / 1e9, "Gb/s"))
        rows.append(Row(f"{what}: before data moved", middle(start, "setup_s"), "s"))
    share = middle("third", "goodput_bps") / middle("direct", "goodput_bps")
    rows.append(Row("the second of the first, over the whole command", share, "", Target.at_least(SHARE)))
    return rows


def main() -> int:
    """Runs the bench; returns its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=FILE_BYTES, help="of the file; another keeps no record")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    runs = measure(given.bytes, given.rounds)
    whole = (given.bytes, given.rounds) == (FILE_BYTES, ROUNDS)
    return 0 if publish("between", rows_of(runs), runs, keep=whole) or not whole else 1


if __name__ == "__main__":
    sys.exit(main())
