"""Tables 2 and 3 of the paper beside ours, from the record: ``python -m bench.ops.tables``."""

import csv
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import rich
from rich.table import Table

from bench.ops.cells import LAST_S, Cell, cells
from bench.ops.fairness import jain
from bench.ops.plan import PARTS, TABLE_BACKGROUNDS, Case, Run
from bench.ops.tools import words
from bench.report import RESULTS

PAPER = Path(__file__).with_name("paper.csv")
NUMBERS = {"table2": 2, "table3": 3}


class Key(NamedTuple):
    """A cell of a table: ``dedicated`` or ``shared``, whose rate, beside which background."""

    type: str
    stream: str
    background: str | None


def paper(part: str) -> dict[Key, float]:
    """Mb/s."""
    with PAPER.open(encoding="ascii", newline="") as rows:
        return {
            Key(row["type"], row["stream"], row["background"] or None): float(row["mbps"])
            for row in csv.DictReader(rows)
            if row["table"] == part
        }


def paper_jain(part: str, background: str) -> float | None:
    """Of the printed rates; the paper prints the same, rounded."""
    said = paper(part)
    rates = [said.get(Key("shared", stream, background)) for stream in ("foreground", "background")]
    known = [each for each in rates if each is not None]
    return jain(known) if len(known) == len(rates) else None


def ours(part: str, runs: Iterable[Run]) -> tuple[dict[Key, float | None], dict[str, Cell]]:
    """Mb/s, and the cells of the shared path by background."""
    found = cells(run for run in runs if run["part"] == part)
    alone = {case.background: each for case, each in found.items() if case.foreground is None}
    shared = {case.background or "": each for case, each in found.items() if case.foreground is not None}
    rates = {Key("dedicated", "background", name): _mbps(each.background_bps) for name, each in alone.items()}
    if "iperf" in alone:
        rates[Key("dedicated", "foreground", None)] = _mbps(alone["iperf"].background_bps)
    for name, each in shared.items():
        rates[Key("shared", "foreground", name)] = _mbps(each.foreground_bps)
        rates[Key("shared", "background", name)] = _mbps(each.background_bps)
    return rates, shared


def beside_the_paper(part: str, runs: Iterable[Run]) -> Table:
    """Ours, and the paper's in brackets. The foreground is one CUBIC stream."""
    rates, shared = ours(part, runs)
    said = paper(part)
    title = f"Table {NUMBERS[part]}, Overlay-{PARTS[part]}: Mb/s of payload, ours (the paper's)"
    table = Table("", *(words(name) for name in TABLE_BACKGROUNDS), title=title)
    alone = Key("dedicated", "foreground", None)
    table.add_row("foreground alone", *(_cell(rates, said, alone) for _ in TABLE_BACKGROUNDS))
    for what, kind, stream in (
        ("background alone", "dedicated", "background"),
        ("foreground, shared", "shared", "foreground"),
        ("background, shared", "shared", "background"),
    ):
        table.add_row(what, *(_cell(rates, said, Key(kind, stream, name)) for name in TABLE_BACKGROUNDS))
    none = Cell(Case(part, PARTS[part], None, None), (), "not run")
    own = {name: shared.get(name, none) for name in TABLE_BACKGROUNDS}
    table.add_row(
        "Jain's index", *(_pair(each.jain, paper_jain(part, name), 2) for name, each in own.items())
    )
    table.add_row(f"the same, last {LAST_S} s", *(_pair(each.jain_last, None, 2) for each in own.values()))
    alone_bps = None if (mbps := rates.get(alone)) is None else 1e6 * mbps
    table.add_row(
        "harm to the foreground",
        *(_pair(each.harm(alone_bps), _harm(said, name), 2) for name, each in own.items()),
    )
    table.add_row(
        "RTT, median, ms", *(_pair(each.rtt_s and 1e3 * each.rtt_s, None, 0) for each in own.values())
    )
    table.add_row("", *(each.note for each in own.values()))
    return table


def _harm(said: Mapping[Key, float], background: str) -> float | None:
    beside = said.get(Key("shared", "foreground", background))
    return None if beside is None else 1 - beside / said[Key("dedicated", "foreground", None)]


def _cell(rates: Mapping[Key, float | None], said: Mapping[Key, float], key: Key) -> str:
    return _pair(rates.get(key), said.get(key), 0)


def _pair(mine: float | None, said: float | None, digits: int) -> str:
    own = "–" if mine is None else f"{mine:.{digits}f}"
    return own if said is None else f"{own} ({said:.{digits}f})"


def _mbps(bps: float | None) -> float | None:
    return None if bps is None else bps / 1e6


def show(runs: Iterable[Run]) -> None:
    """Prints those of which there are runs."""
    own = list(runs)
    for part in NUMBERS:
        if any(run["part"] == part for run in own):
            rich.print(beside_the_paper(part, own))


def main() -> int:
    file = RESULTS / "ops.json"
    if not file.exists():
        print("bench ops: no record yet; make bench-ops", file=sys.stderr)
        return 1
    show(json.loads(file.read_text())["runs"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
