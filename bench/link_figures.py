"""Draws the figures of ``bench/results/link.json``: nothing is measured here.

python -m bench.link_figures
"""

import itertools
import json
import statistics
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bench.report import RESULTS

Run = dict[str, Any]
SIZE_INCHES = (7.2, 3.6)


def ramp(runs: list[Run]) -> None:
    """Rate on the wire and drops of the long run, over time."""
    (run,) = (run for run in runs if "near" in run)
    trace = run["trace"]
    times_s, rates, drops = [], [], []
    for before, after in itertools.pairwise(trace):
        span_s = after["t_s"] - before["t_s"]
        times_s.append(after["t_s"])
        rates.append((after["wire_bytes"] - before["wire_bytes"]) * 8 / span_s / 1e9)
        drops.append(after["drops"] - before["drops"])
    figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
    axes.plot(times_s, rates, linewidth=1, color="tab:blue")
    axes.set(xlabel="time, s", ylabel="rate on the wire, Gb/s", ylim=(0, None), title=run["what"])
    axes.axhline(run["link"]["near_to_far"]["rate_bps"] / 1e9, color="0.6", linewidth=0.8, linestyle="--")
    beside = axes.twinx()
    beside.vlines(times_s, 0, drops, color="tab:red", linewidth=1)
    beside.set_ylabel("segments dropped by the queue", color="tab:red")
    figure.savefig(RESULTS / "link-ramp.png", dpi=150)


def round_trips(runs: list[Run]) -> None:
    """Distribution of the RTT beyond what the link says."""
    figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
    for run in runs:
        if "round_trips_ns" not in run:
            continue
        link = run["link"]
        rtt_ns = link["near_to_far"]["delay_ns"] + link["far_to_near"]["delay_ns"]
        excess_ms = sorted((value - rtt_ns) / 1e6 for value in run["round_trips_ns"])
        shares = [(index + 1) / len(excess_ms) for index in range(len(excess_ms))]
        label = f"{rtt_ns / 1e6:g} ms (median {statistics.median(excess_ms):.3f} ms)"
        axes.plot(excess_ms, shares, label=label, linewidth=1)
    axes.axvline(0.1, color="0.6", linewidth=0.8, linestyle="--")
    axes.axvline(0.5, color="0.6", linewidth=0.8, linestyle="--")
    axes.set(xlabel="RTT beyond the link's, ms", ylabel="share of echoes", xlim=(0, 0.7), ylim=(0, 1.01))
    axes.legend(title="RTT of the idle link", fontsize="small")
    figure.savefig(RESULTS / "link-rtt.png", dpi=150)


def rates(runs: list[Run]) -> None:
    """Error of the shaped rates."""
    shaped = [run for run in runs if "seen_bps" in run]
    wanted_bps = [run["link"]["near_to_far"]["rate_bps"] for run in shaped]
    errors = [100 * (run["seen_bps"] / rate - 1) for run, rate in zip(shaped, wanted_bps, strict=True)]
    figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
    axes.axhspan(-0.5, 0.5, color="0.92")
    axes.plot([rate / 1e6 for rate in wanted_bps], errors, "o-", linewidth=1)
    axes.set(xscale="log", xlabel="shaped rate, Mb/s", ylabel="error, %", ylim=(-1, 1))
    figure.savefig(RESULTS / "link-rates.png", dpi=150)


def draw() -> None:
    """All figures of the last kept result."""
    runs = json.loads((RESULTS / "link.json").read_text())["runs"]
    for figure in (ramp, round_trips, rates):
        figure(runs)
        plt.close("all")


if __name__ == "__main__":
    draw()
