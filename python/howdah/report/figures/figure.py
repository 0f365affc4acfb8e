"""A figure: which cells it shows, how it is drawn, and what is said beneath it."""

import math
from collections.abc import Callable, Collection, Sequence, Sized
from typing import NamedTuple

from matplotlib.figure import Figure

from howdah.archive.runs import Configuration
from howdah.report.cells import PAPER_BUFFERS, Cell, PathCells, is_buffer
from howdah.report.material import Material

PANELS_MAX = 12


class DrawnFigure(NamedTuple):
    """A figure, and sentences of what it shows."""

    figure: Figure
    shows: list[str]


class FigureNeeds(NamedTuple):
    """The reason why there is no figure: what it needs."""

    needs: str


class _NotEnough(Exception):
    """Raised where a figure has too few runs, with what it needs."""


class FigureCells(NamedTuple):
    """The cells that a figure is drawn of."""

    configurations: Sequence[Configuration]
    rtts_s: Collection[float] | None = None
    """The RTTs that are drawn; None is all that were measured."""

    def rtts(self, cells: PathCells, configuration: Configuration) -> list[float]:
        """The RTTs of a configuration that are drawn, in order."""
        return [rtt_s for rtt_s in cells.rates[configuration] if self.rtts_s is None or rtt_s in self.rtts_s]

    def cells(self, of: PathCells) -> list[Cell]:
        """The cells of these configurations of a path, by configuration and then by RTT."""
        return [Cell(each, rtt_s) for each in self.configurations for rtt_s in self.rtts(of, each)]


FigureFamily = Callable[[Material, FigureCells], DrawnFigure | FigureNeeds]


def family(draw: Callable[[Material, FigureCells], DrawnFigure]) -> FigureFamily:
    """Makes a family of a function that calls ``check`` before it draws."""

    def drawn_or_needs(material: Material, chosen: FigureCells) -> DrawnFigure | FigureNeeds:
        try:
            return draw(material, chosen)
        except _NotEnough as needs:
            return FigureNeeds(str(needs))

    return drawn_or_needs


def check(found: Sized, needs: str, of: str, *, least: int = 1, most: int = PANELS_MAX) -> None:
    """Ends the drawing of a ``family`` that needs more than ``found``, or has room for fewer.

    ``needs`` is what there has to be at least, ``of`` what there can be at most so many of.
    """
    if len(found) < least:
        raise _NotEnough(needs)
    if len(found) > most:
        raise _NotEnough(f"a selection of at most {most} {of}")


def everything(cells: PathCells) -> FigureCells:
    """Every cell of a path."""
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
    nearest in size, autotuned ones last. ``rtts_s``: for each RTT, that measured nearest to it.
    """
    chosen = list(cells.where(controls=[control]))
    if buffer is not None and chosen:
        sizes = {each.buffer_bytes for each in chosen}
        size = min(sizes, key=lambda each: _distance(each, buffer))
        chosen = [each for each in chosen if each.buffer_bytes == size]
    if streams is not None and chosen:
        numbers = {each.streams for each in chosen}
        nearest_streams = {min(numbers, key=lambda each: abs(math.log(each / paper))) for paper in streams}
        chosen = [each for each in chosen if each.streams in nearest_streams]
    if rtts_s is None or not chosen:
        return FigureCells(chosen)
    measured = sorted({rtt_s for each in chosen for rtt_s in cells.rates[each]})
    return FigureCells(chosen, {min(measured, key=lambda each: abs(each - paper)) for paper in rtts_s})


def _distance(buffer_bytes: float | None, paper: str) -> float:
    if buffer_bytes is None:
        return math.inf
    return 0.0 if is_buffer(buffer_bytes, paper) else abs(math.log(buffer_bytes / PAPER_BUFFERS[paper]))
