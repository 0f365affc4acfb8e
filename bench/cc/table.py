"""Table 2 of the LSST paper: seconds for 268.8 MB over 1 Gb/s, warm, until all is acknowledged.

Losses fall in two ways. ``one``: each wire segment for itself, as this lab's links lose. ``ten``: ten
segments at a time on the mean, the same share of all, which is how the paper's losses must have fallen: see
bench.cc.tail.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import msgspec

from bench.cc.held import PORT, end, held_lab, listening, loaded, said
from bench.link import counters
from howdah import lab
from howdah.cc import programs
from howdah.values.link import Burst, LinkSpec

Falling = Literal["one", "ten"]
FALLING: tuple[Falling, ...] = ("one", "ten")
SEGMENTS_AT_ONCE: dict[Falling, int] = {"one": 1, "ten": 10}

PAPER = Path(__file__).parent / "lsst-table2.csv"
RATE_BPS = 1_000_000_000
SIZE_BYTES = 268_800_000
RUNS = 5
SETTLE_S = 0.05
Run = dict[str, Any]


class Cell(msgspec.Struct, frozen=True, order=True):
    """Round trip in ms, and the share lost each way."""

    rtt_ms: int
    loss: float


def paper() -> dict[Cell, float]:
    """Median seconds of each cell."""
    found = {}
    with PAPER.open(encoding="ascii", newline="") as rows:
        for row in csv.DictReader(rows):
            rtt_ms = int(row.pop("rtt_ms"))
            for name, seconds in row.items():
                percent = name.removeprefix("loss_").removesuffix("pct_s")
                found[Cell(rtt_ms, round(float(percent) / 100, 9))] = float(seconds)
    return found


def link(cell: Cell, falling: Falling) -> LinkSpec:
    """Of one cell; a seed of its own, so that no two cells lose the same segments."""
    seed = 1 + sorted(paper()).index(cell)
    at_once = SEGMENTS_AT_ONCE[falling]
    plain = lab.symmetric(RATE_BPS, cell.rtt_ms * 1_000_000, queue_bytes=4 * 2**20, seed=seed)
    if at_once == 1 or not cell.loss:
        changed: dict[str, Any] = {"loss": cell.loss}
    else:
        leave = 1 / at_once
        changed = {"burst": Burst(enter=leave * cell.loss / (1 - cell.loss), leave=leave)}
    directions = {name: msgspec.structs.replace(each, **changed) for name, each in plain.directions().items()}
    return msgspec.structs.replace(plain, **directions)


def measure(places: Iterable[tuple[Falling, Cell]], at_once: int) -> Iterator[Run]:
    """Several cells at a time: 1 Gb/s is little work, and each run tells whether its link was late."""
    with loaded("hold"), ThreadPoolExecutor(at_once) as pool:
        programs.set_target(RATE_BPS, None, None)
        yield from pool.map(_transfers, places)


def _transfers(place: tuple[Falling, Cell]) -> Run:
    """Five over one connection, in a lab of their own."""
    falling, cell = place
    wanted = link(cell, falling)
    gap_s = cell.rtt_ms / 1000 + SETTLE_S
    with held_lab(wanted) as wan, listening(wan, "receive", PORT):
        argv = end("transfers", wan.far_address, PORT, SIZE_BYTES, RUNS, gap_s)
        transfers = said(wan, argv, timeout_s=300)
        near = counters(wan, "near")
        stats = wan.stats()
    return {
        "part": "table",
        "rtt_ms": cell.rtt_ms,
        "loss": cell.loss,
        "falling": falling,
        "link": msgspec.to_builtins(wanted),
        "transfers": transfers,
        "lost_retransmissions": near["TcpExt.TCPLostRetransmit"],
        "stats": msgspec.to_builtins(stats),
    }


def places(rtts_ms: Sequence[int], kinds: Sequence[Falling]) -> list[tuple[Falling, Cell]]:
    """Some rows of the table; nothing can fall ten at a time where nothing is lost."""
    cells = [cell for cell in sorted(paper()) if cell.rtt_ms in rtts_ms]
    return [(falling, cell) for falling in kinds for cell in cells if cell.loss or falling == "one"]
