"""The rows of the table, from the runs alone."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from bench.blocked import first, flights, rates, states
from bench.blocked.flights import Flight
from bench.parts import Run
from bench.peers.judge import lateness
from bench.report import Row, Target

OF_SCP = 3.0
ROUND_TRIPS = 8.0
OF_PROGRAM_PERCENT = 1.0
NONE = Target.at_most(0)

Runs = Sequence[Run]


def rows(runs: Runs) -> list[Row]:
    """The rows of both parts, as far as they have runs."""
    over = [run for run in runs if run["part"] == rates.PART]
    brought = [run for run in runs if run["part"] == first.PART]
    return [*(_rates(over) if over else ()), *(_first(brought) if brought else ())]


def _rates(runs: Runs) -> Iterator[Row]:
    copies = [run for run in runs if "stats" not in run]
    failed = [run for run in copies if run["error"]]
    note = f"of {len(copies)}" + (f": {failed[0]['error'][-60:]}" if failed else "")
    yield Row("copies that failed, differed or took another way", len(failed), "", NONE, note)
    for path in dict.fromkeys(run["path"] for run in copies):
        for direction in rates.DIRECTIONS:
            here = [run for run in copies if (run["path"], run["direction"]) == (path, direction)]
            yield from _table(f"{path}, {direction}", here)
    yield from (lateness(run["path"], run["stats"]) for run in runs if "stats" in run)


def _table(where: str, runs: Runs) -> Iterator[Row]:
    """One direction over one path: every state, and what goes through ssh beside scp."""
    for state in states.STATES:
        own = _of(runs, state.name, rates.HOWDAH)
        whole, moving = _gbps(own), [run["moving_bps"] / 1e9 for run in own if run.get("moving_bps")]
        note = _spread(whole)
        if moving:
            before_s = statistics.median(run["setup_s"] for run in own)
            note += f"; {statistics.median(moving):.3g} while data moved, after {before_s:.2f} s"
        yield Row(f"{where}, {state.name}", _middle(whole), "Gb/s", note=note)
        if state.way != states.THROUGH_SSH:
            continue
        # scp by the same way, if it is another than the straight one.
        beside = states.ONLY_JUMP if state is states.ONLY_JUMP else states.OPEN
        pairs = scp_pairs(_of(runs, beside.name, rates.SCP))
        moved = [moving_bps(*pair) / 1e9 for pair in pairs]
        size = own[0]["bytes"] if own else rates.FILE_BYTES
        scp = [size * 8e-9 / reckoned_s(*pair, size) for pair in pairs]
        note = _spread(scp) + (f"; {statistics.median(moved):.3g} while data moved" if moved else "")
        yield Row(f"{where}, scp, {beside.name}", _middle(scp), "Gb/s", note=note)
        what, target = f"{where}, {state.name}, of scp", Target.at_least(OF_SCP)
        yield Row(f"{what}: while data moved", _quotient(moving, moved), "×", target)
        yield Row(f"{what}: whole command", _quotient(whole, scp), "×", target)


def scp_pairs(runs: Runs) -> list[tuple[Run, Run]]:
    """scp's shorter and longer copy of each round that has both."""
    by_round: dict[int, list[Run]] = {}
    for run in runs:
        by_round.setdefault(run["round"], []).append(run)
    ordered = [sorted(each, key=lambda run: int(run["bytes"])) for each in by_round.values()]
    return [(each[0], each[1]) for each in ordered if len(each) == 2]


def moving_bps(shorter: Run, longer: Run) -> float:
    """The rate of scp without its login: the bytes that one copy has more, over the time it took more."""
    return float((longer["bytes"] - shorter["bytes"]) * 8 / (longer["wall_s"] - shorter["wall_s"]))


def reckoned_s(shorter: Run, longer: Run, size_bytes: int) -> float:
    """How long scp takes for so many bytes, login included; it is too slow to be given them all."""
    more_bytes = size_bytes - longer["bytes"]
    return float(longer["wall_s"] + more_bytes * 8 / moving_bps(shorter, longer))


def _of(runs: Runs, state: str, tool: str) -> list[Run]:
    """Those that did what they should."""
    return [run for run in runs if (run["state"], run["tool"], run["error"]) == (state, tool, None)]


def _gbps(runs: Runs) -> list[float]:
    return [run["bytes"] * 8e-9 / run["wall_s"] for run in runs]


def _first(runs: Runs) -> Iterator[Row]:
    failed = [run for run in runs if run["error"]]
    note = f"of {len(runs)}" + (f": {failed[0]['error'][-60:]}" if failed else "")
    yield Row("first and second copies to a bare host that failed", len(failed), "", NONE, note)
    good = [run for run in runs if not run["error"] and run["which"] == first.FIRST]
    counted = [_counted(run) for run in good if run["first_s"] is not None]
    what = "first copy, round trips counted until the far end is there, but for slow start"
    yield Row(what, _middle(counted), "", Target.at_most(ROUND_TRIPS), _spread(counted))
    for what, of, target in (
        ("until the command there has found no far end", itemgetter("asked_s"), None),
        ("until its first byte leaves", itemgetter("first_s"), None),
        ("while its bytes leave: slow start", _leaving, None),
        ("until the far end is there, but for slow start", _but_leaving, Target.at_most(ROUND_TRIPS)),
        ("until the far end is there", itemgetter("whole_s"), None),
    ):
        found = slopes(good, of)
        yield Row(f"first copy, round trips by time {what}", _middle(found), "", target, _spread(found))
    for rtt_ms in first.RTTS_MS:
        took = [run["whole_s"] for run in good if run["rtt_ms"] == rtt_ms and run["whole_s"]]
        yield Row(
            f"first copy, from the start of the command until the far end is there, {rtt_ms} ms",
            _middle(took),
            "s",
            note=_spread(took),
        )
    again = [run for run in runs if not run["error"] and run["which"] == first.SECOND]
    sent = [100 * run["sent_bytes"] / run["packed_bytes"] for run in again]
    most = max(sent, default=None)
    what = "second copy: all that ssh sent, of the size of what was brought"
    yield Row(what, most, "%", Target.at_most(OF_PROGRAM_PERCENT), "most")
    replaced = sum(not run["kept"] for run in again)
    yield Row("second copy: the far end there is another file", replaced if again else None, "", NONE)


def _counted(run: Run) -> float:
    """The waits until its first byte leaves, and half a round trip for its last byte to arrive."""
    heard = [Flight(*flight) for flight in run["flights"]]
    return flights.waits(heard, run["rtt_ms"] / 1e3, run["first_s"]) + 0.5


def slopes(runs: Runs, of: Callable[[Run], float | None]) -> list[float]:
    """How many round trips are in a time, in each round: how much more it is where a round trip takes more.

    What processors need, and bytes at the rate of the link, is the same for both, and falls out.
    """
    low, high = first.RTTS_MS
    times = {(run["round"], run["rtt_ms"]): of(run) for run in runs}
    found = []
    for number in sorted({run["round"] for run in runs}):
        less, more = times.get((number, low)), times.get((number, high))
        if less is not None and more is not None:
            found.append((more - less) * 1e3 / (high - low))
    return found


def _leaving(run: Run) -> float | None:
    return None if run["first_s"] is None else run["last_s"] - run["first_s"]


def _but_leaving(run: Run) -> float | None:
    leaving = _leaving(run)
    return None if leaving is None else run["whole_s"] - leaving


def _quotient(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    mine, other = _middle(ours), _middle(theirs)
    return None if mine is None or not other else mine / other


def _middle(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.3g} … {max(values):.3g}" if values else "none"
