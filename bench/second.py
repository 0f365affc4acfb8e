"""Copies to a host to which a copy went before: ``make bench-second``.

Each path is new: the first copy logs in and makes the memory of the path (docs/memory.md). It is counted
apart. Those after it have the login and the memory. The time is that of the whole command, as a user has it.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import memory, one_copy
from bench.carrying import PAYLOAD_BYTES, WIRE_BYTES
from bench.peers import work
from bench.report import Row, Target, publish
from howdah import lab
from howdah.lab import Lab

NAME = "second"
PAYLOAD = PAYLOAD_BYTES / WIRE_BYTES
"""The part of the wire that is payload."""
LARGE_BYTES = 2 << 30
SIZES = {1 << 20: 3.0, 64 << 20: 4.0}
"""The round trips that a copy of so many bytes may take, from the command to its end."""
SMALL_RTT_MS = 183
COPIES = 5


class Case(NamedTuple):
    """A path, and the part of its limit that a copy must reach."""

    rate_bps: int
    rtt_ms: int
    share: float

    @property
    def name(self) -> str:
        return f"{self.rate_bps // 10**9} Gb/s, {self.rtt_ms} ms"

    def limit_s(self, size_bytes: int) -> float:
        """The wire's time for the payload, and one round trip."""
        return size_bytes * 8 / (self.rate_bps * PAYLOAD) + self.rtt_ms / 1e3


CASES = tuple(
    Case(rate_bps, rtt_ms, share)
    for rate_bps, shares in (
        (5_000_000_000, {20: 0.95, 100: 0.92, 183: 0.90, 366: 0.85}),
        (10_000_000_000, {20: 0.85, 100: 0.82, 183: 0.80}),
    )
    for rtt_ms, share in shares.items()
)


def copied(wan: Lab, source: Path, archive: Path) -> dict[str, Any]:
    """One copy, with what is kept of it."""
    wall_s, record, plan, outcome = one_copy.copied(wan, "near", source, archive, of=str(source), to="far")
    return {
        "bytes": outcome.bytes,
        "wall_s": wall_s,
        "connect_s": record.connect_s,
        "setup_s": outcome.setup_s,
        "moving_bps": outcome.moving_bps,
        "streams": len(outcome.streams),
        "retransmissions": outcome.retransmissions,
        "resume": msgspec.to_builtins(plan.resume),
        "resumed": msgspec.to_builtins(record.resumed),
        "carried": msgspec.to_builtins(record.carried),
        "began_alone": bool(record.listened and record.listened.sent),
        "why": plan.why.summary[-2:],
    }


def measure(cases: list[Case], copies: int) -> list[dict[str, Any]]:
    """All copies, each path in a lab and an archive of its own."""
    runs = []
    # Memory of this machine that nothing has touched for a while comes slowly.
    with memory.warm(), work.scratch(2 * LARGE_BYTES + (1 << 29), 1 << 28) as scratch:
        folder = scratch / work.LARGE
        sources = {size: work.one_file(folder / f"{size}", size).source for size in (LARGE_BYTES, *SIZES)}
        for number, case in enumerate(cases):
            small = case[:2] == (5_000_000_000, SMALL_RTT_MS)
            with lab.started(lab.symmetric(case.rate_bps, case.rtt_ms * 1_000_000), sshd=True) as wan:
                for size in (LARGE_BYTES, *(SIZES if small else ())):
                    for copy in range(copies + (size == LARGE_BYTES)):
                        # The next far end is on its way to being ready, and disturbs the copy after it.
                        time.sleep(2.0)
                        run = copied(wan, sources[size], scratch / f"data-{number}")
                        first = size == LARGE_BYTES and not copy
                        runs.append({"rate_bps": case.rate_bps, "rtt_ms": case.rtt_ms, "first": first, **run})
                        print(_line(runs[-1], case), file=sys.stderr, flush=True)
                spoilt = wan.stats().lateness.spoilt
            for run in runs:
                if (run["rate_bps"], run["rtt_ms"]) == case[:2]:
                    run["link_spoilt"] = spoilt
    return runs


def _line(run: dict[str, Any], case: Case) -> str:
    which = "first copy" if run["first"] else "a later copy"
    jumped = "at once" if run["resumed"] else "from slow start"
    return (
        f"{case.name}, {run['bytes'] >> 20} MiB, {which} {jumped}: {run['wall_s']:.2f} s, "
        f"{case.limit_s(run['bytes']) / run['wall_s']:.2f} of the limit"
    )


def rows(runs: list[dict[str, Any]]) -> list[Row]:
    """Medians of the copies after the first, of each path and size."""
    found = []
    for case in CASES:
        own = [run for run in runs if (run["rate_bps"], run["rtt_ms"]) == case[:2]]
        for size in sorted({run["bytes"] for run in own}):
            later = [run for run in own if run["bytes"] == size and not run["first"]]
            if not later:
                continue
            wall_s = statistics.median(run["wall_s"] for run in later)
            jumps = sum(1 for run in later if run["resumed"])
            alone = sum(1 for run in later if run["began_alone"])
            note = f"{jumps} of {len(later)} sent at once, {alone} began with one stream"
            note += "; the emulated link was late" if later[0]["link_spoilt"] else ""
            if size in SIZES:
                name = f"{size >> 20} MiB, {case.name}: command to end"
                most = Target.at_most(SIZES[size])
                found.append(Row(name, wall_s / (case.rtt_ms / 1e3), "round trips", most, note))
                continue
            for run in own:
                if run["first"] and run["bytes"] == size:
                    share = case.limit_s(size) / run["wall_s"]
                    found.append(Row(f"{case.name}: first copy, new login", share, "of the limit"))
            share = case.limit_s(size) / wall_s
            found.append(
                Row(f"{case.name}: later copies", share, "of the limit", Target.at_least(case.share), note)
            )
    return found


def main() -> int:
    """Runs the bench; returns its exit code."""
    options = argparse.ArgumentParser(prog="bench.second", description=__doc__)
    options.add_argument("--rtt", type=int, nargs="+", metavar="MS", help="only these; keeps no record")
    options.add_argument("--copies", type=int, default=COPIES)
    chosen = options.parse_args()
    cases = [case for case in CASES if not chosen.rtt or case.rtt_ms in chosen.rtt]
    runs = measure(cases, chosen.copies)
    whole = len(cases) == len(CASES) and chosen.copies == COPIES
    return 0 if publish(NAME, rows(runs), runs, keep=whole) else 1


if __name__ == "__main__":
    sys.exit(main())
