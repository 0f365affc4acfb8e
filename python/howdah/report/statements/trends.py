"""Statements about the mean throughput over RTT, streams, buffers, congestion control and transfer size."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from howdah.archive.runs import Configuration
from howdah.report.cells import (
    Cell,
    PathCells,
    gigabits,
    milliseconds,
    size_words,
)
from howdah.report.material import Material, sustained_bps
from howdah.report.statements.statement import (
    HPDC,
    NOTE,
    Finding,
    decided,
    missing,
    statement,
)
from howdah.text import count

_MOST_AGAINST = 0.1
"""The share of the pairs compared that may go against: "generally", "mostly" and "overall" are the papers'
words."""
_ALIKE, _NOT_FAR, _MOST_CELLS = 0.1, 0.25, 0.9
""""Very close" is half of the cells within the first of these, and the third's share within the second."""
_CELLS_MIN = 10
"""The least number of cells of which nine in ten can be told."""
_SMALL_RTT_S = 0.0456
"""The paper's "smaller RTTs" are those where Scalable's curves lie above CUBIC's, Figs. 4 and 5."""

Pair = tuple[Cell, Cell]
"""The cell that should be no lower, then the one that should be no higher."""


def _neighbours(cells: PathCells, axis: str) -> Iterator[Pair]:
    """Cells beside those with the next larger ``streams`` or ``buffer_bytes``, all else the same."""
    for below in cells.rates:
        value = getattr(below, axis)
        larger = [
            each
            for each in cells.rates
            if None not in (value, getattr(each, axis))
            and getattr(each, axis) > value
            and each._replace(**{axis: value}) == below
        ]
        if larger:
            above = min(larger, key=lambda each: float(getattr(each, axis)))
            yield from (
                (Cell(above, rtt_s), Cell(below, rtt_s))
                for rtt_s in cells.rates[below]
                if rtt_s in cells.rates[above]
            )


def _pairs(cells: PathCells, found: Iterable[Pair], lacking: str, *, rising: bool) -> Finding:
    """Agrees when at most a tenth of the pairs are clearly the wrong way round, some clearly the right.

    ``lacking`` is what there is none of where there is no pair.
    """
    pairs = list(found)
    if not pairs:
        return missing(lacking)
    against = [(high, low) for high, low in pairs if cells.clearly_more(low, high)]
    towards = sum(cells.clearly_more(high, low) for high, low in pairs)
    if not against and not towards:
        return missing(f"cells that differ by more than their noise; {count(len(pairs), 'pair')} compared")
    against.sort(key=lambda pair: cells.mean_bps(pair[0]) / cells.mean_bps(pair[1]))
    wrong, right = ("falls", "rises") if rising else ("rises", "falls")
    counted = f"clearly {right} in {towards}, clearly {wrong} in {len(against)}"
    numbers = f"of {len(pairs)} pairs of neighbours it {counted}"
    if against:
        high, low = against[0]
        first, then = (low, high) if rising else (high, low)
        numbers += (
            f"; most between {first.words} ({gigabits(cells.mean_bps(first))}) "
            f"and {then.words} ({gigabits(cells.mean_bps(then))})"
        )
    agrees = towards > 0 and len(against) <= _MOST_AGAINST * len(pairs)
    return decided(agrees, numbers, [high for high, _ in against])


@statement(
    "falls-with-rtt",
    "Mean throughput decreases with RTT.",
    f"{HPDC} §2.2, Figs. 3–6; {NOTE} §III-C",
    "of neighbouring RTTs of each configuration at most 10 % clearly rise",
)
def _falls_with_rtt(material: Material) -> Finding:
    cells = material.cells
    pairs = (
        (Cell(each, near), Cell(each, far))
        for each, rates in cells.rates.items()
        for near, far in itertools.pairwise(rates)
    )
    return _pairs(cells, pairs, "one configuration at two RTTs", rising=False)


@statement(
    "rises-with-streams",
    "More streams give more throughput.",
    f"{HPDC} §2.2, Figs. 3–5",
    "of neighbouring numbers of streams at most 10 % clearly fall, some clearly rise",
)
def _rises_with_streams(material: Material) -> Finding:
    lacking = "two numbers of streams at the same congestion control, buffer and RTT"
    return _pairs(material.cells, _neighbours(material.cells, "streams"), lacking, rising=True)


@statement(
    "rises-with-buffers",
    "Larger buffers give more throughput.",
    f"{HPDC} §2.2, Fig. 3",
    "of neighbouring buffers at most 10 % clearly fall, some clearly rise",
)
def _rises_with_buffers(material: Material) -> Finding:
    lacking = "two explicit buffers at the same congestion control, streams and RTT"
    return _pairs(material.cells, _neighbours(material.cells, "buffer_bytes"), lacking, rising=True)


@statement(
    "buffer-gain",
    "H-TCP, 10 streams, 366 ms: 100 Mb/s with the default buffer, nearly 8 Gb/s with the large one.",
    f"{HPDC} §2.2, Fig. 3",
    "each is within a factor of two of the paper's",
)
def _buffer_gain(material: Material) -> Finding:
    cells = material.cells
    found = []
    for buffer in ("default", "large"):
        of_one = [
            cell
            for each in cells.where(controls=["htcp"], streams=10, paper_buffer=buffer)
            if (cell := cells.at(each, 0.366))
        ]
        if not of_one:
            return missing(f"H-TCP, 10 streams, the {buffer} buffer at 366 ms")
        found.append(of_one[0])
    small, large = found
    small_bps, large_bps = cells.mean_bps(small), cells.mean_bps(large)
    against = [
        cell
        for cell, rate_bps, paper_bps in ((small, small_bps, 1e8), (large, large_bps, 8e9))
        if not paper_bps / 2 <= rate_bps <= paper_bps * 2
    ]
    numbers = (
        f"{gigabits(small_bps)} becomes {gigabits(large_bps)}, {large_bps / small_bps:.3g} times (paper: 80)"
    )
    return decided(not against, numbers, against)


@statement(
    "alike",
    "The throughputs of CUBIC and Scalable are very close to H-TCP's.",
    f"{HPDC} §2.2",
    "half of the cells are within 10 % of H-TCP's, nine of ten within 25 %",
)
def _alike(material: Material) -> Finding:
    cells = material.cells
    apart: list[tuple[float, Cell]] = []
    for configuration in cells.where(controls=["htcp"]):
        for rtt_s in cells.rates[configuration]:
            own_bps = cells.mean_bps(Cell(configuration, rtt_s))
            for control in ("cubic", "scalable"):
                other = Cell(configuration._replace(congestion_control=control), rtt_s)
                if rtt_s in cells.rates.get(other.configuration, {}):
                    apart.append((abs(cells.mean_bps(other) / own_bps - 1), other))
    if len(apart) < _CELLS_MIN:
        return missing(
            f"H-TCP beside CUBIC or Scalable at the same streams, buffer and RTT in {_CELLS_MIN} cells; "
            f"there are {len(apart)}"
        )
    apart.sort(key=lambda each: each[0], reverse=True)
    differences = [difference for difference, _ in apart]
    middle, most = np.quantile(differences, (0.5, _MOST_CELLS))
    numbers = (
        f"of {len(apart)} cells half are within {100 * middle:.3g} % of H-TCP's, nine of ten within "
        f"{100 * most:.3g} %, the farthest is {apart[0][1].words} ({100 * apart[0][0]:.3g} %)"
    )
    agrees = bool(middle <= _ALIKE and most <= _NOT_FAR)
    return decided(agrees, numbers, [cell for difference, cell in apart if difference > _NOT_FAR])


@statement(
    "scalable-small-rtt",
    "Scalable with several streams is the choice at small RTTs.",
    f"{HPDC} §5.1; {NOTE} §I",
    "its best cell is clearly above CUBIC's best at most RTTs up to 45.6 ms, and clearly below at none",
)
def _scalable_at_small_rtts(material: Material) -> Finding:
    cells = material.cells
    several = [each for each in cells.where(controls=["scalable"]) if each.streams > 1]
    cubic = list(cells.where(controls=["cubic"]))
    rtts = {rtt_s for each in several for rtt_s in cells.rates[each]}
    rtts &= {rtt_s for each in cubic for rtt_s in cells.rates[each]}
    small = sorted(rtt_s for rtt_s in rtts if rtt_s <= _SMALL_RTT_S * 1.05)
    if not small:
        return missing("CUBIC and Scalable with several streams at an RTT up to 45.6 ms")
    parts, against, above = [], [], 0
    for rtt_s in small:
        ours, other = _best(cells, several, rtt_s), _best(cells, cubic, rtt_s)
        above += cells.clearly_more(ours, other)
        if cells.clearly_more(other, ours):
            against.append(ours)
        parts.append(
            f"{gigabits(cells.mean_bps(ours))} against {gigabits(cells.mean_bps(other))} "
            f"at {milliseconds(rtt_s)}"
        )
    numbers = f"clearly above at {above} of {len(small)} RTTs: {', '.join(parts)}"
    even = [_best(cells, several, rtt_s) for rtt_s in small]
    return decided(above > len(small) / 2 and not against, numbers, against or even)


@statement(
    "near-nine",
    "CUBIC with large buffers at 45.6 ms carries about 9 Gb/s with 1, 4, 7 and 10 streams.",
    f"{HPDC} §4, Fig. 11",
    "the sustained rate is within 10 % of 9 Gb/s with every number of streams",
)
def _near_nine(material: Material) -> Finding:
    rates = {}
    for each in material.cells.where(controls=["cubic"], paper_buffer="large"):
        cell = material.cells.at(each, 0.0456)
        if cell and (traces := material.traces(cell)):
            rates[cell] = float(np.mean([sustained_bps(trace) for trace in traces]))
    if len(rates) < 2:
        return missing("traces of CUBIC with large buffers at 45.6 ms, of two numbers of streams")
    numbers = ", ".join(
        f"{gigabits(rate_bps)} with {cell.configuration.streams}" for cell, rate_bps in rates.items()
    )
    against = [cell for cell, rate_bps in rates.items() if not 8.1e9 <= rate_bps <= 9.9e9]
    return decided(not against, f"sustained: {numbers} (streams)", against)


@statement(
    "sonet-varies-more",
    "Rates over 10GigE vary less than over SONET.",
    f"{HPDC} §2.3, Fig. 7",
    "the relative spread of repeats is smaller over 10 Gb/s than over 9.6 Gb/s",
)
def _sonet_varies_more(material: Material) -> Finding:
    spreads = {}
    for cells in material.paths:
        several = [
            cells.spread_of(cell)
            for each in cells.where(controls=["cubic"], paper_buffer="large")
            for rtt_s in cells.rates[each]
            if cells.repeats(cell := Cell(each, rtt_s)) > 1
        ]
        if several:
            spreads[cells.capacity_bps] = float(np.median(several))
    spreads = {capacity: spreads[capacity] for capacity in (9.6e9, 10e9) if capacity in spreads}
    if len(spreads) < 2:
        return missing("CUBIC with large buffers over 9.6 Gb/s (SONET OC-192) and over 10 Gb/s, repeated")
    sonet, ethernet = spreads[9.6e9], spreads[10e9]
    return decided(
        ethernet < sonet, f"{100 * ethernet:.2g} % over 10 Gb/s, {100 * sonet:.2g} % over 9.6 Gb/s"
    )


def _best(cells: PathCells, among: Sequence[Configuration], rtt_s: float) -> Cell:
    there = [Cell(each, rtt_s) for each in among if rtt_s in cells.rates[each]]
    return max(there, key=cells.mean_bps)


_MOST_FALLING = 0.1
"""The share of the cells that may fall: "generally" is the paper's word."""


@statement(
    "rises-with-size",
    "Larger transfers have more throughput, most so at long RTTs.",
    f"{HPDC} §2.2, Fig. 6",
    "from the smallest size to the largest it rises, more at the longest RTT than at the shortest",
)
def _rises_with_size(material: Material) -> Finding:
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


@statement(
    "flatter-with-size",
    "With large transfers the number of streams matters less.",
    f"{HPDC} §2.2, Fig. 6",
    "the best number of streams gains less over the worst with the largest size than with the smallest",
)
def _flatter_with_size(material: Material) -> Finding:
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
