"""Draws the figures of ``bench/results/cc.json``: nothing is measured here.

python -m bench.cc.figure
"""

import json
from typing import Any

import matplotlib as mpl

from bench.cc.judge import FALLS, bound_s, cell, median_s, times_s
from bench.cc.table import FALLING, paper
from bench.report import RESULTS

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_COLOURS = {0.0: "0.6", 1e-5: "#8fb3d4", 1e-4: "#3b6ea5", 1e-3: "#c2571a", 1e-2: "#7a1f1f"}


def draw() -> None:
    record = json.loads((RESULTS / "cc.json").read_text())
    tables = [run for run in record["runs"] if run["part"] == "table"]
    kinds = [falling for falling in FALLING if any(run["falling"] == falling for run in tables)]
    if not kinds:
        return
    figure, axes = plt.subplots(
        1, len(kinds), figsize=(4.8 * len(kinds), 4.2), squeeze=False, layout="constrained", sharey=True
    )
    for axis, falling in zip(axes[0], kinds, strict=True):
        _panel(axis, [run for run in tables if run["falling"] == falling])
        axis.set_title(FALLS[falling], fontsize=10)
    axes[0][0].set_ylabel("seconds for 268.8 MB")
    axes[0][0].legend(fontsize="small", loc="upper left")
    late = sum(run["stats"]["lateness"]["spoilt"] for run in tables)
    about = [
        "1 Gb/s; solid: median of five",
        f"dashed: the paper; dotted: least by repair ({record['commit']})",
    ]
    if late:
        about.append(f"cells SPOILT by a late emulator: {late}")
    figure.suptitle("\n".join(about), fontsize=9)
    figure.savefig(RESULTS / "cc-table.png", dpi=120, metadata={"Software": None})
    plt.close(figure)


def _panel(axis: Axes, runs: list[dict[str, Any]]) -> None:
    said = paper()
    for loss in sorted({run["loss"] for run in runs}):
        own = sorted((run for run in runs if run["loss"] == loss), key=cell)
        rtts_ms = [run["rtt_ms"] for run in own]
        colour = _COLOURS[loss]
        for run in own:
            each_s = times_s(run)
            axis.plot([run["rtt_ms"]] * len(each_s), each_s, "_", color=colour, markersize=6)
        axis.plot(rtts_ms, [median_s(run) for run in own], color=colour, label=f"{100 * loss:g} %")
        axis.plot(rtts_ms, [said[cell(run)] for run in own], "--", color=colour, linewidth=1)
        axis.plot(
            rtts_ms, [bound_s(cell(run), run["falling"]) for run in own], ":", color=colour, linewidth=1
        )
    axis.set_xlabel("RTT, ms")
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw()
