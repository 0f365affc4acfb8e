"""The schedule of a sweep: the order of its runs, which of them are left, and how long they take.

The order is that of randomised complete blocks. Each repeat is one pass over everything, its RTTs in an
order of their own, and within an RTT its cells. So what drifts on the machine or the path meets all
configurations alike, a sweep that is cut short has measured all of them about equally often, and a lab is
brought up once a block.

Source: R. A. Fisher, The Design of Experiments, 1935, chapter IV.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from howdah.archive import Archive
from howdah.archive.store import Selection
from howdah.measure.plan import SweepCell, SweepPlan
from howdah.values.record import Record

T = TypeVar("T")


class Block(NamedTuple):
    """The runs that are made in one go: one repeat of all cells of one RTT."""

    repeat: int
    rtt_ns: int | None
    cells: tuple[SweepCell, ...]


def blocks(plan: SweepPlan) -> Iterator[Block]:
    """All blocks, in the order of the plan's seed; the same for the same plan."""
    repeats = plan.repeats()
    rtts = sorted({cell.rtt_ns for cell in repeats}, key=lambda rtt_ns: rtt_ns or 0)
    for repeat in range(max(repeats.values())):
        for rtt_ns in _shuffled(rtts, f"{plan.seed} {repeat}"):
            cells = [cell for cell, times in repeats.items() if cell.rtt_ns == rtt_ns and repeat < times]
            if cells:
                yield Block(repeat, rtt_ns, tuple(_shuffled(cells, f"{plan.seed} {repeat} {rtt_ns}")))


def _shuffled(items: list[T], seed: str) -> list[T]:
    return random.Random(seed).sample(items, len(items))  # noqa: S311, an order and no secret


class PlannedRun(NamedTuple):
    """A run that is still to be made."""

    cell: SweepCell
    repeat: int
    attempt: int


class FinishedRuns:
    """The runs of one sweep that count."""

    def __init__(self, records: Iterable[Record], plan: SweepPlan) -> None:
        self._late_again = plan.late_again
        self._runs: Counter[tuple[str, int]] = Counter()
        self._good: Counter[tuple[str, int]] = Counter()
        for record in records:
            if record.sweep is not None and record.sweep.id == plan.id:
                self.add(record)

    def add(self, record: Record) -> None:
        """Counts a run unless it failed or was stopped."""
        if record.sweep is None or record.error is not None or record.outcome is None:
            return
        place = (record.sweep.cell, record.sweep.repeat)
        self._runs[place] += 1
        self._good[place] += "lateness" not in record.flags

    def attempt(self, cell: SweepCell, repeat: int) -> int | None:
        """The number of the next attempt; null when one is good, or when as many as may be were late."""
        place = (str(cell), repeat)
        done = self._good[place] or self._runs[place] > self._late_again
        return None if done else self._runs[place]

    def remaining(self, block: Block) -> Iterator[PlannedRun]:
        """The runs of a block that are still to be made."""
        for cell in block.cells:
            attempt = self.attempt(cell, block.repeat)
            if attempt is not None:
                yield PlannedRun(cell, block.repeat, attempt)


def finished_in(archive: Archive, plan: SweepPlan) -> FinishedRuns:
    """The runs of this sweep that the archive has; there is no other note of how far it came."""
    found = archive.newest(Selection(sweep=plan.name))
    return FinishedRuns((each for each in found if isinstance(each, Record)), plan)


def remaining(plan: SweepPlan, finished: FinishedRuns) -> Iterator[tuple[Block, list[PlannedRun]]]:
    """The blocks in which something is left, in their order."""
    for block in blocks(plan):
        if runs := list(finished.remaining(block)):
            yield block, runs


RUN_S = 0.4
"""The time of a run beside its duration and its round trips: the start of the far end, and the record."""
RUN_ROUND_TRIPS = 6
"""The round trips of a run: the session, the job, the streams, the last bytes, the far end's account."""
LAB_S = 2.5
"""The time that a lab takes to come up beside its round trips."""
LAB_ROUND_TRIPS = 12
"""The round trips of a lab, of which a new ssh login takes nine."""
LAB_TOUCHED_BPS = 12e9
"""The rate at which a lab touches the memory that its sockets will take."""
ASSUMED_RATE_BPS = 10e9
ASSUMED_RTT_S = 0.05
"""The round trip of a host's path that nothing has measured yet."""


def run_s(cell: SweepCell, plan: SweepPlan) -> float:
    """How long one run takes; one with a size runs at the rate that the link or its windows allow."""
    rtt_s = _rtt_s(cell.rtt_ns)
    moving_s = cell.memory_s
    if moving_s is None:
        link = plan.links.get(cell.rtt_ns) if cell.rtt_ns is not None else None
        rate_bps = (link and link.near_to_far.rate_bps) or ASSUMED_RATE_BPS
        if cell.buffer_bytes is not None:
            rate_bps = min(rate_bps, cell.streams * cell.buffer_bytes * 8 / rtt_s)
        moving_s = (cell.memory_bytes or 0) * 8 / rate_bps + 10 * rtt_s
    return moving_s + RUN_S + RUN_ROUND_TRIPS * rtt_s


def total_s(todo: Iterable[tuple[Block, list[PlannedRun]]], plan: SweepPlan) -> float:
    """How long all that is left takes, labs included, when nothing is late."""
    return sum(_begin_s(block, plan) + sum(run_s(each.cell, plan) for each in runs) for block, runs in todo)


def _begin_s(block: Block, plan: SweepPlan) -> float:
    if block.rtt_ns is None:
        return 0.0
    touched_bits = 8 * 8 * plan.links[block.rtt_ns].bdp_bytes_max(0)
    return LAB_S + LAB_ROUND_TRIPS * _rtt_s(block.rtt_ns) + touched_bits / LAB_TOUCHED_BPS


def _rtt_s(rtt_ns: int | None) -> float:
    return ASSUMED_RTT_S if rtt_ns is None else max(rtt_ns, 1) / 1e9
