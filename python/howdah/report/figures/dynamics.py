"""Figures of throughput in time: traces, Poincaré maps and Lyapunov exponents.

Counterparts of HPDC 2017 Figures 1(b) and 11 (traces), 12 (maps), 13 (exponents over the rate) and 14
(throughput over exponents).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, product
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from howdah.archive.runs import Configuration
from howdah.profiles.dynamics import poincare
from howdah.profiles.dynamics.lyapunov import Exponents, Relation
from howdah.profiles.dynamics.poincare import MapShape
from howdah.profiles.dynamics.traces import Traces, Undetermined
from howdah.profiles.dynamics.verdict import ChaosVerdict, Dynamics, describe
from howdah.report.cells import Cell, Floats, gigabits, in_words, milliseconds
from howdah.report.figures import canvas
from howdah.report.figures.canvas import PANELS_MAX, DrawnFigure, FigureCells, check, family
from howdah.report.material import Material, ramp_s, sustained_bps
from howdah.report.statements.dynamics import correlation_words
from howdah.text import count

_THIN = list(product(("-", "--", ":", "-."), (canvas.ACCENT, canvas.MIDDLE, canvas.PALE)))


@family
def draw_traces(material: Material, subset: FigureCells) -> DrawnFigure:
    """The newest run with a trace of each selected cell."""
    cells = subset.cells(material.cells)
    found = [(cell, of_one[-1]) for cell in cells if (of_one := material.traces(cell))]
    check(found, "a run of these cells with its trace", "configurations and RTTs")
    figure, axes = canvas.panels(len(found), width=1.1)
    for axis, (cell, trace) in zip(axes, found, strict=True):
        lines(axis, trace)
        axis.set_title(cell.words)
    canvas.rate_axis(axes[0])
    shows = [
        f"{cell.words}: after {ramp_s(trace):.3g} s at 90 % of what it then sustains, "
        f"{gigabits(sustained_bps(trace))}."
        for cell, trace in found
    ]
    widths = sorted({trace.bin_s for _, trace in found})
    above = _above(material, [trace.aggregate_bps for _, trace in found])
    bins = f"Rates over {' and '.join(f'{width:g}' for width in widths)} s."
    return DrawnFigure(figure, [*shows, bins, *above])


def _above(material: Material, rates_bps: Iterable[Floats]) -> list[str]:
    """Why rates are above that of the link, where some are."""
    capacity_bps = material.cells.capacity_bps
    if capacity_bps is None or not any(np.any(each > capacity_bps) for each in rates_bps):
        return []
    return [
        f"Rates above the link's {gigabits(capacity_bps)} are those of acknowledgements: what has arrived "
        "behind a lost segment is acknowledged at once, when that segment arrives."
    ]


def lines(axis: Axes, trace: Traces) -> None:
    """The sum of the streams thick, each stream thin."""
    if len(trace.rates_bps) > 1:
        for rates, (dash, colour) in zip(trace.rates_bps, cycle(_THIN), strict=False):
            axis.plot(trace.ends_s, rates / 1e9, linestyle=dash, color=colour, linewidth=0.7)
    axis.plot(trace.ends_s, trace.aggregate_bps / 1e9, color=canvas.INK, linewidth=1.8)
    axis.set_xlabel("time, s")
    axis.set_xlim(left=0)


_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@family
def draw_poincare(material: Material, subset: FigureCells) -> DrawnFigure:
    """The newest run of each cell: for each RTT a panel of each stream by itself and one of their sum, with a
    mark for each configuration."""
    by_rtt = _by_rtt(cell for cell in subset.cells(material.cells) if material.traces(cell))
    marks, title = _marks(by_rtt)
    check(by_rtt, "runs of these cells with their traces", "RTTs", most=PANELS_MAX // 2)
    figure, axes = canvas.panels(2 * len(by_rtt), share_y=False, abreast=2)
    pairs = zip(axes[::2], axes[1::2], strict=True)
    for (separate, aggregate), (rtt_s, cells) in zip(pairs, sorted(by_rtt.items()), strict=True):
        for cell in cells:
            newest, (label, place) = material.traces(cell)[-1], marks[cell.configuration]
            points(separate, newest.rates_bps, label, place)
            points(aggregate, [newest.aggregate_bps], label, place)
        for axis, what in ((separate, "separate streams"), (aggregate, "aggregate")):
            axis.set_title(f"{milliseconds(rtt_s)}, {what}")
            axis.axline((0, 0), slope=1, color=canvas.PALE, linewidth=0.8)
            axis.set(
                xlabel="rate, Gb/s", ylabel=f"rate {material.bin_s(rtt_s):g} s later, Gb/s", aspect="equal"
            )
            axis.set_xlim(left=0)
            axis.set_ylim(bottom=0)
    canvas.legend(axes[0], title)
    shows = [
        f"{cell.words}: {said}."
        for cells in by_rtt.values()
        for cell in cells
        if (said := shape(material, cell))
    ]
    rates = [material.traces(cell)[-1].aggregate_bps for cells in by_rtt.values() for cell in cells]
    return DrawnFigure(figure, [*shows, *_above(material, rates)])


def _marks(by_rtt: Mapping[float, Sequence[Cell]]) -> tuple[dict[Configuration, tuple[str, int]], str | None]:
    """A label and a place for each configuration; of labels that are numbers of streams, a title, too."""
    shown = list(dict.fromkeys(cell.configuration for cells in by_rtt.values() for cell in cells))
    alike = len({(each.congestion_control, each.buffer_bytes) for each in shown}) <= 1
    labels = {each: str(each.streams) if alike else in_words(each) for each in shown}
    return {each: (labels[each], place) for place, each in enumerate(shown)}, "streams" if alike else None


def points(axis: Axes, rates_bps: Iterable[Floats], label: str, place: int) -> None:
    """The successive pairs of each sequence of rates."""
    pairs = np.concatenate([poincare.points(rates) for rates in rates_bps]) / 1e9
    axis.plot(pairs[:, 0], pairs[:, 1], label=label, **mark(place))


def mark(place: int) -> dict[str, Any]:
    """The style of points of the ``place``-th kind: told apart by their form before their colour."""
    return {
        "marker": _MARKS[place % len(_MARKS)],
        "color": (canvas.INK, canvas.ACCENT, canvas.MIDDLE)[place % 3],
        "markersize": 2.5,
        "markerfacecolor": "none",
        "markeredgewidth": 0.6,
        "linestyle": "none",
    }


def shape(material: Material, cell: Cell) -> str | None:
    """The aggregate's map in words, means over the runs of a cell; None where none has a map."""
    maps = [
        found
        for trace in material.traces(cell)
        if isinstance(found := poincare.of_run(trace).aggregate, MapShape)
    ]
    if not maps:
        return None
    tilts = [each.tilt_deg for each in maps if each.tilt_deg is not None]
    across = float(np.mean([each.across for each in maps]))
    tilt = f"the axis {np.mean(np.abs(tilts)):.3g}° from the 45° line, " if tilts else ""
    return f"{tilt}a step jumps {100 * across:.2g} % of the mean"


_NEEDS = "traces of these cells with 30 samples or more after the ramp-up"


@family
def draw_exponents(material: Material, subset: FigureCells) -> DrawnFigure:
    """The local exponent at each state of the aggregate, a panel for each RTT, a mark for each
    configuration: the newest run of each cell."""
    by_rtt = _by_rtt(_with_exponents(material, subset))
    marks, title = _marks(by_rtt)
    check(by_rtt, _NEEDS, "RTTs")
    figure, axes = canvas.panels(len(by_rtt), width=1.3)
    for axis, (rtt_s, cells) in zip(axes, sorted(by_rtt.items()), strict=True):
        axis.axhline(0, color=canvas.PALE, linewidth=0.8)
        for cell in cells:
            states(axis, _known(material, cell)[-1], *marks[cell.configuration])
        axis.set_title(milliseconds(rtt_s))
        axis.set_xlabel("rate, Gb/s")
        axis.set_ylabel(f"local Lyapunov exponent,\nnats in {material.bin_s(rtt_s):g} s")
    canvas.legend(axes[-1], title)
    shown = [cell for cells in by_rtt.values() for cell in cells]
    return DrawnFigure(figure, _beside_surrogates(material, shown))


@family
def draw_relation(material: Material, subset: FigureCells) -> DrawnFigure:
    """Mean throughput of each run over its exponent, a panel for each cell."""
    cells = _with_exponents(material, subset)
    check(cells, _NEEDS, "configurations and RTTs")
    figure, axes = canvas.panels(len(cells), width=1.3, share_y=False)
    shows = []
    for axis, cell in zip(axes, cells, strict=True):
        exponents, rates_bps = material.exponents_and_rates(cell)
        axis.plot(
            exponents, np.array(rates_bps) / 1e9, "o", color=canvas.INK, markersize=4, markerfacecolor="none"
        )
        axis.set_title(cell.words)
        axis.set_xlabel(f"Lyapunov exponent of a run, nats in {material.bin_s(cell.rtt_s):g} s")
        found = material.relation(cell)
        said = correlation_words(found) if isinstance(found, Relation) else found.reason
        shows.append(f"{cell.words}: {said}.")
    axes[0].set_ylabel("mean throughput of the run, Gb/s")
    return DrawnFigure(figure, shows)


def states(axis: Axes, found: Exponents, label: str, place: int) -> None:
    """The exponent at each state of a run, over the rate of that state."""
    axis.plot(found.states / 1e9, found.local_at_states, label=label, **mark(place))


def _with_exponents(material: Material, subset: FigureCells) -> list[Cell]:
    return [cell for cell in subset.cells(material.cells) if _known(material, cell)]


def _by_rtt(cells: Iterable[Cell]) -> dict[float, list[Cell]]:
    found: dict[float, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.rtt_s, []).append(cell)
    return found


def _known(material: Material, cell: Cell) -> list[Exponents]:
    return [each for each in material.exponents(cell) if isinstance(each, Exponents)]


def _beside_surrogates(material: Material, cells: Sequence[Cell]) -> list[str]:
    """The exponents drawn beside those of surrogates: a positive one alone is no evidence of chaos."""
    newest = {cell: describe(material.traces(cell)[-1].aggregate_bps, seed=0) for cell in cells}
    said = [_in_words(cell, found) for cell, found in newest.items()]
    verdicts = [found.verdict for found in newest.values() if isinstance(found.verdict, ChaosVerdict)]
    chaotic = sum(each.chaotic for each in verdicts)
    return [
        *said,
        f"Of {count(len(verdicts), 'trace')} drawn {chaotic} go beyond their surrogates as chaos does.",
    ]


def _in_words(cell: Cell, found: Dynamics) -> str:
    if isinstance(found.exponents, Undetermined) or isinstance(found.exponent_comparisons, Undetermined):
        return f"{cell.words}: no exponent."
    local_, rosenstein = found.exponents.local, found.exponents.rosenstein
    kinds = (
        (local_, found.exponent_comparisons.local, "local"),
        (rosenstein, found.exponent_comparisons.rosenstein, "Rosenstein's"),
    )
    parts = [
        f"{words} {own:+.2f} (shuffled {others.shuffled.median:+.2f}, AR {others.autoregressive.median:+.2f})"
        for own, others, words in kinds
    ]
    return f"{cell.words}: {', '.join(parts)}."
