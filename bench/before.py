"""How surely a copy tells competing traffic before its first byte: ``make bench-before``.

On paths drawn by a seed, ICMP echo goes on as while ssh connects: beside nobody, and beside a CUBIC and a BBR
stream of iperf3. Its answers are judged in windows by what a copy judges them with, without a base RTT from
elsewhere.
docs/choosing.md says how it works.
"""

import argparse
import contextlib
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.report import Row, Target, publish
from howdah import interrupt, lab
from howdah.lab import Lab
from howdah.steering import sources
from howdah.steering.sources import RttSample
from howdah.values.link import LinkSpec

SEED, PATHS = 1, 12
RATES_BPS, RTTS_S, QUEUES = (100e6, 2.5e9), (0.02, 0.25), (0.2, 3.0)
"""Queues are in bandwidth × delay. Rates and queues are drawn by their logarithm."""
BESIDE = {"nobody": None, "1 cubic": "cubic", "1 bbr": "bbr"}
FILLED_S, LISTEN_S = 6.0, 9.0
"""The seconds for which others have sent before, and those for which probes go on."""
ANSWERS = (10, 30)
"""The probes of a window: a new login over a short path, and over a long one."""
FALSE, FOUND = 0.01, 0.95
"""The most of the windows beside nobody, and the least of the others, that tell of competing traffic."""


def drawn(number: int) -> LinkSpec:
    """A path."""
    from_seed = random.Random(f"{SEED}-{number}")  # noqa: S311, a path, not a secret

    def by_logarithm(least: float, most: float) -> float:
        return math.exp(from_seed.uniform(math.log(least), math.log(most)))

    rate_bps, rtt_s = by_logarithm(*RATES_BPS), from_seed.uniform(*RTTS_S)
    queue_bytes = round(rate_bps * rtt_s / 8 * by_logarithm(*QUEUES))
    return lab.symmetric(round(rate_bps), round(rtt_s * 1e9), queue_bytes=queue_bytes)


@contextlib.contextmanager
def sending(wan: Lab, control: str | None) -> Iterator[None]:
    """A stream of iperf3 under ``control``, if any, that has filled the path."""
    with contextlib.ExitStack() as ends:
        if control is not None:
            for_s = str(math.ceil(FILLED_S + LISTEN_S + 5))
            server = ends.enter_context(wan.popen("far", ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL))
            ends.callback(server.kill)
            time.sleep(0.5)
            argv = ["iperf3", "-c", wan.far_address, "-t", for_s, "-C", control]
            client = ends.enter_context(wan.popen("near", argv, stdout=subprocess.DEVNULL))
            ends.callback(client.kill)
        time.sleep(FILLED_S)
        yield


def probe(address: str) -> int:
    """Prints the answers to ICMP echo; runs on the near host."""
    source, why_not = sources.best_source([address])
    if why_not is not None:
        raise RuntimeError(why_not)
    time.sleep(LISTEN_S)
    print(msgspec.json.encode(source.take(0.0, None)).decode())
    source.close()
    return 0


def measure(paths: int) -> Iterator[dict[str, Any]]:
    """A run for each path and whoever is beside: the answers of its probes."""
    for number in range(paths):
        link = drawn(number)
        for beside, control in BESIDE.items():
            with lab.started(link) as wan, sending(wan, control):
                argv = [sys.executable, "-m", "bench.before", "--probe", wan.far_address]
                out = wan.run("near", argv, capture_output=True, check=True).stdout
                spoilt = wan.stats().lateness.spoilt
            samples = msgspec.json.decode(out, type=list[RttSample])
            yield {
                "path": number,
                "link": msgspec.to_builtins(link),
                "beside": beside,
                "spoilt": spoilt,
                "samples": len(samples),
                "told": {str(count): told(samples, count) for count in ANSWERS},
            }


def told(samples: list[RttSample], count: int) -> list[int]:
    """Of the windows of so many probes: in how many there is somebody, and how many there are."""
    ordered = sorted(samples)
    windows = [ordered[at : at + count] for at in range(0, len(ordered) - count + 1, count)]
    return [sum(sources.others_present(window, None) for window in windows), len(windows)]


def rows_of(runs: list[dict[str, Any]]) -> list[Row]:
    """The table of the runs."""
    rows = []
    for beside, control in BESIDE.items():
        for count in ANSWERS:
            counted = [run["told"][str(count)] for run in runs if run["beside"] == beside]
            share = sum(found for found, _ in counted) / sum(windows for _, windows in counted)
            target = None
            if count == max(ANSWERS):
                target = Target.at_most(FALSE) if control is None else Target.at_least(FOUND)
            worst = max if control is None else min
            note = f"path by path at worst {worst(found / windows for found, windows in counted):.2f}"
            rows.append(Row(f"{count} answers beside {beside}: competing traffic", share, "", target, note))
    return rows


def line(run: dict[str, Any]) -> str:
    """A run in a line."""
    there = run["link"]["near_to_far"]
    path = f"{there['rate_bps'] / 1e6:.0f} Mb/s × {2 * there['delay_ns'] / 1e6:.0f} ms"
    shares = ", ".join(f"{found} of {windows}" for found, windows in run["told"].values())
    return f"{path}, {run['beside']}: {shares}{', spoilt' if run['spoilt'] else ''}"


def main() -> int:
    """Runs the bench; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.before", description=__doc__)
    parser.add_argument("--paths", type=int, default=PATHS, help="another number keeps no record")
    parser.add_argument("--probe", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.probe is not None:
        return probe(given.probe)
    interrupt.install()
    runs = []
    for run in measure(given.paths):
        print(line(run), file=sys.stderr)
        runs.append(run)
    return 0 if publish("before", rows_of(runs), runs, keep=given.paths == PATHS) else 1


if __name__ == "__main__":
    sys.exit(main())
