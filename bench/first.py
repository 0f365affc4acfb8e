"""The first two seconds of a connection, with and without a memory of its path: ``make bench-first``.

Both begin on the same emulated path, in turns. docs/cc.md, *Resume*, says how it works. The part ``harm`` is
what a jump costs a neighbour (bench/first_harm.py).
"""

import argparse
import statistics
import sys
from typing import Any

from bench import first_ends, first_figures, first_harm, report
from bench.carrying import PAYLOAD_BYTES, WIRE_BYTES
from bench.first_ends import STEP_S
from bench.report import Row, Target
from howdah import lab
from howdah.cc import programs
from howdah.cc.resume import Saved
from howdah.lab import Lab

NAME = "first"
RATE_BPS = 1_000_000_000
RTTS_MS = (20, 100, 183, 366)
ROUNDS = 5
SPAN_S = 2.0
PORT = 7031
PAYLOAD = PAYLOAD_BYTES / WIRE_BYTES
"""The part of the wire that is payload."""
WHO = {"without": "cubic", "with": "hd_resume"}
PARTS = ("speed", "harm")
AT_LEAST = {20: 1.0, 100: 1.1, 183: 1.3, 366: 1.5}
"""How many times as much arrives with a memory."""


def one(wan: Lab, rtt_ms: int, who: str) -> dict[str, Any]:
    """One connection, and what came of it."""
    capacity_bytes = round(RATE_BPS * rtt_ms / 8e3)
    saved = Saved(capacity_bytes=capacity_bytes, rtt_s=rtt_ms / 1e3) if who == "with" else None
    begun = first_ends.begun(wan, PORT, WHO[who], SPAN_S + rtt_ms / 1e3, saved)
    steps = [STEP_S * number for number in range(1, round(SPAN_S / STEP_S) + 1)]
    return {
        "part": "speed",
        "who": who,
        "rtt_ms": rtt_ms,
        "payload_bytes": begun.payload_bytes(SPAN_S),
        "rates_bps": [round(begun.rate_bps(at_s - STEP_S, at_s)) for at_s in steps],
        "lost": begun.lost,
        "validated": begun.memory.validated if begun.memory else None,
    }


def measure(rtts_ms: list[int], rounds: int) -> list[dict[str, Any]]:
    """The connections of each path, in turns."""
    runs = []
    for rtt_ms in rtts_ms:
        with lab.started(lab.symmetric(RATE_BPS, rtt_ms * 1_000_000)) as wan:
            for _ in range(rounds):
                for who in WHO:
                    runs.append(one(wan, rtt_ms, who))
                    print(_line(runs[-1]), file=sys.stderr)
    return runs


def _line(run: dict[str, Any]) -> str:
    share = run["payload_bytes"] * 8 / SPAN_S / RATE_BPS / PAYLOAD
    return f"{run['rtt_ms']} ms, {run['who']} a memory: {share:.3f} of the path, {run['lost']} segments lost"


def rows(runs: list[dict[str, Any]]) -> list[Row]:
    """What arrives in SPAN_S as a part of what the path carries, and how many times as much it is."""
    found = []
    for rtt_ms in sorted({run["rtt_ms"] for run in runs}):
        at = f"{rtt_ms} ms"
        medians = {}
        for who in WHO:
            own = [run for run in runs if (run["rtt_ms"], run["who"]) == (rtt_ms, who)]
            medians[who] = statistics.median(run["payload_bytes"] for run in own)
            share = medians[who] * 8 / SPAN_S / RATE_BPS / PAYLOAD
            lost = statistics.median(run["lost"] for run in own)
            found.append(Row(f"first {SPAN_S:g} s, {who} a memory, {at}", share, "of the path"))
            found.append(Row(f"segments lost, {who} a memory, {at}", lost, ""))
        found.append(
            Row(
                f"with a memory, {at}",
                medians["with"] / max(medians["without"], 1),
                "times as much",
                Target.at_least(AT_LEAST.get(rtt_ms, 1.0)),
            )
        )
    return found


def main() -> int:
    options = argparse.ArgumentParser(prog="bench.first", description=__doc__)
    options.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--rtt", type=int, nargs="+", default=list(RTTS_MS), metavar="MS")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = options.parse_args()
    programs.load("resume")
    try:
        runs = measure(chosen.rtt, chosen.rounds) if "speed" in chosen.part else []
        harmed = first_harm.measure(chosen.rounds) if "harm" in chosen.part else []
    finally:
        programs.unload("resume")
    found = rows(runs) + first_harm.rows(harmed)
    whole = (chosen.part, chosen.rtt, chosen.rounds) == (list(PARTS), list(RTTS_MS), ROUNDS)
    met = report.publish(NAME, found, runs + harmed, keep=whole)
    if whole:
        first_figures.draw()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
