"""Mean throughput over RTT and streams, a panel a congestion control and buffer: HPDC 2017 Figures 3 to 5.

Where the papers draw bars in perspective, cells carry their number: nothing is hidden behind another.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from howdah.archive.runs import Configuration
from howdah.report import canvas, held
from howdah.report.cells import Cell, Cells, buffer_words, in_ms, name
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material

_ON_GREY = "#010101"
"""Not the ink of the page, which is pale on a dark screen: the cells stay as they are."""


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """The selected cells of the path, then the same configurations on other paths."""
    found = [(cells, part) for cells in material.paths for part in _panels(cells, subset)]
    if not found:
        return Lacking("runs of any configuration")
    if len(found) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} congestion controls and buffers")
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
    shown = [
        Cell(each, rtt_s) for each in subset.configurations for rtt_s in subset.rtts(material.cells, each)
    ]
    return Drawn(figure, held.summary(material.cells, shown))


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


def _panels(cells: Cells, subset: Subset) -> list[list[Configuration]]:
    here = [each for each in subset.configurations if each in cells.rates]
    return [
        list(part) for _, part in groupby(here, key=lambda each: (each.congestion_control, each.buffer_bytes))
    ]
