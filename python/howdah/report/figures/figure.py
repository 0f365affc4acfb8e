"""A figure: which cells it shows, how it is drawn, and what is said beneath it."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from howdah.archive.runs import Configuration
from howdah.report.cells import PAPER_BUFFERS, PathCells, is_buffer
from howdah.report.material import Material

PANELS_MAX = 12


class DrawnFigure(NamedTuple):
    """A figure, and sentences of what it shows."""

    figure: Figure
    shows: list[str]


class FigureNeeds(NamedTuple):
    """Why there is no figure: what it needs."""

    needs: str


class FigureCells(NamedTuple):
    """What a figure is drawn of."""

    configurations: Sequence[Configuration]
    rtts_s: Collection[float] | None = None
    """None: all that were measured."""

    def rtts(self, cells: PathCells, configuration: Configuration) -> list[float]:
        """Those of a configuration that are asked for, in order."""
        return [rtt_s for rtt_s in cells.rates[configuration] if self.rtts_s is None or rtt_s in self.rtts_s]


FigureFamily = Callable[[Material, FigureCells], DrawnFigure | FigureNeeds]


def everything(cells: PathCells) -> FigureCells:
    """All cells."""
    return FigureCells(list(cells.rates))


def nearest(
    cells: PathCells,
    control: str,
    *,
    streams: Collection[int] | None = None,
    buffer: str | None = None,
    rtts_s: Sequence[float] | None = None,
) -> FigureCells:
    """The cells of a congestion control that are nearest to the paper's.

    ``streams``: for each number, that measured nearest to it. ``buffer``: the paper's of that name, else that
    nearest in size, autotuned ones last. ``rtts_s``: likewise.
    """
    chosen = list(cells.where(controls=[control]))
    if buffer is not None and chosen:
        sizes = {each.buffer_bytes for each in chosen}
        size = min(sizes, key=lambda each: _distance(each, buffer))
        chosen = [each for each in chosen if each.buffer_bytes == size]
    if streams is not None and chosen:
        numbers = {each.streams for each in chosen}
        wanted = {min(numbers, key=lambda each: abs(math.log(each / paper))) for paper in streams}
        chosen = [each for each in chosen if each.streams in wanted]
    if rtts_s is None or not chosen:
        return FigureCells(chosen)
    measured = sorted({rtt_s for each in chosen for rtt_s in cells.rates[each]})
    return FigureCells(chosen, {min(measured, key=lambda each: abs(each - paper)) for paper in rtts_s})


def _distance(buffer_bytes: float | None, paper: str) -> float:
    if buffer_bytes is None:
        return math.inf
    return 0.0 if is_buffer(buffer_bytes, paper) else abs(math.log(buffer_bytes / PAPER_BUFFERS[paper]))
