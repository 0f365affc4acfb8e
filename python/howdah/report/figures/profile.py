"""Mean throughput over RTT, a line for each configuration: HPDC 2017 Figure 1(a), 2015 Figures 1 and 2."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from howdah.report import canvas, held
from howdah.report.cells import Cell, Floats, in_words
from howdah.report.figures.figure import Drawn, Lacking, Subset
from howdah.report.material import Material

_LINES_MAX = 15


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """One panel with all selected configurations."""
    if not subset.configurations:
        return Lacking("runs of any configuration")
    if len(subset.configurations) > _LINES_MAX:
        return Lacking(f"a selection of at most {_LINES_MAX} configurations")
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
    return Drawn(figure, held.summary(cells, shown))


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
