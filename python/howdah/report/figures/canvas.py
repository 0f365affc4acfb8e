"""A figure: which cells it shows, the canvas it is drawn on, and what is said beneath it.

The canvas has sizes, styles that can be told apart in grey, SVG and PNG. All colours are of one small
palette, so that a page can exchange them for those of a dark screen.
"""

import io
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from howdah import HowdahError
from howdah.archive.runs import Configuration
from howdah.report.cells import PAPER_BUFFERS, Cell, PathCells, is_buffer
from howdah.report.material import Material
from howdah.text import with_extra

try:
    import matplotlib as mpl
except ImportError:
    raise HowdahError(f"figures need matplotlib; install it with: {with_extra('figures')}") from None

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MIDDLE, PALE, FILL, ACCENT = "#121212", "#636363", "#a3a3a3", "#dcdcdc", "#b4501a"
PALETTE = {INK: "ink", MIDDLE: "middle", PALE: "pale", FILL: "fill", ACCENT: "accent"}
"""Colour in a drawing → its CSS variable on a page."""

SUFFIXES = ("svg", "png")

_STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
_PANEL_INCHES = (3.3, 2.6)
_PIXELS = 1.45
"""A point of a figure takes at most so many pixels of a page: its text is then about as large as the
page's."""


def panels(
    count: int, *, width: float = 1.0, share_y: bool = True, abreast: int = 3
) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, at most ``abreast`` in a row; ``width`` stretches each."""
    across = min(count, abreast)
    down = -(-count // across)
    with mpl.rc_context(_STYLE):
        figure = Figure(
            figsize=(_PANEL_INCHES[0] * width * across, _PANEL_INCHES[1] * down), layout="constrained"
        )
        grid = figure.subplots(down, across, squeeze=False, sharey=share_y)
    axes = [axis for row in grid for axis in row]
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def line_styles() -> Iterator[dict[str, Any]]:
    """Styles for lines, each told from the others by dash and marker before colour."""
    for colour, (dash, marker) in product(
        (INK, ACCENT, MIDDLE),
        (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ((0, (5, 1, 1, 1, 1, 1)), "v")),
    ):
        yield {"color": colour, "linestyle": dash, "marker": marker, "markersize": 3.5, "linewidth": 1.2}


def rtt_axis(axis: Axes) -> None:
    """RTT across, linear: on another scale concave would look convex."""
    axis.set_xlabel("RTT, ms")
    axis.set_xlim(left=0)


def rate_axis(axis: Axes, *, of: str = "throughput") -> None:
    """Throughput up, from zero."""
    axis.set_ylabel(f"{of}, Gb/s")
    axis.set_ylim(bottom=0)


def legend(axis: Axes, title: str | None = None) -> None:
    """A legend where there is more than nothing to tell apart."""
    with mpl.rc_context(_STYLE):
        if axis.get_legend_handles_labels()[0]:
            axis.legend(title=title, title_fontsize=8.0)


def suffix(file: Path) -> str:
    """``svg`` or ``png``. Raises HowdahError for another."""
    found = file.suffix.lower().removeprefix(".")
    if found not in SUFFIXES:
        raise HowdahError(f"{file}: a figure is written as .svg or .png; name it {file.stem}.svg")
    return found


def encode(figure: Figure, kind: str, name: str, *, transparent: bool = False) -> bytes:
    """The figure as SVG or PNG; the same figure gives the same bytes."""
    out = io.BytesIO()
    undated = ("Date", "Creator", "Format", "Type") if kind == "svg" else ("Software",)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(out, format=kind, dpi=150, metadata=dict.fromkeys(undated), transparent=transparent)
    return out.getvalue()


def inline(figure: Figure, name: str, words: str) -> str:
    """The figure as an SVG element for a page: on the page's own ground, its colours CSS variables, its ids
    beginning with ``name``, ``words`` what it shows."""
    text = encode(figure, "svg", name, transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, count=1, flags=re.DOTALL)
    width, height = (72 * inches for inches in figure.get_size_inches())
    opening = (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width: {_PIXELS * width:.0f}px" role="img" '
        f'aria-label="{words}">'
    )
    text = re.sub(r"<svg.*?>", lambda _: opening, text, count=1, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'((?:xlink:)?href="#|url\(#)', lambda found: f"{found.group()}{name}-", text)
    text = text.replace("xlink:href", "href")
    for colour, variable in PALETTE.items():
        text = text.replace(colour, f"var(--{variable})")
    return text


def shades(values: Sequence[float], most: float) -> list[str]:
    """A grey for each value from 0 (white) to ``most``, pale enough for black text."""
    return [
        f"#{level:02x}{level:02x}{level:02x}"
        for level in (round(255 - 130 * min(v / most, 1)) for v in values)
    ]


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
