"""What the models say of the cells that were measured (``howdah.profiles.models``)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from howdah import HowdahError
from howdah.archive.runs import Configuration
from howdah.profiles import models
from howdah.report.cells import Cell, Floats, in_words
from howdah.report.material import Material
from howdah.text import count


class Modelled(NamedTuple):
    """Of one configuration at its measured RTTs, arrays of one length."""

    rtt_s: Floats
    measured_bps: Floats
    """Means."""
    predicted_bps: Floats
    inside: int
    """Runs within the model's 90 % interval."""
    runs: int


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration's measurements beside the model, over its RTTs."""

    configuration: str
    ratio_median: float
    """Measured over predicted."""
    ratio_least: float
    ratio_most: float
    worst_rtt_s: float
    """Where the ratio is farthest from one."""
    inside: int
    """Runs within the model's 90 % interval."""
    runs: int


def modelled(material: Material, configuration: Configuration) -> Modelled | None:
    """The model beside the measured means; None for a congestion control that has no model.

    The capacity is the lab's, or where none is known the best mean of the path; a run lasts as long as the
    median of the configuration's.
    """
    cells = material.cells
    rates = cells.rates[configuration]
    rtts = np.array(list(rates))
    places = [place for rtt_s in rates for place in cells.places(Cell(configuration, rtt_s))]
    path = models.PathParameters(cells.capacity_bps or cells.most_bps, rtts)
    asked = models.Configuration.of(*configuration)
    try:
        found = models.predict(path, asked, duration_s=float(np.median(cells.runs.elapsed_s[places])))
    except HowdahError:
        return None
    inside = [
        np.sum((low <= of_one) & (of_one <= high))
        for low, of_one, high in zip(found.rate_low_bps, rates.values(), found.rate_high_bps, strict=True)
    ]
    means = np.array([np.mean(of_one) for of_one in rates.values()])
    return Modelled(rtts, means, found.rate_mid_bps, int(np.sum(inside)), len(places))


def beside(material: Material, configurations: Iterable[Configuration]) -> list[Beside]:
    """A row a configuration that has a model."""
    found = ((each, modelled(material, each)) for each in configurations)
    return [_row(in_words(each), one) for each, one in found if one is not None]


def in_short(rows: Sequence[Beside]) -> str:
    """The median error over configurations, and how many runs the interval holds."""
    ratios = [each.ratio_median for each in rows]
    inside, runs = sum(each.inside for each in rows), sum(each.runs for each in rows)
    least, most = min(each.ratio_least for each in rows), max(each.ratio_most for each in rows)
    return (
        f"Measured over predicted is {np.median(ratios):.3g} in the median of "
        f"{count(len(rows), 'configuration')}, from {least:.2g} to {most:.3g}; the model's 90 % interval "
        f"holds {inside} of {count(runs, 'run')}."
    )


def _row(words: str, found: Modelled) -> Beside:
    ratios = found.measured_bps / found.predicted_bps
    return Beside(
        configuration=words,
        ratio_median=float(np.median(ratios)),
        ratio_least=float(ratios.min()),
        ratio_most=float(ratios.max()),
        worst_rtt_s=float(found.rtt_s[np.argmax(np.abs(np.log(ratios)))]),
        inside=found.inside,
        runs=found.runs,
    )
