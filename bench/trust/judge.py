"""The rows of the table, from the runs alone."""

import math
from collections.abc import Sequence

from bench.parts import Run
from bench.peers import iperf3
from bench.peers.judge import lateness, middle, ratio
from bench.report import Row, Target
from bench.trust import besieged, encrypted, resent

AGAIN_PERCENT = 1.0
BESIDE = 0.95
OF_IPERF3 = 0.6
OF_XRDCP = 3.0
NONE = Target.at_most(0)

Runs = Sequence[Run]


def rows(runs: Runs) -> list[Row]:
    """The rows of all parts that have runs."""
    found: list[Row] = []
    for part, judged in (
        (resent.PART, _resent),
        (besieged.PART, _strangers),
        (encrypted.PART, _encrypted),
    ):
        own = [run for run in runs if run["part"] == part]
        for path in dict.fromkeys(run["path"] for run in own):
            here = [run for run in own if run["path"] == path]
            found += [
                Row(f"{part}, {path}: {row.what}", row.value, row.unit, row.target, row.note)
                for row in judged(here)
            ]
            found += [lateness(f"{part}, {path}", run["stats"]) for run in here if "stats" in run]
    return found


def again_percent(run: Run) -> float:
    """What crossed the link beyond one whole copy, of the file."""
    return float(100 * run["again_bytes"] / run["size_bytes"])


def struck(run: Run) -> bool:
    """Whether the kill came while the copy ran."""
    return run["sessions"][0]["struck_at"] is not None


def ratios(copies: Runs) -> list[float | None]:
    """The rate beside strangers over the rate without them, pair by pair; null where a copy failed."""
    by_pair: dict[int, dict[bool, Run]] = {}
    for run in copies:
        by_pair.setdefault(run["pair"], {})[run["besieged"]] = run
    return [
        None
        if len(pair) < 2 or any(run["error"] for run in pair.values())
        else pair[False]["wall_s"] / pair[True]["wall_s"]
        for pair in by_pair.values()
    ]


def came_hz(run: Run) -> float:
    """The strangers that were connected, of all hosts, a second."""
    crowds = run["strangers"]
    return math.fsum(crowd["connected"] / crowd["lasted_s"] for crowd in crowds if crowd["lasted_s"])


def _resent(runs: Runs) -> list[Row]:
    kills = [run for run in runs if isinstance(run["case"], int)]
    counted = [again_percent(run) for run in kills if struck(run)]
    at_most = Target.at_most(AGAIN_PERCENT)
    by_itself = sum(run["sessions"][0]["exit_code"] == 0 for run in kills if struck(run))
    unfinished = [run for run in kills if run["sessions"][-1]["exit_code"] or not run["same"]]
    where = runs[0]["where"]
    return [
        Row("kills while the copy ran", len(counted), "", Target.at_least(resent.KILLS)),
        Row("sent again, worst", max(counted, default=None), "% of the file", at_most, where),
        Row("sent again, median", middle(counted), "% of the file", at_most),
        Row("not finished by the same command, or not identical", len(unfinished), "", NONE),
        Row("with something left beside the file", sum(bool(run["left"]) for run in kills), "", NONE),
        Row("copies that went on by themselves", by_itself, ""),
    ]


def _strangers(runs: Runs) -> list[Row]:
    copies = [run for run in runs if run.get("tool") != "link"]
    crowded = [run for run in copies if run["besieged"]]
    found = ratios(copies)
    failed = [run["error"] for run in copies if run["error"]]
    judged = bool(copies) and copies[0]["path"] == besieged.JUDGED.name
    target = Target.at_least(BESIDE) if judged else None
    note = "" if judged else "strangers run on the same cores"
    lasted = [
        min(crowd["lasted_s"] for crowd in run["strangers"]) / run["wall_s"]
        for run in crowded
        if run["strangers"]
    ]
    rate_hz = Target.at_least(besieged.RATE_HZ)
    return [
        Row("pairs of copies", len(found), "", Target.at_least(besieged.PAIRS)),
        Row("rate beside strangers / without, median of the pairs", middle(found), "×", target, note),
        Row("copies that failed or differ", len(failed), "", NONE, failed[0][-60:] if failed else ""),
        Row(
            "connected strangers, least of the copies",
            min(map(came_hz, crowded), default=None),
            "/s",
            rate_hz,
        ),
        Row("of the whole command with strangers at the door, least", min(lasted, default=None), "×"),
    ]


def _encrypted(runs: Runs) -> list[Row]:
    ours, other = encrypted.OURS.name, encrypted.OTHER.name
    rates = {tool: _gbps(runs, tool) for tool in (ours, other)}
    plain = {
        streams: [run for run in runs if run["tool"] == iperf3.NAME and run["streams"] == streams]
        for streams in dict.fromkeys(run["streams"] for run in runs if run.get("tool") == iperf3.NAME)
    }
    tops = {streams: _gbps(own, iperf3.NAME) for streams, own in plain.items()}
    best = max(tops, key=lambda streams: tops[streams] or 0.0, default=None)
    whole = "both from the start of the command to its end"
    moving = middle(run["facts"].get("moving_bps") for run in runs if run.get("tool") == ours)
    own_clock = middle(run["facts"].get("own_bps") for run in plain.get(best, []))
    rounds = len([run for run in runs if run.get("tool") == ours])
    return [
        Row("rounds", rounds, "", Target.at_least(encrypted.ROUNDS)),
        *(Row(tool, rate, "Gb/s", None, _range(runs, tool)) for tool, rate in rates.items()),
        *(
            Row(f"iperf3 plain, {streams} stream{'s' * (streams != 1)}", rate, "Gb/s", None)
            for streams, rate in tops.items()
        ),
        ratio(f"{ours} / iperf3", rates[ours], tops.get(best), Target.at_least(OF_IPERF3), whole),
        ratio(f"{ours} / iperf3", moving, own_clock, None, "each by its own clock, once data flows"),
        ratio(f"{ours} / {other}", rates[ours], rates[other], Target.at_least(OF_XRDCP), whole),
    ]


def _gbps(runs: Runs, tool: str) -> float | None:
    """The median; null when any of the runs failed."""
    rate = middle(run["goodput_bps"] for run in runs if run.get("tool") == tool)
    return None if rate is None else rate / 1e9


def _range(runs: Runs, tool: str) -> str:
    own = [run for run in runs if run.get("tool") == tool]
    problems = [run["error"] for run in own if run["error"]]
    if problems:
        return str(problems[0].splitlines()[-1][-60:])
    rates = [run["goodput_bps"] / 1e9 for run in own]
    return f"{min(rates):.3g}–{max(rates):.3g}" if rates else ""
