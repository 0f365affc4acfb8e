"""Draws the figure of ``bench/results/first.json``: nothing is measured here.

python -m bench.first_figures
"""

import json
import statistics

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bench.first_ends import STEP_S
from bench.report import RESULTS

SIZE_INCHES = (7.2, 4.8)
COLOURS = {"with": "tab:blue", "without": "tab:orange"}


def draw() -> None:
    """The rate of the first two seconds at each round trip: medians, and the least and the most."""
    speed = [
        run for run in json.loads((RESULTS / "first.json").read_text())["runs"] if run["part"] == "speed"
    ]
    figure, grid = plt.subplots(2, 2, figsize=SIZE_INCHES, layout="constrained", sharex=True, sharey=True)
    rtts_ms = sorted({run["rtt_ms"] for run in speed})
    for axes, rtt_ms in zip(grid.flat, rtts_ms, strict=True):
        for who, colour in COLOURS.items():
            rates = [run["rates_bps"] for run in speed if (run["rtt_ms"], run["who"]) == (rtt_ms, who)]
            steps = [[rate / 1e6 for rate in step] for step in zip(*rates, strict=True)]
            times_s = [STEP_S * (number + 0.5) for number in range(len(steps))]
            middle = [statistics.median(step) for step in steps]
            axes.plot(times_s, middle, color=colour, linewidth=1.2, label=f"{who} a memory of the path")
            axes.fill_between(
                times_s, [min(step) for step in steps], [max(step) for step in steps], color=colour, alpha=0.2
            )
        axes.set(title=f"{rtt_ms} ms", ylim=(0, 1050))
    figure.supxlabel("time since the connection was begun, s")
    figure.supylabel("payload that arrives, Mb/s")
    grid[0][0].legend(fontsize="small", loc="lower right")
    figure.savefig(RESULTS / "first.png", dpi=150)


if __name__ == "__main__":
    draw()
