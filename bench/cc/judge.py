"""The rows and the tables of ``make bench-cc``, from the runs alone."""

import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from bench.cc import tail
from bench.cc.cpu import KERNELS, SERIES
from bench.cc.table import FALLING, RATE_BPS, SEGMENTS_AT_ONCE, SIZE_BYTES, Cell, Falling, paper
from bench.report import Row, Target

Run = dict[str, Any]
Runs = Sequence[Run]

POSSIBLE_BPS = 117.6e6
"""Payload bytes a second, as the paper has it."""
FILLED_PERCENT = 99.6
IN_FORCE_S = 0.010
"""Beyond one round trip."""
ABOVE_PAPER = 1.01
FAR_MS = (500, 600, 700, 800)
MOST_LOSS = 0.01
SENT_S = 2.29
CPU_PERCENT = 3.0
DRAWS = 2000

FALLS: dict[Falling, str] = {"one": "lost one by one", "ten": "lost ten at a time"}


def rows(runs: Runs) -> list[Row]:
    found: list[Row] = []
    by_part = {part: [run for run in runs if run["part"] == part] for part in PARTS}
    for part, judge in PARTS.items():
        if by_part[part]:
            found += judge(by_part[part])
    return found


def _steady(runs: Runs) -> list[Row]:
    (run,) = runs
    what = "hd_hold, 1 Gb/s × 180 ms, 0.01 % lost each way"
    value = 100 * run["payload_Bps"] / POSSIBLE_BPS
    return [
        Row(
            f"{what}: payload received, of 117.6 MB/s",
            value,
            "%",
            Target.at_least(FILLED_PERCENT),
            spoilt(run),
        ),
        Row(f"{what}: segments sent again", run["retransmitted"], "segments"),
    ]


def _change(runs: Runs) -> list[Row]:
    (run,) = runs
    limit_ms = 1000 * (run["rtt_s"] + IN_FORCE_S)
    what = "hd_hold, another rate on a live connection, at the receiver"
    changes = {
        rate_bps: [each for each in run["changes"] if each["rate_bps"] == rate_bps]
        for rate_bps in sorted({each["rate_bps"] for each in run["changes"]})
    }
    after_ms = [1000 * statistics.median(each["after_s"] for each in same) for same in changes.values()]
    seen = [statistics.median(each["seen_bps"] for each in same) / rate for rate, same in changes.items()]
    longest_ms = 1000 * max(each["after_s"] for each in run["changes"])
    return [
        Row(
            f"{what}: in force after, median of each, latest of {len(changes)}",
            max(after_ms),
            "ms",
            Target.at_most(limit_ms),
            f"longest of {len(run['changes'])}: {longest_ms:.0f}; {spoilt(run)}".removesuffix("; "),
        ),
        Row(
            f"{what}: rate then, furthest from what was asked",
            100 * max(abs(each - 1) for each in seen),
            "%",
            Target.at_most(1),
        ),
    ]


def times_s(run: Run) -> list[float]:
    """Of each transfer; one that stalled took for ever."""
    return [math.inf if each["s"] is None else each["s"] for each in run["transfers"]]


def median_s(run: Run) -> float:
    return statistics.median(times_s(run))


def cell(run: Run) -> Cell:
    return Cell(run["rtt_ms"], run["loss"])


def bound_s(where: Cell, falling: Falling) -> float:
    """What nobody can beat in half of all transfers who repairs what was lost when told (bench.cc.tail)."""
    at_once = SEGMENTS_AT_ONCE[falling]
    return tail.median_s(SIZE_BYTES, RATE_BPS, where.rtt_ms / 1000, where.loss, at_once)


def _table(runs: Runs) -> list[Row]:
    found: list[Row] = []
    for falling in FALLING:
        own = [run for run in runs if run["falling"] == falling]
        if own:
            found += _fallen(own, falling)
    late = sum(run["stats"]["lateness"]["spoilt"] for run in runs)
    found.append(Row("268.8 MB, cells spoilt by a late emulator", late, "cells"))
    return found


def _fallen(runs: Runs, falling: Falling) -> list[Row]:
    said = paper()
    what = f"268.8 MB, {FALLS[falling]}"
    ratios = {cell(run): median_s(run) / said[cell(run)] for run in runs}
    above = [where for where, ratio in ratios.items() if ratio > ABOVE_PAPER]
    beyond = [where for where in above if bound_s(where, falling) <= ABOVE_PAPER * said[where]]
    worst = max(ratios, key=lambda where: ratios[where])
    at = f"at {worst.rtt_ms} ms, {100 * worst.loss:g} %"
    found = [
        Row(
            f"{what}: cells of {len(runs)} more than 1 % above the paper",
            len(above),
            "cells",
            Target.at_most(0, "0"),
        ),
        Row(f"{what}: of those, cells where repair in time allows less", len(beyond), "cells"),
        Row(f"{what}: most above the paper, {at}", 100 * (ratios[worst] - 1), "%", Target.at_most(1)),
        Row(
            f"{what}: most above what repair allows",
            100 * max(median_s(run) / bound_s(cell(run), falling) - 1 for run in runs),
            "%",
        ),
        Row(
            f"{what}: transfers of {sum(len(times_s(run)) for run in runs)} that stalled at their end",
            sum(times_s(run).count(math.inf) for run in runs),
            "transfers",
        ),
    ]
    for run in runs:
        if run["loss"] == MOST_LOSS and run["rtt_ms"] in FAR_MS:
            rtt_s = run["rtt_ms"] / 1000
            beyond_rtts = (median_s(run) - SENT_S) / rtt_s
            note = f"{median_s(run):.2f} s, the paper {said[cell(run)]:.2f}; aim: 2"
            title = f"{what}: 1 % and {run['rtt_ms']} ms, beyond 2.29 s"
            found.append(Row(title, beyond_rtts, "RTT", Target.at_most(3), note))
    return found


def _cpu(runs: Runs) -> list[Row]:
    found = []
    for run in runs:
        for control in SERIES[run["series"]]:
            of = [turn for turn in run["turns"] if turn["control"] == control]
            each = [per_core_second(turn) for turn in of]
            name = f"CPU at 10 Gb/s × 20 ms, {run['series']}: {control}"
            rate = statistics.median(turn["bytes"] * 8e-9 / turn["s"] for turn in of)
            note = f"at {rate:.2f} Gb/s, {sum(turn['retransmitted'] for turn in of)} sent again"
            found.append(Row(name, statistics.median(each), "Gb per core-second", None, note))
            if control != KERNELS:
                found.append(_against(run, control, name))
    return found


def _against(run: Run, control: str, name: str) -> Row:
    """The median over rounds of what a control costs against cubic in the same round."""
    ratios = [
        per_core_second(_turn(run, control, turn["round"])) / per_core_second(turn)
        for turn in run["turns"]
        if turn["control"] == KERNELS
    ]
    value = 100 * (statistics.median(ratios) - 1)
    low, high = (100 * (edge - 1) for edge in _interval(ratios))
    note = f"95 %: {low:+.1f} … {high:+.1f}; {spoilt(run)}".removesuffix("; ")
    return Row(f"{name}, against cubic", value, "%", Target.within(-CPU_PERCENT, 100, "≥ −3"), note)


def per_core_second(turn: Run) -> float:
    return float(turn["bytes"] * 8e-9 / turn["busy_s"])


def _turn(run: Run, control: str, number: int) -> Run:
    (found,) = (t for t in run["turns"] if t["control"] == control and t["round"] == number)
    return dict(found)


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median lies with 95 %, by drawing again."""
    draw = random.Random(1)  # noqa: S311
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    return medians[DRAWS // 40], medians[-1 - DRAWS // 40]


def _crowd(runs: Runs) -> list[Row]:
    (run,) = runs
    count = run["outcome"]["asked"]
    what = f"{count:,} connections attached while targets change"
    none = Target.at_most(0, "0")
    return [
        Row(f"{what}: lost", run["lost"], "connections", none),
        Row(f"{what}: on the wrong control or target", run["wrong"], "connections", none),
    ]


def spoilt(run: Run) -> str:
    late = run["stats"]["lateness"]
    return f"SPOILT: {late['why']}" if late["spoilt"] else ""


def beside_the_paper(runs: Runs, falling: Falling) -> Table:
    """Our medians, the paper's, and the least that repair allows."""
    said = paper()
    own = {cell(run): median_s(run) for run in runs if run["part"] == "table" and run["falling"] == falling}
    losses = sorted({where.loss for where in own})
    title = f"seconds for 268.8 MB, {FALLS[falling]}: ours · paper · least by repair"
    table = Table("RTT", *(f"{100 * loss:g} %" for loss in losses), title=title)
    for rtt_ms in sorted({where.rtt_ms for where in own}):
        cells = []
        for loss in losses:
            where = Cell(rtt_ms, loss)
            if where not in own:
                cells.append("")
                continue
            bad = own[where] > ABOVE_PAPER * said[where]
            ours = f"[bold red]{own[where]:.2f}[/]" if bad else f"{own[where]:.2f}"
            cells.append(f"{ours} · {said[where]:.2f} · {bound_s(where, falling):.2f}")
        table.add_row(f"{rtt_ms} ms", *cells)
    return table


PARTS = {"steady": _steady, "change": _change, "table": _table, "cpu": _cpu, "crowd": _crowd}
