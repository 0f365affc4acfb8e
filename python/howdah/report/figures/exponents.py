"""Lyapunov exponents of traces: over the rate (HPDC 2017 Figure 13), and throughput over them (Figure 14)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from howdah.profiles.dynamics.describe import Dynamics, describe
from howdah.profiles.dynamics.lyapunov import Exponents
from howdah.profiles.dynamics.relation import Relation
from howdah.profiles.dynamics.usable import Unknown
from howdah.profiles.dynamics.verdict import Verdict
from howdah.report import canvas
from howdah.report.cells import Cell, milliseconds
from howdah.report.figures.figure import PANELS_MAX, Drawn, Lacking, Subset
from howdah.report.figures.poincare import mark
from howdah.report.material import Material
from howdah.report.statements.dynamics import correlation_words
from howdah.text import count

_NEEDS = "traces of these cells with 30 samples or more after the ramp-up"


def local(material: Material, subset: Subset) -> Drawn | Lacking:
    """The local exponent at each state of the aggregate, a panel for each RTT, a mark for each number of
    streams: the newest run of each cell."""
    by_rtt: dict[float, list[Cell]] = {}
    for cell in _cells(material, subset):
        by_rtt.setdefault(cell.rtt_s, []).append(cell)
    if not by_rtt:
        return Lacking(_NEEDS)
    if len(by_rtt) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} RTTs")
    figure, axes = canvas.panels(len(by_rtt), width=1.3)
    for axis, (rtt_s, cells) in zip(axes, sorted(by_rtt.items()), strict=True):
        axis.axhline(0, color=canvas.PALE, linewidth=0.8)
        for place, cell in enumerate(cells):
            states(axis, _known(material, cell)[-1], str(cell.configuration.streams), place)
        axis.set_title(milliseconds(rtt_s))
        axis.set_xlabel("rate, Gb/s")
        axis.set_ylabel(f"local Lyapunov exponent,\nnats in {material.bin_s(rtt_s):g} s")
    canvas.legend(axes[-1], "streams")
    shown = [cell for cells in by_rtt.values() for cell in cells]
    return Drawn(figure, _beside_surrogates(material, shown))


def relation(material: Material, subset: Subset) -> Drawn | Lacking:
    """Mean throughput of each run over its exponent, a panel for each cell."""
    cells = _cells(material, subset)
    if not cells:
        return Lacking(_NEEDS)
    if len(cells) > PANELS_MAX:
        return Lacking(f"a selection of at most {PANELS_MAX} configurations and RTTs")
    figure, axes = canvas.panels(len(cells), width=1.3, share_y=False)
    shows = []
    for axis, cell in zip(axes, cells, strict=True):
        exponents, rates_bps = material.exponents_and_rates(cell)
        axis.plot(
            exponents, np.array(rates_bps) / 1e9, "o", color=canvas.INK, markersize=4, markerfacecolor="none"
        )
        axis.set_title(cell.words)
        axis.set_xlabel(f"Lyapunov exponent of a run, nats in {material.bin_s(cell.rtt_s):g} s")
        found = material.relation(cell)
        said = correlation_words(found) if isinstance(found, Relation) else found.reason
        shows.append(f"{cell.words}: {said}.")
    axes[0].set_ylabel("mean throughput of the run, Gb/s")
    return Drawn(figure, shows)


def states(axis: Axes, found: Exponents, label: str, place: int) -> None:
    """The exponent at each state of a run, over the rate of that state."""
    axis.plot(found.states / 1e9, found.local_at_states, label=label, **mark(place))


def _cells(material: Material, subset: Subset) -> list[Cell]:
    every = (
        Cell(each, rtt_s) for each in subset.configurations for rtt_s in subset.rtts(material.cells, each)
    )
    return [cell for cell in every if _known(material, cell)]


def _known(material: Material, cell: Cell) -> list[Exponents]:
    return [each for each in material.exponents(cell) if isinstance(each, Exponents)]


def _beside_surrogates(material: Material, cells: Sequence[Cell]) -> list[str]:
    """The exponents drawn beside those of surrogates: a positive one alone is no evidence of chaos."""
    newest = {cell: describe(material.traces(cell)[-1].aggregate_bps, seed=0) for cell in cells}
    said = [_in_words(cell, found) for cell, found in newest.items()]
    verdicts = [found.verdict for found in newest.values() if isinstance(found.verdict, Verdict)]
    chaotic = sum(each.chaotic for each in verdicts)
    return [
        *said,
        f"Of {count(len(verdicts), 'trace')} drawn {chaotic} go beyond their surrogates as chaos does.",
    ]


def _in_words(cell: Cell, found: Dynamics) -> str:
    if isinstance(found.exponents, Unknown) or isinstance(found.beside, Unknown):
        return f"{cell.words}: no exponent."
    local_, rosenstein = found.exponents.local, found.exponents.rosenstein
    kinds = ((local_, found.beside.local, "local"), (rosenstein, found.beside.rosenstein, "Rosenstein's"))
    parts = [
        f"{words} {own:+.2f} (shuffled {others.shuffled.median:+.2f}, AR {others.autoregressive.median:+.2f})"
        for own, others, words in kinds
    ]
    return f"{cell.words}: {', '.join(parts)}."
