"""Poincaré maps, the rate of each second over that of the second before: HPDC 2017 Figure 12."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from howdah.profiles.dynamics import poincare
from howdah.profiles.dynamics.poincare import MapShape
from howdah.report import canvas
from howdah.report.cells import Cell, Floats, milliseconds
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """For each RTT a panel of each stream by itself, and one of their sum; a mark for each number of
    streams: the newest run of each cell."""
    by_rtt: dict[float, list[Cell]] = {}
    for each in subset.configurations:
        for rtt_s in subset.rtts(material.cells, each):
            if material.traces(cell := Cell(each, rtt_s)):
                by_rtt.setdefault(rtt_s, []).append(cell)
    if not by_rtt:
        return Lacking("runs of these cells with their traces")
    if 2 * len(by_rtt) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX // 2} RTTs")
    figure, axes = canvas.panels(2 * len(by_rtt), share_y=False, abreast=2)
    for pair, (rtt_s, cells) in zip(
        zip(axes[::2], axes[1::2], strict=True), sorted(by_rtt.items()), strict=True
    ):
        separate, aggregate = pair
        for place, cell in enumerate(cells):
            newest, label = material.traces(cell)[-1], str(cell.configuration.streams)
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
    canvas.legend(axes[0], "streams")
    shows = [
        f"{cell.words}: {said}."
        for cells in by_rtt.values()
        for cell in cells
        if (said := shape(material, cell))
    ]
    return Drawn(figure, shows)


def points(axis: Axes, rates_bps: Iterable[Floats], label: str, place: int) -> None:
    """The successive pairs of each sequence of rates."""
    pairs = np.concatenate([poincare.points(rates) for rates in rates_bps]) / 1e9
    axis.plot(pairs[:, 0], pairs[:, 1], label=label, **mark(place))


def mark(place: int) -> dict[str, Any]:
    """How points of the ``place``-th kind are drawn: told apart by their form before their colour."""
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
