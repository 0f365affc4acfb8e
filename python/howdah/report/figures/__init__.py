"""The figures of the page, each a counterpart of one in HPDC 2017, and the families they are drawn by."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from howdah import HowdahError
from howdah.report.cells import PathCells, buffer_words, in_ms, is_buffer, is_rtt, name
from howdah.report.figures import canvas, dynamics, models, rates
from howdah.report.figures.canvas import (
    DrawnFigure,
    FigureCells,
    FigureFamily,
    FigureNeeds,
    everything,
    nearest,
)
from howdah.report.material import Material
from howdah.text import some

FAMILIES: dict[str, FigureFamily] = {
    "profile": rates.draw_profile,
    "throughput": rates.draw_throughput,
    "sizes": rates.draw_sizes,
    "boxes": rates.draw_boxes,
    "fits": rates.draw_fits,
    "transitions": rates.draw_transitions,
    "traces": dynamics.draw_traces,
    "poincare": dynamics.draw_poincare,
    "exponents": dynamics.draw_exponents,
    "relation": dynamics.draw_relation,
    "models": models.draw_models,
}
"""The families of figures that ``howdah profile plot`` draws of a selection."""


class Counterpart(NamedTuple):
    """A figure of HPDC 2017 and how ours is made."""

    number: str
    title: str
    """What the paper's figure shows; in braces what ours may show something else in place of (``titled``)."""
    paper: str
    """A description of the paper's figure."""
    family: str
    statements: tuple[str, ...]
    """Keys of the statements that say whether ours agrees."""
    control: str | None = "cubic"
    """The congestion control whose runs it shows; None for those of every one."""
    buffers: tuple[str, ...] = ("large",)
    """The paper's names of the buffers whose runs it shows."""
    streams: tuple[int, ...] | None = None
    rtts_s: tuple[float, ...] | None = None
    """The RTTs and streams are as ``nearest`` has them."""
    plan: str = "hpdc17-two-hours.toml"
    """The plan of a sweep whose runs it needs."""

    @property
    def measure(self) -> str:
        """What would measure what it needs."""
        return (
            f"measure it with: howdah sweep PLAN.toml, for which howdah's source has scenarios/{self.plan} "
            "and howdah sweep --help says how to write another"
        )

    def titled(self, cells: PathCells) -> str:
        """The title, which says what is shown in place of what the paper has."""
        chosen = self.subset(cells)
        there = bool(chosen.configurations)
        return self.title.format(
            buffers=_Shown(_buffers(chosen, self.buffers) if there else None),
            streams=_Shown(_streams(chosen, self.streams) if there else None),
            rtts=_Shown(_rtts(chosen, self.rtts_s) if there else None),
        )

    def subset(self, cells: PathCells) -> FigureCells:
        """The cells of a path that are nearest to those of the paper's figure."""
        if self.control is None:
            return everything(cells)
        found = [
            nearest(cells, self.control, streams=self.streams, buffer=each, rtts_s=self.rtts_s)
            for each in self.buffers
        ]
        chosen = dict.fromkeys(each for one in found for each in one.configurations)
        return FigureCells(list(chosen), found[0].rtts_s)


class _Shown(NamedTuple):
    """What a title says is shown."""

    words: str | None
    """The data shown; None: what the paper's figure shows."""

    def __format__(self, of_paper: str) -> str:
        return of_paper if self.words is None else self.words


def _buffers(chosen: FigureCells, papers: Sequence[str]) -> str | None:
    sizes = {each.buffer_bytes for each in chosen.configurations}
    there = {each for each in papers if any(is_buffer(size, each) for size in sizes)}
    if len(there) == len(papers) == len(sizes):
        return None
    shown = sorted(sizes, key=lambda size: math.inf if size is None else size)
    return f"{some(map(buffer_words, shown))} buffers (in place of {some(papers)} ones)"


def _streams(chosen: FigureCells, papers: Collection[int] | None) -> str | None:
    numbers = {each.streams for each in chosen.configurations}
    if papers is None or numbers == set(papers):
        return None
    plural = "" if numbers == {1} else "s"
    return f"{some(map(str, sorted(numbers)))} stream{plural} (in place of {some(map(str, papers))})"


def _rtts(chosen: FigureCells, papers_s: Sequence[float] | None) -> str | None:
    if papers_s is None:
        return None
    shown_s = sorted(chosen.rtts_s or ())
    if len(shown_s) == len(papers_s) and all(map(is_rtt, shown_s, papers_s)):
        return None
    return f"{some(map(in_ms, shown_s))} ms (in place of {some(map(in_ms, papers_s))} ms)"


_EVERY_BUFFER = ("default", "normal", "large")

COUNTERPARTS = (
    Counterpart(
        "1a",
        "Throughput profile of Scalable, {streams:one stream}",
        "Concave at small RTTs and convex at long ones: 9 Gb/s and more up to some 100 ms, then a fall.",
        "profile",
        ("dual", "falls-with-rtt"),
        control="scalable",
        streams=(1,),
    ),
    Counterpart(
        "1b",
        "Traces of Scalable, {streams:one stream}",
        "Steady near the peak at small RTTs; at 366 ms a ramp-up of some 10 s, and deeper falls after it.",
        "traces",
        ("ramp-up",),
        control="scalable",
        streams=(1,),
        rtts_s=(0.0118, 0.0916, 0.366),
    ),
    Counterpart(
        "3",
        "H-TCP: RTT, streams and {buffers:buffers}",
        "Larger buffers lift all long connections: 10 streams at 366 ms from 100 Mb/s to nearly 8 Gb/s.",
        "throughput",
        ("rises-with-buffers", "buffer-gain", "rises-with-streams", "alike"),
        control="htcp",
        buffers=_EVERY_BUFFER,
    ),
    Counterpart(
        "4",
        "Scalable, {buffers:large buffers}: RTT, streams and connections",
        "10GigE carries more than SONET up to middle RTTs, most with many streams; at long ones alike.",
        "throughput",
        ("rises-with-streams", "scalable-small-rtt"),
        control="scalable",
    ),
    Counterpart(
        "5",
        "CUBIC, {buffers:large buffers}: RTT, streams and connections",
        "As Scalable, with less between 10GigE and SONET.",
        "throughput",
        ("rises-with-streams", "falls-with-rtt"),
    ),
    Counterpart(
        "6",
        "CUBIC, {buffers:large buffers}: RTT, streams and transfer sizes",
        "Larger transfers have more throughput, most at long RTTs, and streams then matter less.",
        "sizes",
        ("rises-with-size", "flatter-with-size"),
        plan="hpdc17-sizes.toml",
    ),
    Counterpart(
        "7",
        "Box plots: CUBIC, {buffers:large buffers}, {streams:few and many streams}",
        "10GigE varies less than SONET; with 10 streams the convex part at long RTTs nearly goes.",
        "boxes",
        ("sonet-varies-more", "streams-widen"),
        streams=(1, 4, 10),
    ),
    Counterpart(
        "8",
        "Box plots: CUBIC, {streams:10 streams}, {buffers:each buffer}",
        "Convex with the default buffer; concave up to 91.6 ms with the normal, 183 ms with the large.",
        "boxes",
        ("ten-streams", "buffers-widen"),
        buffers=_EVERY_BUFFER,
        streams=(10,),
    ),
    Counterpart(
        "9",
        "Sigmoid fits: CUBIC, {streams:one stream}, {buffers:each buffer}",
        "Convex alone with the default buffer, both parts with the others; the transition grows with it.",
        "fits",
        ("default-convex", "buffers-widen"),
        buffers=_EVERY_BUFFER,
        streams=(1,),
    ),
    Counterpart(
        "10",
        "Transition RTT over streams and buffers",
        "CUBIC: 0.4 to 11.8 ms with the default buffer, 45.6 to 91.6 ms with the normal, 91.6 to 183 ms "
        "with the large, longer with more streams; H-TCP and Scalable alike.",
        "transitions",
        ("transition-default", "transition-normal", "transition-large", "streams-widen", "buffers-widen"),
        control=None,
    ),
    Counterpart(
        "11",
        "Traces: CUBIC, {buffers:large buffers}, {rtts:45.6 ms}",
        "Each stream's rate falls with their number; the sum stays at about 9 Gb/s.",
        "traces",
        ("near-nine",),
        streams=(1, 4, 7, 10),
        rtts_s=(0.0456,),
    ),
    Counterpart(
        "12",
        "Poincaré maps: CUBIC, {buffers:large buffers}, {rtts:11.8 and 183 ms}",
        "One stream ranges much wider at 183 ms; there the ramp-up is a line of points from the origin to "
        "the cluster, which lies along the 45° line; that of 11.8 ms leans to the left.",
        "poincare",
        ("wider-map", "tilt"),
        rtts_s=(0.0118, 0.183),
    ),
    Counterpart(
        "13",
        "Lyapunov exponents: CUBIC, {buffers:large buffers}, {rtts:11.8 and 183 ms}",
        "Nearer to zero and closer together at 183 ms; nearer to zero with more streams.",
        "exponents",
        ("exponents-rtt", "exponents-streams"),
        rtts_s=(0.0118, 0.183),
    ),
    Counterpart(
        "14",
        "Throughput over Lyapunov exponent: "
        "CUBIC, {streams:10 streams}, {buffers:large buffers}, {rtts:183 ms}",
        "Throughput falls as the exponent grows.",
        "relation",
        ("throughput-falls-with-exponent",),
        streams=(10,),
        rtts_s=(0.183,),
    ),
)
"""Figure 2 is a drawing of the test bed; the page's first table stands in its place."""


def build(counterpart: Counterpart, material: Material) -> DrawnFigure | FigureNeeds:
    """The figure, or why there is none and what would measure it."""
    subset = counterpart.subset(material.cells)
    if not subset.configurations:
        return FigureNeeds(f"needs runs of {name(str(counterpart.control))}; {counterpart.measure}")
    drawn = FAMILIES[counterpart.family](material, subset)
    if isinstance(drawn, FigureNeeds):
        return FigureNeeds(f"needs {drawn.needs}; {counterpart.measure}")
    return drawn


def plot(family: str, material: Material, file: Path) -> list[str]:
    """Writes one family's figure of all that is in ``material`` to a .svg or .png; returns what it shows.

    Raises HowdahError for another kind of file, or when there is nothing to draw.
    """
    kind = canvas.suffix(file)
    drawn = FAMILIES[family](material, everything(material.cells))
    if isinstance(drawn, FigureNeeds):
        raise HowdahError(f"no figure {family} of this selection: it needs {drawn.needs}")
    try:
        file.write_bytes(canvas.encode(drawn.figure, kind, family))
    except OSError as error:
        raise HowdahError(f"cannot write {file}: {error.strerror}; give another file") from None
    return drawn.shows
