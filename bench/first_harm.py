"""What a jump costs: a part of ``make bench-first``.

On a path that has halved since, and beside connections under CUBIC that are there already, while no queue
says so yet. A connection begins with a memory of the whole path or by slow start in its place, in turns. What
it and the older ones lose counts, and how they share the path for the next 20 s.
"""

import contextlib
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from bench import first_ends
from bench.carrying import PAYLOAD_BYTES
from bench.first_ends import Begun
from bench.ops.fairness import jain
from bench.report import Row, Target
from howdah import lab
from howdah.cc.resume import Saved


class Setting(NamedTuple):
    """A path with room for a bandwidth-delay product, and who is on it."""

    part: float
    """Of the remembered rate."""
    neighbours: int
    ahead_s: float
    """So long before the other one they begin: they have nearly filled the path by then, and no queue."""
    span_s: float


REMEMBERED_BPS, RTT_MS = 1_000_000_000, 100
SETTINGS = {
    "halved": Setting(0.5, 0, 0.0, 5.0),
    "shared with one": Setting(1.0, 1, 0.85, 20.0),
    "shared with two": Setting(1.0, 2, 0.75, 20.0),
    "halved, and shared with one": Setting(0.5, 1, 0.75, 20.0),
}
BEGIN_S = 1.2
"""After this time all ends are ready."""
START_S = 2.0
"""What is lost until then is lost by how the newer one begins."""
PORT = 7032
WHO = {"slow start": "cubic", "a jump": "hd_resume"}
CAPACITY_BYTES = round(REMEMBERED_BPS * RTT_MS / 8e3)


def measure(rounds: int) -> list[dict[str, Any]]:
    """The pairs of each setting, in turns."""
    runs = []
    for setting in SETTINGS:
        for number in range(rounds):
            for who in WHO if number % 2 == 0 else reversed(WHO):
                runs.append(one(setting, who))
                print(_line(runs[-1]), file=sys.stderr)
    return runs


def one(setting: str, who: str) -> dict[str, Any]:
    """One connection that begins there, and what came of all."""
    part, neighbours, ahead_s, span_s = SETTINGS[setting]
    rate_bps = round(REMEMBERED_BPS * part)
    link = lab.symmetric(rate_bps, RTT_MS * 1_000_000, queue_bytes=round(rate_bps * RTT_MS / 8e3))
    saved = Saved(capacity_bytes=CAPACITY_BYTES, rtt_s=RTT_MS / 1e3) if who == "a jump" else None
    with lab.started(link) as wan, ThreadPoolExecutor() as pool, contextlib.ExitStack() as ends:
        at_s = time.monotonic() + BEGIN_S
        told = []
        for port in range(PORT + 1, PORT + 1 + neighbours):
            far = ends.enter_context(first_ends.taking(wan, port))
            near = ends.enter_context(first_ends.sending(wan, port, "cubic", ahead_s + span_s + 1, at_s))
            told.append([pool.submit(end.communicate, timeout=90) for end in (far, near)])
        newer = first_ends.begun(wan, PORT, WHO[who], span_s + RTT_MS / 1e3, saved, at_s=at_s + ahead_s)
        older = [first_ends.read(taken.result()[0], looks.result()[0]) for taken, looks in told]
    return {"part": "harm", "path": setting, "who": who, **_costs(older, newer, span_s)}


def _costs(older: list[Begun], newer: Begun, span_s: float) -> dict[str, Any]:
    """What each side lost since the newer one was there, and how evenly all shared the path."""
    begin_ns = newer.looks[0][0]
    ahead_s = [(begin_ns - each.looks[0][0]) / 1e9 for each in older]
    rates = [newer.rate_bps(0, span_s)]
    rates += [each.rate_bps(at_s, at_s + span_s) for each, at_s in zip(older, ahead_s, strict=True)]
    return {
        "ahead_s": ahead_s,
        "others_lost_at_first_bytes": sum(_lost(each, begin_ns, START_S) for each in older),
        "others_lost_bytes": sum(_lost(each, begin_ns, span_s) for each in older),
        "own_lost_at_first_bytes": _lost(newer, begin_ns, START_S),
        "own_lost_bytes": _lost(newer, begin_ns, span_s),
        "rates_bps": [round(rate) for rate in rates],
        "jain": jain(rates) or 0.0,
        "jumps": newer.memory.jumps if newer.memory else None,
        "retreats": newer.memory.retreats if newer.memory else None,
    }


def _lost(of: Begun, begin_ns: int, span_s: float) -> int:
    """Bytes, between a time and a while later."""
    before, after = (
        max((lost for now_ns, _, lost in of.looks if now_ns <= until_ns), default=0)
        for until_ns in (begin_ns, begin_ns + span_s * 1e9)
    )
    return (after - before) * PAYLOAD_BYTES


def _line(run: dict[str, Any]) -> str:
    mb = {what: f"{run[what] / 1e6:.2f}" for what in run if what.endswith("_bytes")}
    return (
        f"a path {run['path']}, {run['who']}: others lost {mb['others_lost_bytes']} MB, "
        f"{mb['others_lost_at_first_bytes']} at first, itself {mb['own_lost_bytes']} MB, "
        f"{mb['own_lost_at_first_bytes']} at first, Jain {run['jain']:.3f}, jumps {run['jumps']}"
    )


def rows(runs: list[dict[str, Any]]) -> list[Row]:
    """Medians, and what a jump costs more than a slow start."""
    found = []
    for setting in dict.fromkeys(run["path"] for run in runs):
        span_s = SETTINGS[setting].span_s
        side, whom = ("others", "others") if SETTINGS[setting].neighbours else ("own", "it")
        jumped, slow = (
            [run for run in runs if (run["path"], run["who"]) == (setting, who)]
            for who in ("a jump", "slow start")
        )
        jumps = sum(run["jumps"] for run in jumped)
        found.append(Row(f"jumps made, a path {setting}", jumps, f"of {len(jumped)}"))
        for what, until_s in (
            (f"{side}_lost_at_first_bytes", START_S),
            (f"{side}_lost_bytes", span_s),
        ):
            by_slow_start, by_jump = _median(slow, what) / 1e6, _median(jumped, what) / 1e6
            found.append(
                Row(
                    f"{whom} lost in {until_s:g} s by a jump, a path {setting}",
                    by_jump,
                    "MB",
                    Target.at_most(by_slow_start, f"≤ {by_slow_start:.2f}, by slow start"),
                )
            )
        if side == "others":
            fair = _median(slow, "jain")
            found.append(
                Row(
                    f"Jain over {span_s:g} s with a jump, a path {setting}",
                    _median(jumped, "jain"),
                    "",
                    Target.at_least(fair, f"≥ {fair:.2f}, with slow start"),
                )
            )
    return found


def _median(runs: list[dict[str, Any]], what: str) -> float:
    return float(statistics.median(run[what] for run in runs))
