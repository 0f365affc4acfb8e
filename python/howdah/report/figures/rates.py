"""Mean throughput over RTT, streams and transfer sizes, the spread of repeats, and where profiles turn.

Counterparts of HPDC 2017 Figures 1(a), 3 to 8, 9 (pairs of sigmoids) and 10 (transition RTTs), and of HPSC
2015 Figures 1 and 2. Where the papers draw bars in perspective, cells carry their number: nothing is hidden
behind another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from howdah._native import format_bytes
from howdah.archive.runs import Configuration
from howdah.profiles.transition.sigmoids import Sigmoids
from howdah.report.cells import (
    Cell,
    Floats,
    PathCells,
    buffer_words,
    in_ms,
    in_words,
    limits_summary,
    milliseconds,
    name,
)
from howdah.report.figures import canvas
from howdah.report.figures.canvas import DrawnFigure, FigureCells, check, family
from howdah.report.material import Material
from howdah.report.statements.transitions import ENOUGH, TransitionRtt, by_sigmoids
from howdah.report.statements.transitions import in_words as turn_words

_LINES_MAX = 15


@family
def draw_profile(material: Material, subset: FigureCells) -> DrawnFigure:
    """One panel with all selected configurations."""
    check(subset.configurations, "runs of any configuration", "configurations", most=_LINES_MAX)
    figure, (axis,) = canvas.panels(1, width=1.7)
    cells = material.cells
    shown = []
    for each, style in zip(subset.configurations, canvas.line_styles(), strict=False):
        rtts = subset.rtts(cells, each)
        shown += [Cell(each, rtt_s) for rtt_s in rtts]
        line(axis, rtts, [cells.rates[each][rtt_s] for rtt_s in rtts], in_words(each), style)
    canvas.rtt_axis(axis)
    canvas.rate_axis(axis, of="mean throughput")
    canvas.legend(axis)
    return DrawnFigure(figure, limits_summary(cells, shown))


def line(
    axis: Axes, rtts_s: Sequence[float], rates_bps: Sequence[Floats], label: str, style: dict[str, Any]
) -> None:
    """Means over RTT, with bars from the slowest run to the fastest."""
    means = np.array([np.mean(rates) for rates in rates_bps]) / 1e9
    low = means - np.array([np.min(rates) for rates in rates_bps]) / 1e9
    high = np.array([np.max(rates) for rates in rates_bps]) / 1e9 - means
    axis.errorbar(
        np.array(rtts_s) * 1e3, means, yerr=(low, high), label=label, capsize=2, elinewidth=0.7, **style
    )


_ON_GREY = "#010101"
"""The ink on a grey cell is not that of the page, which is pale on a dark screen: the cells stay as they
are."""


@family
def draw_throughput(material: Material, subset: FigureCells) -> DrawnFigure:
    """The selected cells of the path, then the same configurations on other paths."""
    found = [(cells, part) for cells in material.paths for part in _panels(cells, subset)]
    check(found, "runs of any configuration", "congestion controls and buffers")
    figure, axes = canvas.panels(len(found), width=1.15, share_y=False)
    most_bps = max(cells.most_bps for cells, _ in found)
    for axis, (cells, configurations) in zip(axes, found, strict=True):
        rtts = sorted({rtt_s for each in configurations for rtt_s in subset.rtts(cells, each)})
        means = {
            (rtt_s, each.streams): cells.mean_bps(Cell(each, rtt_s))
            for each in configurations
            for rtt_s in subset.rtts(cells, each)
        }
        table(axis, rtts, [each.streams for each in configurations], means, most_bps)
        first = configurations[0]
        where = f"\n{cells.path}" if len(material.paths) > 1 else ""
        axis.set_title(f"{name(first.congestion_control)}, {buffer_words(first.buffer_bytes)}{where}")
    return DrawnFigure(figure, limits_summary(material.cells, subset.cells(material.cells)))


def table(
    axis: Axes,
    rtts_s: Sequence[float],
    streams: Sequence[int],
    means_bps: Mapping[tuple[float, int], float],
    most_bps: float,
) -> None:
    """A table in greys: RTT across, streams up, Gb/s in each cell; darker is more."""
    for (rtt_s, number), mean_bps in means_bps.items():
        x, y = rtts_s.index(rtt_s), streams.index(number)
        (shade,) = canvas.shades([mean_bps], most_bps)
        axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="white", linewidth=0.8))
        axis.text(x, y, f"{mean_bps / 1e9:.2g}", ha="center", va="center", fontsize=7.5, color=_ON_GREY)
    axis.set_xlim(-0.5, len(rtts_s) - 0.5)
    axis.set_ylim(-0.5, len(streams) - 0.5)
    axis.set_xticks(range(len(rtts_s)), list(map(in_ms, rtts_s)))
    axis.set_yticks(range(len(streams)), [str(number) for number in streams])
    axis.set_xlabel("RTT, ms; in the cells Gb/s")
    axis.set_ylabel("streams")


def _panels(cells: PathCells, subset: FigureCells) -> list[list[Configuration]]:
    here = [each for each in subset.configurations if each in cells.rates]
    return [
        list(part) for _, part in groupby(here, key=lambda each: (each.congestion_control, each.buffer_bytes))
    ]


@family
def draw_sizes(material: Material, subset: FigureCells) -> DrawnFigure:
    """The selected cells that were measured with transfers of several sizes."""
    chosen = set(subset.configurations)
    found = {
        cell: by_size
        for cell, by_size in material.sizes.items()
        if cell.configuration in chosen and (subset.rtts_s is None or cell.rtt_s in subset.rtts_s)
    }
    sizes = sorted({size for by_size in found.values() for size in by_size})
    check(sizes, "one configuration measured with two transfer sizes", "transfer sizes", least=2)
    rtts = sorted({cell.rtt_s for cell in found})
    streams = sorted({cell.configuration.streams for cell in found})
    figure, axes = canvas.panels(len(sizes), width=1.15, share_y=False)
    most_bps = material.cells.most_bps
    for axis, size in zip(axes, sizes, strict=True):
        means = {
            (cell.rtt_s, cell.configuration.streams): float(np.mean(by_size[size]))
            for cell, by_size in found.items()
            if size in by_size
        }
        table(axis, rtts, streams, means, most_bps)
        axis.set_title(format_bytes(size))
    first = next(iter(found)).configuration
    return DrawnFigure(figure, [f"{in_words(first)} and the other numbers of streams; darker is more."])


@family
def draw_boxes(material: Material, subset: FigureCells) -> DrawnFigure:
    """The selected configurations of the path, then the same on other paths."""
    found = [
        (cells, each) for cells in material.paths for each in subset.configurations if each in cells.rates
    ]
    check(found, "runs of any configuration", "configurations")
    figure, axes = canvas.panels(len(found))
    for axis, (cells, each) in zip(axes, found, strict=True):
        rtts = subset.rtts(cells, each)
        boxes(axis, rtts, [cells.rates[each][rtt_s] for rtt_s in rtts])
        axis.set_title(in_words(each) + (f"\n{cells.path}" if len(material.paths) > 1 else ""))
    canvas.rate_axis(axes[0])
    cells = material.cells
    shown = subset.cells(cells)
    return DrawnFigure(figure, [*limits_summary(cells, shown), _spread(material, shown)])


def boxes(axis: Axes, rtts_s: Sequence[float], rates_bps: Sequence[Floats]) -> None:
    """A box for each RTT: quartiles, median, whiskers of 1.5 interquartile ranges; each run a dot."""
    places = list(range(len(rtts_s)))
    axis.boxplot(
        [rates / 1e9 for rates in rates_bps],
        positions=places,
        widths=0.55,
        showfliers=False,
        boxprops={"color": canvas.INK},
        whiskerprops={"color": canvas.INK},
        capprops={"color": canvas.INK},
        medianprops={"color": canvas.ACCENT, "linewidth": 1.6},
    )
    for place, rates in zip(places, rates_bps, strict=True):
        axis.plot([place] * rates.size, rates / 1e9, ".", color=canvas.MIDDLE, markersize=3, zorder=3)
    axis.set_xticks(places, list(map(in_ms, rtts_s)))
    axis.set_xlabel("RTT, ms")


def _spread(material: Material, shown: Sequence[Cell]) -> str:
    cells = material.cells
    several = {cell: cells.spread_of(cell) for cell in shown if cells.repeats(cell) > 1}
    if not several:
        return "No cell was repeated, so there is no spread to show."
    widest = max(several, key=lambda cell: several[cell])
    return f"The repeats spread most, by {100 * several[widest]:.2g} %, with {widest.words}."


@family
def draw_fits(material: Material, subset: FigureCells) -> DrawnFigure:
    """The selected configurations that have enough RTTs."""
    found = {each: fit for each in subset.configurations if (fit := material.sigmoids(each))}
    check(found, f"a configuration {ENOUGH}", "configurations")
    figure, axes = canvas.panels(len(found), share_y=False)
    shows = []
    for axis, (each, fit) in zip(axes, found.items(), strict=True):
        rates = material.cells.rates[each]
        curves(axis, np.array(list(rates)), np.array([np.mean(of_one) for of_one in rates.values()]), fit)
        axis.set_title(in_words(each))
        canvas.rtt_axis(axis)
        canvas.rate_axis(axis, of="mean throughput")
        if turned := material.transition(each):
            shows.append(
                f"{in_words(each)}: {milliseconds(fit.transition_s)} by sigmoids; without a formula "
                f"{turn_words(turned)}."
            )
    canvas.legend(axes[0])
    return DrawnFigure(figure, shows)


def curves(axis: Axes, rtts_s: Floats, means_bps: Floats, fit: Sigmoids) -> None:
    """Draws measured means, the concave sigmoid solid, the convex one dashed, and the RTT between both."""
    axis.axvline(fit.transition_s * 1e3, color=canvas.PALE, linewidth=0.8)
    fine = np.linspace(rtts_s[0], rtts_s[-1], 200)
    before, after = fine[fine <= fit.transition_s], fine[fine >= fit.transition_s]
    sides = ((fit.concave, before, "-", "concave sigmoid"), (fit.convex, after, "--", "convex sigmoid"))
    for sigmoid, at_s, dash, label in sides:
        if sigmoid is not None:
            rates = fit.scale_bps * sigmoid(at_s) / 1e9
            axis.plot(at_s * 1e3, rates, dash, color=canvas.ACCENT, linewidth=1.4, label=label)
    axis.plot(rtts_s * 1e3, means_bps / 1e9, "o", color=canvas.INK, markersize=4, label="measured mean")


_BESIDE = 0.12
"""Places across between the lines of two buffers: their RTTs are often the same."""


@family
def draw_transitions(material: Material, subset: FigureCells) -> DrawnFigure:
    """Transition RTTs as the paper finds them, by sigmoids, with their bootstrap intervals."""
    found = {each: turn for each in subset.configurations if (turn := by_sigmoids(material, each))}
    controls = sorted({each.congestion_control for each in found})
    check(controls, f"a configuration {ENOUGH}", "congestion controls")
    rtts = sorted({rtt_s for each in found for rtt_s in material.cells.rates[each]})
    streams = sorted({each.streams for each in found})
    figure, axes = canvas.panels(len(controls))
    for axis, control in zip(axes, controls, strict=True):
        own = [each for each in found if each.congestion_control == control]
        lines = groupby(own, key=lambda each: each.buffer_bytes)
        for place, ((size, group), style) in enumerate(zip(lines, canvas.line_styles(), strict=False)):
            by_place = {streams.index(each.streams) + _BESIDE * place: found[each] for each in group}
            intervals(axis, by_place, rtts, buffer_words(size), style)
        axis.set_xticks(range(len(streams)), [str(number) for number in streams])
        axis.set_yticks(range(len(rtts)), list(map(in_ms, rtts)))
        axis.set_ylim(-0.5, len(rtts) - 0.5)
        axis.set_xlabel("streams")
        axis.set_title(name(control))
    axes[0].set_ylabel("transition RTT by sigmoids, ms")
    canvas.legend(axes[0], "buffer of a stream")
    shapes = Counter(str(turned.shape) for each in found if (turned := material.transition(each)))
    shared = ", ".join(f"{number} {shape}" for shape, number in shapes.items())
    return DrawnFigure(
        figure,
        [
            f"Without a formula, of {len(found)} profiles: {shared}.",
            "Bars are bootstrap intervals over the repeats; RTTs are evenly spaced, as they were measured.",
        ],
    )


def intervals(
    axis: Axes,
    by_place: Mapping[float, TransitionRtt],
    rtts_s: Sequence[float],
    label: str,
    style: dict[str, Any],
) -> None:
    """A line of transition RTTs by place across, on the grid of measured RTTs."""
    levels = np.array(
        [[rtts_s.index(each) for each in (turn.low_s, turn.rtt_s, turn.high_s)] for turn in by_place.values()]
    )
    reach = np.abs(levels[:, [0, 2]].T - levels[:, 1])
    axis.errorbar(list(by_place), levels[:, 1], yerr=reach, label=label, capsize=2, elinewidth=0.7, **style)
