"""Hundreds of thousands of schedules of controllers, agents and their bus: ``make bench-leases``.

Each seed draws a policy, clocks, a network, orders, and who dies or is cut off when. Whatever happens, no
instant may see more in force than the policy gives away. Then the same for agents and controllers with
one mistake each: the simulation must find it soon, or it proves nothing.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from bench.leases import watch
from bench.leases.mutants import FOUND_WITHIN, MASKED, MUTANTS, SUM_WITHIN, schedules_until
from bench.leases.quiet import change_ns, takeover_ns, world_of
from bench.leases.world import run
from bench.report import Row, Target, publish

CHUNK = 2_500
DELAY_NS = 10_000_000
TAKEOVERS = 20


class Chunk(NamedTuple):
    """What became of some schedules, one after another on one core."""

    first: int
    schedules: int
    cpu_s: float
    events: int
    looks: int
    met: Counter[str]
    broken: list[tuple[int, str]]
    """By seed."""


def simulate(first: int, schedules: int = CHUNK) -> Chunk:
    """The schedules of these seeds."""
    began_s = time.process_time()
    events = looks = 0
    met: Counter[str] = Counter()
    broken = []
    for seed in range(first, first + schedules):
        outcome = run(seed)
        events += outcome.events
        looks += outcome.looks
        met += outcome.met
        broken += [(seed, what) for what in outcome.broken]
    return Chunk(first, schedules, time.process_time() - began_s, events, looks, met, broken)


def rows_of(chunks: Sequence[Chunk]) -> Iterator[Row]:
    """What the schedules showed."""
    schedules = sum(chunk.schedules for chunk in chunks)
    yield Row("schedules", schedules, "", Target.at_least(300_000))
    yield Row("a core simulates", schedules / sum(chunk.cpu_s for chunk in chunks), "1/s")
    yield Row("events", sum(chunk.events for chunk in chunks), "")
    yield Row("instants at which the sum was checked", sum(chunk.looks for chunk in chunks), "")
    met = sum((chunk.met for chunk in chunks), Counter[str]())
    for what, times in met.most_common():
        yield Row(f"met: {what}", times, "")
    broken = [what for chunk in chunks for _, what in chunk.broken]
    for what in (*watch.NEVER, watch.GOAL):
        yield Row(f"schedules with {what}", broken.count(what), "", Target.at_most(0))


def quiet_rows() -> Iterator[Row]:
    """How long things take on a network of ``DELAY_NS`` each way where nothing is lost."""
    note = f"{DELAY_NS / 1e6:g} ms ± half each way"
    changes = [change_ns(world_of(DELAY_NS, seed)) for seed in range(TAKEOVERS)]
    most_s = 4 * 1.5 * DELAY_NS / 1e9
    target = Target.at_most(most_s, f"≤ {most_s:g}: four messages")
    yield Row("an order in force", max(changes) / 1e9, "s", target, note)
    takeovers = [takeover_ns(world_of(DELAY_NS, seed)) for seed in range(TAKEOVERS)]
    longest_s = max(took_ns for took_ns, _ in takeovers) / 1e9
    yield Row("a takeover, lease 2 s", longest_s, "s", Target.at_most(2), note)
    kept = sum(kept for _, kept in takeovers) / TAKEOVERS
    yield Row("takeovers in which no rate changed", kept, "", Target.at_least(1), note)


def mistaken(name: str) -> tuple[int | None, int | None]:
    """Schedules until a mistake shows at all, and in the sum."""
    return schedules_until(name, watch.NEVER, FOUND_WITHIN), schedules_until(name, [watch.SUM], SUM_WITHIN)


def mutant_rows(found: Sequence[tuple[int | None, int | None]]) -> Iterator[Row]:
    """After how many schedules each mistake was found."""
    for name, (at_all, in_sum) in zip(MUTANTS, found, strict=True):
        yield Row(f"found: {name}", at_all, "schedules", Target.at_most(FOUND_WITHIN))
        target = None if name == MASKED else Target.at_most(SUM_WITHIN)
        yield Row(f"in the sum: {name}", in_sum, "schedules", target)


def kept(chunk: Chunk) -> dict[str, Any]:
    """What the record keeps of a chunk."""
    return chunk._asdict() | {"met": dict(chunk.met)}


def main() -> int:
    """Exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.leases", description=__doc__)
    parser.add_argument("--schedules", type=int, default=300_000, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--no-keep", action="store_true", help="only print")
    arguments = parser.parse_args()
    firsts = range(arguments.first, arguments.first + arguments.schedules, CHUNK)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(mistaken, MUTANTS))
        chunks = []
        for chunk in pool.map(simulate, firsts):
            chunks.append(chunk)
            print(f"{len(chunks) * CHUNK:,} of {arguments.schedules:,} schedules", file=sys.stderr)
    rows = [*rows_of(chunks), *mutant_rows(found), *quiet_rows()]
    return 0 if publish("leases", rows, [kept(chunk) for chunk in chunks], keep=not arguments.no_keep) else 1


if __name__ == "__main__":
    sys.exit(main())
