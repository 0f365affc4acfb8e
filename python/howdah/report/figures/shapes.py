"""Figures of where profiles turn: pairs of sigmoids (HPDC 2017 Figure 9) and transition RTTs (Figure 10)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from howdah.profiles.transition.sigmoids import Sigmoids
from howdah.report import canvas
from howdah.report.cells import Floats, buffer_words, in_ms, in_words, milliseconds, name
from howdah.report.figures.figure import DrawnFigure, FigureCells, check, family
from howdah.report.material import Material
from howdah.report.statements.transitions import ENOUGH, TransitionRtt, by_sigmoids
from howdah.report.statements.transitions import in_words as turn_words


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
