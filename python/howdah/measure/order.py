"""The order of a sweep: randomised complete blocks.

Each repeat is one pass over everything, its RTTs in an order of their own, and within an RTT its cells. So
what drifts on the machine or the path meets all configurations alike, a sweep that is cut short has measured
all of them about equally often, and a lab is brought up once a block.

Source: R. A. Fisher, The Design of Experiments, 1935, chapter IV.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from howdah.measure.plan import Cell, SweepPlan

T = TypeVar("T")


class Block(NamedTuple):
    """What is measured in one go: one repeat of all cells of one RTT."""

    repeat: int
    rtt_ns: int | None
    cells: tuple[Cell, ...]


def blocks(plan: SweepPlan) -> Iterator[Block]:
    """All of them, in the order of the plan's seed; the same for the same plan."""
    repeats = plan.repeats()
    rtts = sorted({cell.rtt_ns for cell in repeats}, key=lambda rtt_ns: rtt_ns or 0)
    for repeat in range(max(repeats.values())):
        for rtt_ns in _shuffled(rtts, f"{plan.seed} {repeat}"):
            cells = [cell for cell, times in repeats.items() if cell.rtt_ns == rtt_ns and repeat < times]
            if cells:
                yield Block(repeat, rtt_ns, tuple(_shuffled(cells, f"{plan.seed} {repeat} {rtt_ns}")))


def _shuffled(items: list[T], seed: str) -> list[T]:
    return random.Random(seed).sample(items, len(items))  # noqa: S311, an order and no secret
