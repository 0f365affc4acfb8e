"""The canvas of figures: sizes, styles that can be told apart in grey, SVG and PNG.

All colours are of one small palette, so that a page can exchange them for those of a dark screen.
"""

import io
import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from howdah import HowdahError
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
