"""The schedule of a sweep: the order of its runs, what is left, how long it takes, and a plan in that time.

The order is that of randomised complete blocks. Each repeat is one pass over everything, its RTTs in an
order of their own, and within an RTT its cells. So what drifts on the machine or the path meets all
configurations alike, a sweep that is cut short has measured all of them about equally often, and a lab is
brought up once a block.

Source: R. A. Fisher, The Design of Experiments, 1935, chapter IV.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from howdah import HowdahError
from howdah._native import format_duration
from howdah.archive import Archive
from howdah.archive.store import Selection
from howdah.cc import programs
from howdah.measure.plan import Ranges, SweepCell, SweepPlan
from howdah.remote.endpoints import bare
from howdah.remote.far import greet
from howdah.values.path import ASSUMED_RTT_S
from howdah.values.plan import BUFFER_BYTES_MAX
from howdah.values.record import HostLimits, Record
from howdah.values.sizes import BUFFER_MIN_BYTES, HEADROOM, TARGET_RATE_BPS

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
UNMEASURED_RTT_S = 0.05
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
    return UNMEASURED_RTT_S if rtt_ns is None else max(rtt_ns, 1) / 1e9


STREAMS = (1, 4, 8)
TIME_S = (5.0, 10.0, 60.0)
"""The time of one run: at first, when there is time for REPEATS[0] of them, and at most."""
REPEATS = (3, 10)
"""Repeats at first and at most. The HPDC 2017 paper has ten."""
TIME_LEAST_S = 1.0


def plan(host: str, far_howdah: str | None, for_s: float | None) -> SweepPlan:
    """All controls that this host has × streams × buffers autotuned and as the path needs, within ``for_s``.

    Raises HowdahError when the host does not answer, or the time is too short to say anything.
    """
    here, host = HostLimits.here(), bare(host)
    far = greet(host, far_howdah)
    rtt_s = far.rtt_s or ASSUMED_RTT_S
    names = programs.available(programs.SWEPT, here)
    explicit = _explicit_bytes(rtt_s, here, far.limits)
    buffers = (None, explicit) if explicit is not None else (None,)
    cells = len(names) * len(STREAMS) * len(buffers)
    time_s, repeats = fitted(cells, RUN_S + RUN_ROUND_TRIPS * rtt_s, for_s)
    ranges = Ranges(tuple(names), STREAMS, buffers, (), (time_s,), (), repeats)
    return SweepPlan(name=_name(host), host=host, far_howdah=far_howdah, ranges=(ranges,))


def fitted(cells: int, beside_s: float, for_s: float | None) -> tuple[float, int]:
    """Time of a run and repeats of each cell within ``for_s``, when a run costs ``beside_s`` beside its time.

    First repeats, for without them nothing can be said of how sure it is; then time, for the ramp-up to weigh
    less; then both to their most. Raises HowdahError when not even one short run of each cell fits.
    """
    least_s = cells * (TIME_LEAST_S + beside_s)
    if for_s is None:
        return TIME_S[0], REPEATS[0]
    if for_s < least_s:
        raise HowdahError(
            f"{format_duration(for_s)} is too short: {cells} configurations take at least "
            f"{format_duration(math.ceil(least_s))}; give more time, or a plan with fewer of them"
        )
    a_run_s = for_s / cells
    repeats = max(1, min(REPEATS[0], int(a_run_s // (TIME_S[0] + beside_s))))
    if a_run_s > REPEATS[0] * (TIME_S[1] + beside_s):
        repeats = min(REPEATS[1], int(a_run_s // (TIME_S[1] + beside_s)))
    time_s = min(TIME_S[2], a_run_s / repeats - beside_s)
    return math.floor(time_s * 10) / 10, repeats


def _explicit_bytes(rtt_s: float, here: HostLimits, far: HostLimits) -> int | None:
    """The buffer that one stream needs for 10 Gb/s, a power of two, so that it is the same the next time."""
    needed = max(BUFFER_MIN_BYTES, HEADROOM * TARGET_RATE_BPS / 8 * rtt_s)
    wanted = min(1 << round(math.log2(needed)), BUFFER_BYTES_MAX)
    allowed = (
        BUFFER_BYTES_MAX if here.privileged else here.wmem_max_bytes,
        BUFFER_BYTES_MAX if far.privileged else far.rmem_max_bytes,
    )
    return wanted if wanted <= min(allowed) else None


def _name(host: str) -> str:
    """The letters, digits, dots and dashes of the host, without a user name before it."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "-" for c in host.rpartition("@")[2])
    return kept.strip(".-_")[:64] or "host"
