"""How long a sweep takes, before it is begun and on the way."""

from collections.abc import Iterable

from howdah.measure.kept import Left
from howdah.measure.order import Block
from howdah.measure.plan import Cell, SweepPlan

RUN_S = 0.4
"""Beside the time of a run and its round trips: the start of the far end, and writing the record."""
RUN_ROUND_TRIPS = 6
"""A session in the login that is there, the job, the streams, the last bytes, the far end's account."""
LAB_S = 2.5
LAB_ROUND_TRIPS = 12
"""A new ssh login takes nine."""
LAB_TOUCHED_BPS = 12e9
"""How fast a lab touches the memory that its sockets will hold."""
ASSUMED_RATE_BPS = 10e9
ASSUMED_RTT_S = 0.05
"""Of a host's path, which nothing has measured yet."""


def run_s(cell: Cell, plan: SweepPlan) -> float:
    """One run; of one with a size, at the rate that the link or its windows allow."""
    rtt_s = _rtt_s(cell.rtt_ns)
    moving_s = cell.memory_s
    if moving_s is None:
        link = plan.links.get(cell.rtt_ns) if cell.rtt_ns is not None else None
        rate_bps = (link and link.near_to_far.rate_bps) or ASSUMED_RATE_BPS
        if cell.buffer_bytes is not None:
            rate_bps = min(rate_bps, cell.streams * cell.buffer_bytes * 8 / rtt_s)
        moving_s = (cell.memory_bytes or 0) * 8 / rate_bps + 10 * rtt_s
    return moving_s + RUN_S + RUN_ROUND_TRIPS * rtt_s


def total_s(left: Iterable[tuple[Block, list[Left]]], plan: SweepPlan) -> float:
    """All that is left, labs included, and nothing late."""
    return sum(_begin_s(block, plan) + sum(run_s(each.cell, plan) for each in runs) for block, runs in left)


def _begin_s(block: Block, plan: SweepPlan) -> float:
    if block.rtt_ns is None:
        return 0.0
    touched_bits = 8 * 8 * plan.links[block.rtt_ns].bdp_bytes_max(0)
    return LAB_S + LAB_ROUND_TRIPS * _rtt_s(block.rtt_ns) + touched_bits / LAB_TOUCHED_BPS


def _rtt_s(rtt_ns: int | None) -> float:
    return ASSUMED_RTT_S if rtt_ns is None else max(rtt_ns, 1) / 1e9
