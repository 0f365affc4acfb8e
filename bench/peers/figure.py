"""``bench/results/peers.png``, from ``bench/results/peers.json`` and nothing else."""

import json

import matplotlib as mpl

from bench.peers import iperf3
from bench.peers.judge import OURS, UNITS, judged, median, rate, short
from bench.report import RESULTS

mpl.use("agg")

from matplotlib import pyplot as plt

_OURS, _CEILING, _OTHERS = "#c2571a", "#9a9a9a", "#3b6ea5"


def draw() -> None:
    record = json.loads((RESULTS / "peers.json").read_text())
    runs = [run for run in record["runs"] if run["tool"] != "link"]
    panels = list(dict.fromkeys((run["work"], run["rtt_ms"]) for run in runs))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.6 * len(panels), 3.4), squeeze=False, layout="constrained", sharey=False
    )
    for axis, (kind, rtt_ms) in zip(axes[0], panels, strict=True):
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
        axis.set_yticks(range(len(by_tool)), list(reversed(by_tool)))
        axis.margins(x=0.18)
        axis.set_xlim(left=0)
        axis.set_xlabel(UNITS[kind])
        axis.set_title(f"{'one file' if kind == 'file' else 'small files'}, {rtt_ms:g} ms", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    links = [run for run in record["runs"] if run["tool"] == "link"]
    spoilt = [f"{run['rtt_ms']:g} ms" for run in links if run["stats"]["lateness"]["spoilt"]]
    late = f"; SPOILT by a late emulator at {', '.join(spoilt)}" if spoilt else ""
    figure.suptitle(f"10 Gb/s; medians, a mark for each run ({record['commit']}){late}", fontsize=9)
    figure.savefig(RESULTS / "peers.png", dpi=120, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    draw()
