"""What of a sweep the archive holds, and so what is left: there is no other note of how far it came."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from howdah.archive import Archive
from howdah.archive.store import Selection
from howdah.measure.order import Block, blocks
from howdah.measure.plan import Cell, SweepPlan
from howdah.values.record import Record


class Left(NamedTuple):
    """A run that is still to be made."""

    cell: Cell
    repeat: int
    attempt: int


class Kept:
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

    def attempt(self, cell: Cell, repeat: int) -> int | None:
        """The number of the next run there; null when one is good, or as many as may be were late."""
        place = (str(cell), repeat)
        done = self._good[place] or self._runs[place] > self._late_again
        return None if done else self._runs[place]

    def left(self, block: Block) -> Iterator[Left]:
        """What of a block is still to be made."""
        for cell in block.cells:
            attempt = self.attempt(cell, block.repeat)
            if attempt is not None:
                yield Left(cell, block.repeat, attempt)


def in_archive(archive: Archive, plan: SweepPlan) -> Kept:
    """What the archive holds of this sweep."""
    found = archive.newest(Selection(sweep=plan.name))
    return Kept((each for each in found if isinstance(each, Record)), plan)


def left(plan: SweepPlan, kept: Kept) -> Iterator[tuple[Block, list[Left]]]:
    """The blocks in which something is left, in their order."""
    for block in blocks(plan):
        if runs := list(kept.left(block)):
            yield block, runs
