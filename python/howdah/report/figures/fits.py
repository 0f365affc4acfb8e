"""The paper's pair of sigmoids over the measured profile, a panel a configuration: HPDC 2017 Figure 9."""

import numpy as np
from matplotlib.axes import Axes

from howdah.profiles.sigmoids import Sigmoids
from howdah.report import canvas
from howdah.report.cells import Floats, in_words, milliseconds
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material
from howdah.report.statements.transitions import ENOUGH
from howdah.report.statements.transitions import in_words as turn_words


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """The selected configurations that have enough RTTs."""
    found = {each: fit for each in subset.configurations if (fit := material.sigmoids(each))}
    if not found:
        return Lacking(f"a configuration {ENOUGH}")
    if len(found) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} configurations")
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
    return Drawn(figure, shows)


def curves(axis: Axes, rtts_s: Floats, means_bps: Floats, fit: Sigmoids) -> None:
    """Measured means, the concave sigmoid solid, the convex one dashed, and where one follows the other."""
    axis.axvline(fit.transition_s * 1e3, color=canvas.PALE, linewidth=0.8)
    fine = np.linspace(rtts_s[0], rtts_s[-1], 200)
    before, after = fine[fine <= fit.transition_s], fine[fine >= fit.transition_s]
    sides = ((fit.concave, before, "-", "concave sigmoid"), (fit.convex, after, "--", "convex sigmoid"))
    for sigmoid, at_s, dash, label in sides:
        if sigmoid is not None:
            rates = fit.scale_bps * sigmoid(at_s) / 1e9
            axis.plot(at_s * 1e3, rates, dash, color=canvas.ACCENT, linewidth=1.4, label=label)
    axis.plot(rtts_s * 1e3, means_bps / 1e9, "o", color=canvas.INK, markersize=4, label="measured mean")
