"""Draws the figure of ``bench/results/lsst.json``, beside the paper's Figure 2: nothing is measured here.

python -m bench.lsst.figure
"""

import json
from typing import Any

import matplotlib as mpl

from bench.lsst.judge import looks, payload_of
from bench.report import RESULTS

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_COLOURS = {"replication": "#2a7f62", "background": "#8a8a8a", "images": "#c2571a"}
_SECOND = "#3b6ea5"
"""Of the second host of a class."""
_WINDOW_S = 1.0
_POINT_S = 0.1


def draw() -> None:
    record = json.loads((RESULTS / "lsst.json").read_text())
    runs = [run for run in record["runs"] if run["part"] in ("figure", "leader")]
    if not runs:
        return
    height = 4.2 * len(runs)
    figure, axes = plt.subplots(len(runs), 1, figsize=(10, height), squeeze=False, layout="constrained")
    for (axis,), run in zip(axes, runs, strict=True):
        _panel(axis, run)
    figure.suptitle(f"1 Gb/s × 180 ms, 0.01 % lost each way; dashed: shares ({record['commit']})", fontsize=9)
    figure.savefig(RESULTS / "lsst-figure2.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def _panel(axis: Axes, run: dict[str, Any]) -> None:
    begin_s, end_s = run["begun_s"], run["ended_s"]
    total: dict[int, float] = {}
    seen: set[str] = set()
    for flow in sorted(run["flows"]):
        name = flow.partition("/")[0]
        colour = _SECOND if name in seen else _COLOURS.get(name, "0.2")
        seen.add(name)
        own = [each for each in looks(run, flow) if begin_s - 2 <= each.t_s <= end_s]
        points = _received(own, begin_s, end_s)
        axis.plot(
            list(points), [rate / 1e6 for rate in points.values()], color=colour, linewidth=1.2, label=flow
        )
        shares = [
            (each.t_s - begin_s, payload_of(each.share_bps) / 1e6) for each in own if each.t_s >= begin_s
        ]
        axis.plot(*zip(*shares, strict=True), "--", color=colour, linewidth=0.8)
        for t_s, rate in points.items():
            total[round(t_s / _POINT_S)] = total.get(round(t_s / _POINT_S), 0.0) + rate
    axis.plot(
        [t * _POINT_S for t in total],
        [rate / 1e6 for rate in total.values()],
        "k",
        linewidth=0.9,
        label="all",
    )
    for images in run["images"]:
        axis.axvline(images["asked_s"] - begin_s, color="0.7", linewidth=0.8)
        axis.text(images["asked_s"] - begin_s + 0.3, 3, f"images by {images['by']}", fontsize=8)
    if killed_s := run.get("killed_s"):
        axis.axvline(killed_s - begin_s, color="#7a1f1f", linewidth=0.8)
        axis.text(
            killed_s - begin_s + 0.3, 6.5, "the controller that leads is killed", fontsize=8, color="#7a1f1f"
        )
    if run["stats"]["lateness"]["spoilt"]:
        late = run["stats"]["lateness"]["late_fraction"]
        axis.set_title(f"SPOILT: {late:.1%} of the bytes left late", fontsize=8, color="#7a1f1f", loc="left")
    axis.set_ylim(0, 132)
    axis.set_xlim(0, end_s - begin_s)
    axis.set_xlabel("seconds")
    axis.set_ylabel("payload acknowledged, MB/s")
    axis.legend(fontsize="small", ncols=5, loc="upper right", bbox_to_anchor=(1, 1.12), frameon=False)
    axis.spines[["top", "right"]].set_visible(False)


def _received(own: list[Any], begin_s: float, end_s: float) -> dict[float, float]:
    """By seconds since the beginning, what was acknowledged in the second before it, a second."""
    points, start, at = {}, 0, 0
    for place in range(round((end_s - begin_s) / _POINT_S)):
        t_s = begin_s + place * _POINT_S
        while at + 1 < len(own) and own[at + 1].t_s <= t_s:
            at += 1
        while start + 1 < at and own[start + 1].t_s <= t_s - _WINDOW_S:
            start += 1
        span_s = own[at].t_s - own[start].t_s
        if span_s > _WINDOW_S / 2:
            points[place * _POINT_S] = (own[at].acked_bytes - own[start].acked_bytes) / span_s
    return points


if __name__ == "__main__":
    draw()
