"""The LSST paper's Tables 1 and 2 beside ours: ``make bench-lsst-tables``.

Table 1 is that of new connections, by nuttcp; Table 2, of warm ones, is the table of bench.cc.
"""

import csv
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import rich
from rich.table import Table

from bench.cc import judge, table
from bench.cc.held import held_lab, loaded
from bench.cc.table import Cell
from bench.lsst.senders import said_by_nuttcp
from bench.report import RESULTS
from howdah.cc import programs

PAPER = Path(__file__).parent / "lsst-table1.csv"
RUNS = 5
BUFFERS = 4102
"""Of 64 KiB: 268.8 MB."""
_TIMEOUT_S = 60
Run = dict[str, Any]


def paper() -> dict[Cell, float]:
    """Median seconds of each cell of Table 1."""
    with PAPER.open(encoding="ascii", newline="") as rows:
        return {
            Cell(int(row["rtt_ms"]), round(float(row["loss_pct"]) / 100, 9)): float(row["median_s"])
            for row in csv.DictReader(rows)
        }


def measure(rtts_ms: Sequence[int], at_once: int) -> Iterator[Run]:
    """Some rows of Table 1, several cells at a time."""
    cells = [cell for cell in sorted(paper()) if cell.rtt_ms in rtts_ms]
    with loaded("hold"), ThreadPoolExecutor(at_once) as pool:
        programs.set_target(table.RATE_BPS, None, None)
        yield from pool.map(_transfers, cells)


def _transfers(cell: Cell) -> Run:
    link = table.link(cell, "one")
    with (
        held_lab(link) as wan,
        wan.popen("far", ["nuttcp", "-S", "--nofork"], stdout=subprocess.DEVNULL) as server,
    ):
        words = ["nuttcp", "-w512m", "-n", str(BUFFERS), wan.far_address]
        try:
            said = [
                wan.run("near", words, capture_output=True, check=True, timeout=_TIMEOUT_S)
                for _ in range(RUNS)
            ]
        finally:
            server.kill()
        stats = wan.stats()
    return {
        "part": "table1",
        "rtt_ms": cell.rtt_ms,
        "loss": cell.loss,
        "transfers": [said_by_nuttcp(each.stdout.decode()) for each in said],
        "stats": msgspec.to_builtins(stats),
    }


def line(run: Run) -> str:
    """One cell in words."""
    cell = Cell(run["rtt_ms"], run["loss"])
    ours = f"{_median_s(run):.2f} s, paper {paper()[cell]:.2f}"
    return f"{cell.rtt_ms} ms, {100 * cell.loss:g} %: {ours} {judge.spoilt(run)}"


def beside_the_paper(runs: Sequence[Run]) -> Table:
    """Table 1: our medians and the paper's."""
    said = paper()
    own = {Cell(run["rtt_ms"], run["loss"]): run for run in runs if run["part"] == "table1"}
    losses = sorted({cell.loss for cell in said})
    title = "Table 1: seconds for 268.8 MB by nuttcp, new connections: ours · paper"
    found = Table("RTT", *(f"{100 * loss:g} %" for loss in losses), title=title)
    for rtt_ms in sorted({cell.rtt_ms for cell in said}):
        cells = []
        for loss in losses:
            cell = Cell(rtt_ms, loss)
            late = " (emulator late)" if cell in own and judge.spoilt(own[cell]) else ""
            ours = f"{_median_s(own[cell]):.2f}{late}" if cell in own else "–"
            cells.append(f"{ours} · {said[cell]:.2f}")
        found.add_row(f"{rtt_ms} ms", *cells)
    return found


def _median_s(run: Run) -> float:
    times_s: list[float] = [each["s"] for each in run["transfers"]]
    return statistics.median(times_s)


def main() -> int:
    """Prints both, of the records kept."""
    rich.print(beside_the_paper(_runs("lsst")))
    runs = _runs("cc")
    for falling in table.FALLING:
        if any(run.get("falling") == falling for run in runs):
            rich.print("Table 2: warm connections, from bench/results/cc.json")
            rich.print(judge.beside_the_paper(runs, falling))
    return 0


def _runs(name: str) -> list[Run]:
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["runs"]) if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
