"""What every bench prints and keeps: a table of rows against targets, and the same as JSON.

A row is met when its value reaches the target in the row's own sense: ``Target.at_least``,
``Target.at_most`` or ``Target.within``. A row without a target is information. The last honest result
is kept in ``bench/results/NAME.json``; figures are drawn from that file and from nothing else.
"""

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rich
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Target:
    """An interval a value must lie in; ``text`` says it as the table shows it."""

    low: float | None
    high: float | None
    text: str

    @classmethod
    def at_least(cls, low: float, text: str | None = None) -> "Target":
        return cls(low, None, text or f"≥ {low:g}")

    @classmethod
    def at_most(cls, high: float, text: str | None = None) -> "Target":
        return cls(None, high, text or f"≤ {high:g}")

    @classmethod
    def within(cls, low: float, high: float, text: str | None = None) -> "Target":
        return cls(low, high, text or f"{low:g} … {high:g}")

    def met_by(self, value: float) -> bool:
        return bool((self.low is None or value >= self.low) and (self.high is None or value <= self.high))


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table. ``value`` is None when it could not be measured: never met."""

    what: str
    value: float | None
    unit: str
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value is not None and self.target.met_by(self.value)


def commit() -> str | None:
    """The commit that ran, with ``+`` when the tree holds changes; None outside a checkout."""
    try:
        name = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", ":!bench/results"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return name + ("+" if dirty else "")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else None,
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
    }


def publish(name: str, rows: Sequence[Row], runs: Sequence[Mapping[str, Any]], *, keep: bool = True) -> bool:
    """Prints the table, writes ``results/NAME.json`` if ``keep``, and says whether every target was met."""
    table = Table("what", "value", "unit", "target", "met", title=f"bench {name}")
    for row in rows:
        met = {None: "", True: "yes", False: "[bold red]NO[/]"}[row.met]
        value = "–" if row.value is None else f"{row.value:.5g}"
        what = f"{row.what} ({row.note})" if row.note else row.what
        table.add_row(what, value, row.unit, row.target.text if row.target else "", met)
    rich.print(table)
    if keep:
        print(f"kept in {write(name, rows, runs)}", file=sys.stderr)
    return all(row.met is not False for row in rows)


def write(name: str, rows: Sequence[Row], runs: Sequence[Mapping[str, Any]]) -> Path:
    """Writes ``results/NAME.json``."""
    document = {
        "name": name,
        "commit": commit(),
        "machine": machine(),
        "rows": [
            {
                "what": row.what,
                "value": row.value,
                "unit": row.unit,
                "target": row.target.text if row.target else None,
                "met": row.met,
                "note": row.note or None,
            }
            for row in rows
        ],
        "runs": list(runs),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path
