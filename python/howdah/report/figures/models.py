"""The model of ``profiles.theory`` beside what was measured, a panel a congestion control and buffer."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
import numpy as np

from howdah import HowdahError
from howdah.archive.runs import Configuration
from howdah.profiles import theory
from howdah.report.cells import Cell, Floats, buffer_words, in_words, name
from howdah.report.figures import canvas
from howdah.report.figures.canvas import DrawnFigure, FigureCells, check, family
from howdah.report.material import Material
from howdah.text import count


class ModelledProfile(NamedTuple):
    """The model of one configuration at its measured RTTs, arrays of one length."""

    rtt_s: Floats
    measured_bps: Floats
    """The means of the runs."""
    predicted_bps: Floats
    inside: int
    """The runs within the model's 90 % interval."""
    runs: int


class ModelErrors(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration's measurements beside the model, over its RTTs."""

    configuration: str
    ratio_median: float
    """The median ratio of measured to predicted rate."""
    ratio_least: float
    ratio_most: float
    worst_rtt_s: float
    """The RTT where the ratio is farthest from one."""
    inside: int
    """The runs within the model's 90 % interval."""
    runs: int


def modelled_profile(material: Material, configuration: Configuration) -> ModelledProfile | None:
    """The model beside the measured means; None for a congestion control that has no model.

    The capacity is the lab's, or where none is known the best mean of the path; a run lasts as long as the
    median of the configuration's.
    """
    cells = material.cells
    rates = cells.rates[configuration]
    rtts = np.array(list(rates))
    places = [place for rtt_s in rates for place in cells.places(Cell(configuration, rtt_s))]
    path = theory.PathParameters(cells.capacity_bps or cells.most_bps, rtts)
    duration_s = float(np.median(cells.runs.elapsed_s[places]))
    try:
        found = theory.predict(path, *configuration, duration_s=duration_s)
    except HowdahError:
        return None
    inside = [
        np.sum((low <= of_one) & (of_one <= high))
        for low, of_one, high in zip(found.rate_low_bps, rates.values(), found.rate_high_bps, strict=True)
    ]
    means = np.array([np.mean(of_one) for of_one in rates.values()])
    return ModelledProfile(rtts, means, found.rate_mid_bps, int(np.sum(inside)), len(places))


def model_errors(material: Material, configurations: Iterable[Configuration]) -> list[ModelErrors]:
    """A row a configuration that has a model."""
    found = ((each, modelled_profile(material, each)) for each in configurations)
    return [_row(in_words(each), one) for each, one in found if one is not None]


def model_errors_in_short(rows: Sequence[ModelErrors]) -> str:
    """The median error over configurations, and how many runs the interval holds."""
    ratios = [each.ratio_median for each in rows]
    inside, runs = sum(each.inside for each in rows), sum(each.runs for each in rows)
    least, most = min(each.ratio_least for each in rows), max(each.ratio_most for each in rows)
    return (
        f"Measured over predicted is {np.median(ratios):.3g} in the median of "
        f"{count(len(rows), 'configuration')}, from {least:.2g} to {most:.3g}; the model's 90 % interval "
        f"holds {inside} of {count(runs, 'run')}."
    )


def _row(words: str, found: ModelledProfile) -> ModelErrors:
    ratios = found.measured_bps / found.predicted_bps
    return ModelErrors(
        configuration=words,
        ratio_median=float(np.median(ratios)),
        ratio_least=float(ratios.min()),
        ratio_most=float(ratios.max()),
        worst_rtt_s=float(found.rtt_s[np.argmax(np.abs(np.log(ratios)))]),
        inside=found.inside,
        runs=found.runs,
    )


@family
def draw_models(material: Material, subset: FigureCells) -> DrawnFigure:
    """Means as marks, the model as a line of the same colour, for each number of streams."""
    found = {each: one for each in subset.configurations if (one := modelled_profile(material, each))}
    panels = [
        list(part)
        for _, part in groupby(found, key=lambda each: (each.congestion_control, each.buffer_bytes))
    ]
    check(panels, "runs of a congestion control that has a model", "congestion controls and buffers")
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
    return DrawnFigure(
        figure,
        ["Marks: measured means; lines: the model.", model_errors_in_short(model_errors(material, found))],
    )
