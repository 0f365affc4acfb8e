"""The rows of the table, from the runs alone."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from bench.peers import iperf3
from bench.peers.howdah import Howdah
from bench.report import Row, Target

WANTED = {"file": {20.0: 1.2, 100.0: 1.3, 183.0: 1.5}, "files": {100.0: 3.0}}
"""Times the best file tool, by kind of work and round trip in ms."""
CEILING = 0.9
MEMORY_MIB = 256.0

UNITS = {"file": "Gb/s", "files": "files/s"}
OURS = (Howdah().name, Howdah(keeps_login=False).name)

Runs = Sequence[dict[str, Any]]


def rows(runs: Runs) -> list[Row]:
    found: list[Row] = []
    copies = [run for run in runs if run["tool"] != "link"]
    for rtt_ms in _each(run["rtt_ms"] for run in copies):
        here = [run for run in copies if run["rtt_ms"] == rtt_ms]
        for kind in _each(run["work"] for run in here):
            found += _work(kind, rtt_ms, judged([run for run in here if run["work"] == kind]))
    found += _memory(copies)
    found += [lateness(f"{run['rtt_ms']:g} ms", run["stats"]) for run in runs if run["tool"] == "link"]
    return found


def judged(runs: Runs) -> dict[str, Runs]:
    """The runs that count, by tool: the rounds of the whole work; for a slow tool its part of it."""
    by_tool: dict[str, Runs] = {}
    for tool in _each(run["tool"] for run in runs):
        own = [run for run in runs if run["tool"] == tool]
        by_tool[tool] = [run for run in own if run["purpose"] == "round"] or own
    return by_tool


def rate(run: dict[str, Any]) -> float | None:
    """Of the whole work, in the unit of its kind; None when the run failed."""
    if run["error"]:
        return None
    moved = run["bytes"] * 8e-9 if run["work"] == "file" else run["files"]
    if run["reckoned_s"] is not None:
        return float(moved / run["part"] / run["reckoned_s"])
    return float(moved / run["wall_s"])


def median(runs: Runs) -> float | None:
    """None when any of the runs failed."""
    return middle(map(rate, runs))


def short(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _work(kind: str, rtt_ms: float, by_tool: dict[str, Runs]) -> list[Row]:
    found = [_tool(kind, rtt_ms, tool, runs) for tool, runs in by_tool.items()]
    medians = {tool: median(runs) for tool, runs in by_tool.items()}
    others = {
        tool: value
        for tool, value in medians.items()
        if value is not None and tool not in (*OURS, iperf3.NAME)
    }
    best = max(others, key=lambda tool: others[tool], default=None)
    wanted = WANTED[kind].get(rtt_ms)
    for ours in OURS:
        if ours not in by_tool:
            continue
        what, mine = f"{_title(kind, rtt_ms)}: {ours}", medians[ours]
        if best is not None:
            target = None if wanted is None else Target.at_least(wanted)
            found.append(ratio(f"{what} / {best}", mine, others[best], target, "best file tool"))
        if iperf3.NAME in by_tool:
            found += _ceiling(f"{what} / {iperf3.NAME}", by_tool[ours], by_tool[iperf3.NAME])
    return found


def _ceiling(what: str, ours: Runs, top: Runs) -> list[Row]:
    """The first one is judged: both tools on one clock. The others are what a reader may ask next."""
    mine, moving = median(ours), middle(run["facts"].get("moving_bps") for run in ours)
    own = middle(run["facts"].get("own_bps") for run in top)
    whole = "both from the start of the command to its end"
    mixed = "ours from the start of the command, iperf3 by its own clock"
    return [
        ratio(what, mine, median(top), Target.at_least(CEILING), whole),
        ratio(what, moving, own, None, "each by its own clock, once data flows"),
        ratio(what, None if mine is None else mine * 1e9, own, None, mixed),
    ]


def ratio(what: str, mine: float | None, other: float | None, target: Target | None, note: str) -> Row:
    value = mine / other if mine is not None and other else None
    return Row(what, value, "×", target, note)


def middle(values: Iterable[float | None]) -> float | None:
    """The median; None when any value is missing."""
    seen = list(values)
    known = [value for value in seen if value is not None]
    return statistics.median(known) if known and len(known) == len(seen) else None


def _tool(kind: str, rtt_ms: float, tool: str, runs: Runs) -> Row:
    problems = [run["error"] for run in runs if run["error"]]
    rates = [each for each in map(rate, runs) if each is not None]
    if problems:
        note = problems[0].splitlines()[-1][-60:]
    elif runs[0]["reckoned_s"] is not None:
        note = f"{runs[0]['reckoned_s']:.0f} s for all of it, reckoned from 1/{1 / runs[0]['part']:.0f}"
    else:
        note = "once" if len(runs) == 1 else f"{short(min(rates))}–{short(max(rates))} in {len(runs)} runs"
    return Row(f"{_title(kind, rtt_ms)}: {tool}", median(runs), UNITS[kind], None, note)


def _memory(runs: Runs) -> list[Row]:
    found = []
    for end in ("near", "far"):
        grown = [run["facts"].get(f"{end}_memory_bytes") for run in runs if run["tool"] in OURS]
        known = [value for value in grown if value is not None]
        if grown:
            value = max(known) / 2**20 if known else None
            found.append(Row(f"memory of the {end} end, most", value, "MiB", Target.at_most(MEMORY_MIB)))
    return found


def lateness(path: str, stats: dict[str, Any]) -> Row:
    """How late the emulator was, from the stats of a link."""
    late = stats["lateness"]
    note = f"SPOILT: {late['why']}" if late["spoilt"] else ""
    what = f"{path}: lateness of the emulator, 99th percentile"
    return Row(what, (late["p99_ns"] or 0) / 1e6, "ms", None, note)


def _title(kind: str, rtt_ms: float) -> str:
    return f"{rtt_ms:g} ms, {'one file' if kind == 'file' else 'small files'}"


def _each(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
