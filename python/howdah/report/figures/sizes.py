"""Mean throughput over RTT and streams, a panel for each transfer size: HPDC 2017 Figure 6."""

import numpy as np

from howdah._native import format_bytes
from howdah.report import canvas
from howdah.report.cells import in_words
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.figures.throughput import table
from howdah.report.material import Material


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """The selected cells that were measured with transfers of several sizes."""
    chosen = set(subset.configurations)
    found = {
        cell: by_size
        for cell, by_size in material.sizes.items()
        if cell.configuration in chosen and (subset.rtts_s is None or cell.rtt_s in subset.rtts_s)
    }
    sizes = sorted({size for by_size in found.values() for size in by_size})
    if len(sizes) < 2:
        return Lacking("one configuration measured with two transfer sizes")
    if len(sizes) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} transfer sizes")
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
    return Drawn(figure, [f"{in_words(first)} and the other numbers of streams; darker is more."])
