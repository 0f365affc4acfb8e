"""Box plots of the repeats at each RTT, a panel for each configuration: HPDC 2017 Figures 7 and 8."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from howdah.report import canvas, held
from howdah.report.cells import Cell, Floats, in_ms, in_words
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """The selected configurations of the path, then the same on other paths."""
    found = [
        (cells, each) for cells in material.paths for each in subset.configurations if each in cells.rates
    ]
    if not found:
        return Lacking("runs of any configuration")
    if len(found) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} configurations")
    figure, axes = canvas.panels(len(found))
    for axis, (cells, each) in zip(axes, found, strict=True):
        rtts = subset.rtts(cells, each)
        boxes(axis, rtts, [cells.rates[each][rtt_s] for rtt_s in rtts])
        axis.set_title(in_words(each) + (f"\n{cells.path}" if len(material.paths) > 1 else ""))
    canvas.rate_axis(axes[0])
    cells = material.cells
    shown = [Cell(each, rtt_s) for each in subset.configurations for rtt_s in subset.rtts(cells, each)]
    return Drawn(figure, [*held.summary(cells, shown), _spread(material, shown)])


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
