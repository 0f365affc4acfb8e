"""Throughput in time, each stream and their sum, a panel for each cell: HPDC 2017 Figures 1(b) and 11."""

from itertools import cycle, product

from matplotlib.axes import Axes

from howdah.profiles.dynamics.traces import Traces
from howdah.report import canvas
from howdah.report.cells import Cell, gigabits
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material
from howdah.report.traces import ramp_s, sustained_bps

_THIN = list(product(("-", "--", ":", "-."), (canvas.ACCENT, canvas.MIDDLE, canvas.PALE)))


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """The newest run with a trace of each selected cell."""
    cells = [
        Cell(each, rtt_s) for each in subset.configurations for rtt_s in subset.rtts(material.cells, each)
    ]
    found = [(cell, of_one[-1]) for cell in cells if (of_one := material.traces(cell))]
    if not found:
        return Lacking("a run of these cells with its trace")
    if len(found) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} configurations and RTTs")
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
    return Drawn(figure, [*shows, f"Rates over {' and '.join(f'{width:g}' for width in widths)} s."])


def lines(axis: Axes, trace: Traces) -> None:
    """The sum of the streams thick, each stream thin."""
    if len(trace.rates_bps) > 1:
        for rates, (dash, colour) in zip(trace.rates_bps, cycle(_THIN), strict=False):
            axis.plot(trace.ends_s, rates / 1e9, linestyle=dash, color=colour, linewidth=0.7)
    axis.plot(trace.ends_s, trace.aggregate_bps / 1e9, color=canvas.INK, linewidth=1.8)
    axis.set_xlabel("time, s")
    axis.set_xlim(left=0)
