"""What holds a cell: the link, its buffers, losses, or windows that still grow; by rules, never by hand."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from howdah.report.cells import Cell, Cells, gigabits
from howdah.text import count
from howdah.values.sizes import window_rate_bps

Limit = Literal["link", "buffers", "losses", "growth"]

_AT_THE_LINK = 0.95
"""Of the best cell of the path."""
_AT_THE_BUFFERS = 0.7
"""Of streams × buffer / RTT: a buffer also holds headers, and slow start comes before it is full."""


def limit(cells: Cells, cell: Cell) -> Limit:
    """What the mean throughput of a cell is nearest to.

    ``link``: within 5 % of the best cell of the path. ``buffers``: at least 70 % of streams × buffer / RTT,
    where that is below the link. ``losses``: segments were sent again in most runs. ``growth``: none of
    these, so windows that were still growing for much of the run.
    """
    rate_bps, most_bps = cells.mean_bps(cell), window_bps(cell)
    if rate_bps >= _AT_THE_LINK * cells.most_bps:
        return "link"
    if most_bps < _AT_THE_LINK * cells.most_bps and rate_bps >= _AT_THE_BUFFERS * most_bps:
        return "buffers"
    return "losses" if _sent_again(cells, cell) > 0 else "growth"


def window_bps(cell: Cell) -> float:
    """Most that a cell's buffers let through: streams × buffer / RTT; infinite where tuned."""
    buffer_bytes = cell.configuration.buffer_bytes
    if buffer_bytes is None:
        return float("inf")
    return window_rate_bps(cell.configuration.streams, buffer_bytes, cell.rtt_s)


def in_words(cells: Cells, cell: Cell) -> str:
    """A sentence's end, as ``held by its buffers, which let 53 Mb/s through``."""
    match limit(cells, cell):
        case "link":
            return f"at what the path carries, {gigabits(cells.most_bps)}"
        case "buffers":
            return f"held by its buffers, which let {gigabits(window_bps(cell))} through"
        case "losses":
            return f"held by losses, {_sent_again(cells, cell):,.0f} segments sent again in a run"
        case "growth":
            elapsed_s = _median(cells, cell, "elapsed_s")
            return (
                f"held by windows that still grow, in runs of {elapsed_s:.3g} s without loss (paper: 100 s)"
            )


def _sent_again(cells: Cells, cell: Cell) -> float:
    return _median(cells, cell, "retransmissions")


def _median(cells: Cells, cell: Cell, column: str) -> float:
    values = getattr(cells.runs, column)[cells.places(cell)]
    return float(np.median(values))


def summary(cells: Cells, shown: Sequence[Cell]) -> list[str]:
    """What a figure of these cells shows: from where to where, and what holds how many."""
    ordered = sorted(shown, key=cells.mean_bps)
    low, high = ordered[0], ordered[-1]
    least, most = gigabits(cells.mean_bps(low)), gigabits(cells.mean_bps(high))
    span = f"From {least} ({low.words}) to {most} ({high.words})."
    counts = Counter(limit(cells, cell) for cell in shown)
    parts = [f"{count(counts[kind], 'cell')} {words}" for kind, words in _KINDS.items() if counts[kind]]
    return [span, f"Of {count(len(shown), 'cell')}: {', '.join(parts)}."]


_KINDS: dict[Limit, str] = {
    "link": "at what the path carries",
    "buffers": "held by buffers",
    "losses": "held by losses",
    "growth": "held by windows that still grow",
}
