"""The model beside what was measured, a panel a congestion control and buffer."""

from itertools import groupby

from howdah.report import canvas
from howdah.report.cells import buffer_words, name
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.material import Material
from howdah.report.models import beside, in_short, modelled
from howdah.text import count


def draw(material: Material, subset: Subset) -> Drawn | Lacking:
    """Means as marks, the model as a line of the same colour, for each number of streams."""
    found = {each: one for each in subset.configurations if (one := modelled(material, each))}
    panels = [
        list(part)
        for _, part in groupby(found, key=lambda each: (each.congestion_control, each.buffer_bytes))
    ]
    if not panels:
        return Lacking("runs of a congestion control that has a model")
    if len(panels) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} congestion controls and buffers")
    figure, axes = canvas.panels(len(panels), share_y=False)
    for axis, part in zip(axes, panels, strict=True):
        for each, style in zip(part, canvas.line_styles(), strict=False):
            one, marks = found[each], {**style, "linestyle": "none"}
            axis.plot(one.rtt_s * 1e3, one.predicted_bps / 1e9, **{**style, "marker": ""})
            label = count(each.streams, "stream")
            axis.plot(one.rtt_s * 1e3, one.measured_bps / 1e9, label=label, **marks)
        axis.set_title(f"{name(part[0].congestion_control)}, {buffer_words(part[0].buffer_bytes)}")
        canvas.rtt_axis(axis)
        canvas.rate_axis(axis)
    canvas.legend(axes[0])
    return Drawn(figure, ["Marks: measured means; lines: the model.", in_short(beside(material, found))])
