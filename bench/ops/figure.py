"""Draws the figures of ``bench/results/ops.json``: nothing is measured here.

``ops-table2.png`` and ``ops-table3.png`` have the course of their runs (the paper's Figures 21 and 20),
``ops.png`` the rates of the other figures. ``python -m bench.ops.figure``
"""

import json
from collections.abc import Iterable

import matplotlib as mpl

from bench.ops.cells import Cell, cells
from bench.ops.plan import CHANGING, PARTS, TABLE_BACKGROUNDS, Run, counts
from bench.ops.tables import NUMBERS
from bench.ops.tools import words
from bench.report import RESULTS

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_COLOURS = {"foreground": "#3b6ea5", "background": "#9a9a9a"}
_OURS = "#c2571a"


def draw() -> None:
    record = json.loads((RESULTS / "ops.json").read_text())
    runs = [run for run in record["runs"] if run["error"] is None]
    _courses(runs)
    _changing(runs)
    _bars(runs)


def _courses(runs: list[Run]) -> None:
    """A column for each background beside one CUBIC stream: rates above, the round trip below."""
    for part in NUMBERS:
        shown = [_best(runs, part, background) for background in TABLE_BACKGROUNDS]
        found = [run for run in shown if run is not None]
        if not found:
            continue
        figure, axes = plt.subplots(
            2,
            len(found),
            figsize=(3.6 * len(found), 4.6),
            squeeze=False,
            layout="constrained",
            sharex="col",
            sharey="row",
        )
        for place, run in enumerate(found):
            _course(axes[0][place], axes[1][place], run)
        axes[0][0].set_ylabel("payload, Mb/s")
        axes[1][0].set_ylabel("round trip, ms")
        title = f"Overlay-{PARTS[part]}: one CUBIC stream beside others, as Figures 21 and 20"
        figure.suptitle(f"{title} ({_commits(found)})", fontsize=9)
        figure.savefig(RESULTS / f"ops-{part}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)


def _changing(runs: list[Run]) -> None:
    """The course of a copy beside a background that changes, the last that counts."""
    run = _best(runs, CHANGING, CHANGING)
    if run is None:
        return
    figure, (rates, trips) = plt.subplots(2, 1, figsize=(10, 4.6), layout="constrained", sharex=True)
    _course(rates, trips, run)
    rates.set_ylabel("payload, Mb/s")
    trips.set_ylabel("round trip, ms")
    figure.suptitle(
        f"Overlay-{PARTS[CHANGING]}: who else is there changes every minute ({_commits([run])})", fontsize=9
    )
    figure.savefig(RESULTS / "ops-changing.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def _commits(runs: Iterable[Run]) -> str:
    return ", ".join(dict.fromkeys(run["commit"][:7] for run in runs))


def _best(runs: list[Run], part: str, background: str) -> Run | None:
    """The last of a cell that counts; if none does, the last."""
    own = [
        run for run in runs if run["part"] == part and run["foreground"] and run["background"] == background
    ]
    return next((run for run in reversed(own) if counts(run)), own[-1] if own else None)


def _course(rates: Axes, trips: Axes, run: Run) -> None:
    samples = run["samples"]
    names = {side: words(run[side]) for side in ("foreground", "background")}
    for side, name in names.items():
        seen = samples[f"{side}_kbps"]
        colour = _OURS if run[side] == "cp" else _COLOURS[side]
        rates.plot([each / 1e3 for each in seen], color=colour, linewidth=1, label=name)
    trips.plot(
        [float("nan") if each is None else each for each in samples["rtt_ms"]], color="0.3", linewidth=0.8
    )
    for axis in (rates, trips):
        axis.axvline(run["begin_s"] + run["settle_s"], color="0.7", linestyle="--", linewidth=0.8)
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    # Above the curves there is room for it.
    rates.set_ylim(top=1.2e-6 * run["link"]["near_to_far"]["rate_bps"])
    rates.legend(fontsize="x-small", frameon=False, loc="upper right", ncols=2)
    late = "" if counts(run) else ": SPOILT"
    rates.set_title(f"beside {names['background']}{late}", fontsize=9)
    trips.set_xlabel("seconds")


def _bars(runs: list[Run]) -> None:
    """A panel for each figure of rates: a group for each background, a bar for each foreground."""
    others = [part for part in PARTS if part not in (*NUMBERS, CHANGING)]
    parts = [part for part in others if any(run["part"] == part for run in runs)]
    if not parts:
        return
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(10, 3.2 * len(parts)), squeeze=False, layout="constrained"
    )
    for (axis,), part in zip(axes, parts, strict=True):
        _panel(axis, part, list(cells(run for run in runs if run["part"] == part).values()))
    figure.suptitle("Mb/s of payload; hatched: what the background has", fontsize=9)
    figure.savefig(RESULTS / "ops.png", dpi=100, metadata={"Software": None})
    plt.close(figure)


def _panel(axis: Axes, part: str, found: list[Cell]) -> None:
    backgrounds = list(dict.fromkeys(cell.case.background for cell in found))
    foregrounds = list(dict.fromkeys(cell.case.foreground for cell in found))
    width = 0.85 / len(foregrounds)
    colours = mpl.colormaps["viridis"]
    for place, foreground in enumerate(foregrounds):
        own = [cell for cell in found if cell.case.foreground == foreground]
        at = [backgrounds.index(cell.case.background) + width * place for cell in own]
        rates = [(cell.foreground_bps or 0) / 1e6 for cell in own]
        others = [(cell.background_bps or 0) / 1e6 for cell in own]
        colour = _OURS if foreground == "cp" else colours(place / max(1, len(foregrounds)))
        axis.bar(at, rates, width, color=colour, label=words(foreground))
        axis.bar(at, others, width, bottom=rates, color="none", edgecolor="0.6", hatch="////", linewidth=0.4)
        for x, cell in zip(at, own, strict=True):
            if "SPOILT" in cell.note:
                axis.annotate("spoilt", (x, 5), rotation=90, fontsize=6, ha="center")
    centre = (len(foregrounds) - 1) * width / 2
    axis.set_xticks(
        [place + centre for place in range(len(backgrounds))], [words(each) for each in backgrounds]
    )
    axis.tick_params(axis="x", labelsize=7)
    number, commits = part.removeprefix("figure"), _commits(run for cell in found for run in cell.runs)
    axis.set_title(f"Figure {number}, Overlay-{PARTS[part]} ({commits})", fontsize=9, loc="left")
    axis.legend(fontsize="x-small", frameon=False, ncols=6, loc="upper right", bbox_to_anchor=(1, 1.14))
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw()
