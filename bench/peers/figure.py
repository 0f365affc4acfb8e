"""``bench/results/peers.png``, from ``bench/results/peers.json`` and nothing else."""

import json

import matplotlib as mpl

from bench.peers import iperf3
from bench.peers.judge import OURS, UNITS, judged, median, rate, short
from bench.report import RESULTS

mpl.use("agg")

from matplotlib import pyplot as plt

_OURS, _CEILING, _OTHERS = "#c2571a", "#9a9a9a", "#3b6ea5"
_LABELS = {"howdah cp": "howdah cp, kept login", "iperf3": "iperf3 (memory, no files)"}
_COLUMNS = 2


def draw() -> None:
    record = json.loads((RESULTS / "peers.json").read_text())
    runs = [run for run in record["runs"] if run["tool"] != "link"]
    panels = sorted({(run["work"], run["rtt_ms"]) for run in runs})
    rows = -(-len(panels) // _COLUMNS)
    figure, axes = plt.subplots(
        rows, _COLUMNS, figsize=(5 * _COLUMNS, 3.1 * rows), squeeze=False, layout="constrained"
    )
    for axis, (kind, rtt_ms) in zip(axes.flat, panels, strict=True):
        by_tool = judged([run for run in runs if (run["work"], run["rtt_ms"]) == (kind, rtt_ms)])
        for place, (tool, own) in enumerate(reversed(by_tool.items())):
            rates = [each for each in map(rate, own) if each is not None]
            middle = median(own) or 0.0
            colour = _OURS if tool in OURS else _CEILING if tool == iperf3.NAME else _OTHERS
            axis.barh(place, middle, color=colour, height=0.7)
            axis.plot(rates, [place] * len(rates), "|", color="black", markersize=8)
            axis.annotate(
                short(middle),
                (max([middle, *rates]), place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
        axis.set_yticks(range(len(by_tool)), [_LABELS.get(tool, tool) for tool in reversed(by_tool)])
        axis.margins(x=0.18)
        axis.set_xlim(left=0)
        axis.set_xlabel(UNITS[kind])
        axis.set_title(
            f"{'one file of 2 GiB' if kind == 'file' else '10,000 files of 10 KB'}, {rtt_ms:g} ms",
            fontsize=10,
        )
        axis.spines[["top", "right"]].set_visible(False)
    links = [run for run in record["runs"] if run["tool"] == "link"]
    spoilt = [f"{run['rtt_ms']:g} ms" for run in links if run["stats"]["lateness"]["spoilt"]]
    late = f"; SPOILT by a late emulator at {', '.join(spoilt)}" if spoilt else ""
    figure.suptitle(
        f"10 Gb/s, whole command; howdah encrypts, globus, xrdcp, rclone and iperf3 do not\n"
        f"medians, a mark for each run, commit {record['commit']}{late}",
        fontsize=9,
    )
    figure.savefig(RESULTS / "peers.png", dpi=120, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    draw()
