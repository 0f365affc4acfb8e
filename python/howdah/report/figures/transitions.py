"""Transition RTT over streams, a panel a congestion control, a line a buffer: HPDC 2017 Figure 10."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from howdah.report import canvas
from howdah.report.cells import buffer_words, in_ms, name
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material
from howdah.report.statements.transitions import ENOUGH, Turn, by_sigmoids

_BESIDE = 0.12
"""Places across between the lines of two buffers: their RTTs are often the same."""


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """Transition RTTs as the paper finds them, by sigmoids, with their bootstrap intervals."""
    found = {each: turn for each in subset.configurations if (turn := by_sigmoids(material, each))}
    controls = sorted({each.congestion_control for each in found})
    if not found:
        return Lacking(f"a configuration {ENOUGH}")
    if len(controls) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} congestion controls")
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
    return Drawn(
        figure,
        [
            f"Without a formula, of {len(found)} profiles: {shared}.",
            "Bars are bootstrap intervals over the repeats; RTTs are evenly spaced, as they were measured.",
        ],
    )


def intervals(
    axis: Axes, by_place: Mapping[float, Turn], rtts_s: Sequence[float], label: str, style: dict[str, Any]
) -> None:
    """A line of transition RTTs by place across, on the grid of measured RTTs."""
    levels = np.array(
        [[rtts_s.index(each) for each in (turn.low_s, turn.rtt_s, turn.high_s)] for turn in by_place.values()]
    )
    reach = np.abs(levels[:, [0, 2]].T - levels[:, 1])
    axis.errorbar(list(by_place), levels[:, 1], yerr=reach, label=label, capsize=2, elinewidth=0.7, **style)
