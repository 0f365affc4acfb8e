"""What the size of a transfer does to its mean throughput."""

from collections.abc import Iterable

import numpy as np

from howdah.report.cells import Cell, milliseconds, size_words
from howdah.report.material import Material
from howdah.report.statements.statement import HPDC, Finding, Statement, decided, missing

_MOST_FALLING = 0.1
"""Of the cells: "generally" is the paper's word."""


def rises_with_size(material: Material) -> Finding:
    """A cell by transfers of several sizes; the gain at the longest RTT beside that at the shortest."""
    gains: dict[float, list[float]] = {}
    falling = []
    for cell, by_size in material.sizes.items():
        if len(by_size) < 2:
            continue
        ordered = [float(np.mean(by_size[size])) for size in sorted(by_size)]
        gain = ordered[-1] / ordered[0]
        gains.setdefault(cell.rtt_s, []).append(gain)
        if gain < 0.98:
            falling.append(cell)
    if len(gains) < 2:
        return missing("cells measured with two transfer sizes at two RTTs")
    near, far = (float(np.median(gains[rtt_s])) for rtt_s in (min(gains), max(gains)))
    total = sum(map(len, gains.values()))
    numbers = (
        f"the largest size gives {near:.3g} times the smallest's at {milliseconds(min(gains))}, "
        f"{far:.3g} times at {milliseconds(max(gains))}; {len(falling)} of {total} cells fall"
    )
    return decided(far > near and far > 1 and len(falling) <= _MOST_FALLING * total, numbers, falling)


def flatter_with_size(material: Material) -> Finding:
    """How much the best number of streams gains over the worst, by the smallest and by the largest size."""
    gains: dict[int, list[float]] = {}
    for alike in _same_but_streams(material.sizes):
        for size in set.intersection(*(set(material.sizes[cell]) for cell in alike)):
            means = [float(np.mean(material.sizes[cell][size])) for cell in alike]
            gains.setdefault(size, []).append(max(means) / min(means))
    if len(gains) < 2:
        return missing("cells of two numbers of streams measured with two transfer sizes")
    small, large = (float(np.median(gains[size])) for size in (min(gains), max(gains)))
    numbers = (
        f"the best number of streams has {small:.3g} times the worst with {size_words(min(gains))}, "
        f"{large:.3g} times with {size_words(max(gains))}"
    )
    return decided(large < small, numbers)


def _same_but_streams(cells: Iterable[Cell]) -> list[list[Cell]]:
    groups: dict[Cell, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell._replace(configuration=cell.configuration._replace(streams=0)), []).append(
            cell
        )
    return [group for group in groups.values() if len(group) > 1]


STATEMENTS = (
    Statement(
        "rises-with-size",
        "Larger transfers have more throughput, most so at long RTTs.",
        f"{HPDC} §2.2, Fig. 6",
        "from the smallest size to the largest it rises, more at the longest RTT than at the shortest",
        rises_with_size,
    ),
    Statement(
        "flatter-with-size",
        "With large transfers the number of streams matters less.",
        f"{HPDC} §2.2, Fig. 6",
        "the best number of streams gains less over the worst with the largest size than with the smallest",
        flatter_with_size,
    ),
)
