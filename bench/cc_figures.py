"""Draws the figures of docs/cc.md from the snapshots that the tests of the models hold: nothing is run here.

make snapshots
"""

import csv
import dataclasses
import itertools
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
CONTROLS = ROOT / "crates/cc/controls"
PAGE = ROOT / "docs/cc.md"
FIGURES = ROOT / "docs/figures"
SIZE_INCHES = (7.2, 3.0)

HELD = "hold"
"""Its window is given, so its figure is another."""
RESUMED = "resume"
"""It is CUBIC once it has begun, so its figure shows how it begins."""
STYLES = {
    "reno": ("0.6", "-"),
    "cubic": ("0.0", "-"),
    "scalable": ("0.0", ":"),
    "htcp": ("0.0", "--"),
    "highspeed": ("0.5", "-."),
}
"""Grey and dashes of the lines that are drawn together; others take the next of ``SPARE``."""
SPARE = (("0.5", (0, (1, 3))), ("0.5", "--"), ("0.5", ":"), ("0.8", "-"))
SEGMENT_BITS = 1538 * 8
FIRST_LOSS_S = 1.0


@dataclasses.dataclass(frozen=True)
class Run:
    """The window of each round trip."""

    times_s: list[float]
    windows: list[int]

    def part(self, begin_s: float, end_s: float) -> "Run":
        """What lies between two times."""
        kept = [(t, w) for t, w in zip(self.times_s, self.windows, strict=True) if begin_s <= t <= end_s]
        return Run([t for t, _ in kept], [w for _, w in kept])


def shown() -> dict[str, str]:
    """The controls whose figure the page shows, each with the heading above it."""
    found: dict[str, str] = {}
    for heading, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE.read_text("utf-8"), re.MULTILINE):
        for name in re.findall(r"\(figures/cc-(\w+)\.png\)", body):
            if (CONTROLS / name).is_dir():
                found[name] = heading
    return found


def runs(name: str) -> dict[str, Run]:
    """All runs of the snapshot of one algorithm, by name."""
    found: dict[str, Run] = {}
    with (CONTROLS / name / "snapshot.csv").open(encoding="ascii", newline="") as rows:
        for row in csv.DictReader(rows):
            run = found.setdefault(row["run"], Run([], []))
            run.times_s.append(float(row["t_s"]))
            run.windows.append(int(row["cwnd_segments"]))
    return found


def line(axes: Axes, y: float, text: str) -> None:
    """A thin line across, with what it is beside its right end."""
    axes.axhline(y, color="0.6", linewidth=0.8, linestyle="--")
    axes.text(1.01, y, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7)


def algorithm(name: str, title: str) -> None:
    """Over a full queue, and after two losses at a large window, with Reno beside it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=SIZE_INCHES, layout="constrained")
    own, reno = runs(name), runs("reno")
    bdp = 100e6 * 0.040 / SEGMENT_BITS
    left.plot(own["overflow"].times_s, own["overflow"].windows, color="0.0", linewidth=1)
    line(left, bdp, "path\nfull")
    line(left, 1.5 * bdp, "queue\nfull")
    left.set(title="100 Mb/s, 40 ms, queue of half a BDP", ylim=(0, 700), xlim=(0, 40))
    if name != "reno":
        right.plot(reno["recovery"].times_s, reno["recovery"].windows, color="0.6", linewidth=1, label="Reno")
    right.plot(own["recovery"].times_s, own["recovery"].windows, color="0.0", linewidth=1.3, label=title)
    right.set(title="1 Gb/s, 100 ms, a loss at 1 s and at 11 s", ylim=(0, 16_000), xlim=(0, 30))
    line(right, 1e9 * 0.1 / SEGMENT_BITS, "path\nfull")
    right.legend(fontsize="small", loc="upper left")
    for axes in (left, right):
        axes.set_xlabel("time, s")
        axes.set_ylabel("window, segments")
        axes.title.set_fontsize("medium")
    figure.savefig(FIGURES / f"cc-{name}.png", dpi=150)


def hold() -> None:
    """A held rate through losses, another target, another path, and a path that breaks its promise."""
    figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
    held = runs("hold")["held"]
    axes.plot(held.times_s, held.windows, color="0.0", linewidth=1.3)
    axes.axvspan(40, 46, color="0.9")
    notes = {
        (1, 6_400): "400 Mb/s\n180 ms",
        (10.5, 12_300): "800 Mb/s, 180 ms",
        (20.5, 8_400): "800 Mb/s, 120 ms",
        (40.3, 12_300): "20 % lost",
        (43, 1_000): "Reno",
        (51, 8_400): "held again",
    }
    for (t_s, window), text in notes.items():
        axes.annotate(text, (t_s, window), fontsize=8)
    axes.set(xlabel="time, s", ylabel="window, segments", ylim=(0, 14_000), xlim=(0, 60))
    figure.savefig(FIGURES / "cc-hold.png", dpi=150)


def resume() -> None:
    """With and without a memory, on the path as it was and on a third of it."""
    figure, (left, right) = plt.subplots(1, 2, figsize=SIZE_INCHES, layout="constrained")
    found = runs("resume")
    for axes, name, rate_bps, title in (
        (left, "resumed", 1e9, "1 Gb/s, as remembered"),
        (right, "third", 0.333e9, "a third of it"),
    ):
        unknown = found["unknown" if axes is left else "unknown_third"]
        axes.plot(unknown.times_s, unknown.windows, color="0.6", linewidth=1, label="without a memory")
        axes.plot(found[name].times_s, found[name].windows, color="0.0", linewidth=1.3, label="with it")
        axes.set(title=f"{title}, 100 ms", xlim=(0, 3), ylim=(0, 12_000))
        axes.set_xlabel("time, s")
        axes.set_ylabel("window, segments")
        axes.title.set_fontsize("medium")
        line(axes, rate_bps * 0.1 / SEGMENT_BITS, "path\nfull")
        axes.legend(fontsize="small", loc="upper right")
    figure.savefig(FIGURES / "cc-resume.png", dpi=150)


def growth(titles: dict[str, str]) -> None:
    """How each comes back from one loss, as a share of the window it had."""
    figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
    spare = itertools.cycle(SPARE)
    for name, title in titles.items():
        color, dashes = STYLES.get(name) or next(spare)
        run = runs(name)["recovery"].part(FIRST_LOSS_S, FIRST_LOSS_S + 10)
        shares = [window / run.windows[0] for window in run.windows]
        times_s = [t_s - FIRST_LOSS_S for t_s in run.times_s]
        axes.plot(times_s, shares, color=color, linestyle=dashes, linewidth=1.3, label=title)
    axes.set(xlabel="time since the loss, s", ylabel="window, share of that at the loss", xlim=(0, 10))
    axes.set_ylim(0, 2)
    axes.axhline(1, color="0.8", linewidth=0.8)
    axes.legend(fontsize="small")
    figure.savefig(FIGURES / "cc-growth.png", dpi=150)


def draw() -> None:
    """All figures."""
    FIGURES.mkdir(exist_ok=True)
    titles = shown()
    titles.pop(HELD)
    titles.pop(RESUMED)
    for name, title in titles.items():
        algorithm(name, title)
    hold()
    resume()
    growth(titles)
    plt.close("all")


if __name__ == "__main__":
    draw()
