"""The table of bench peers comes out of the runs as it should."""

from typing import Any

from bench.peers.judge import rate, rows, short


def run(tool: str, wall_s: float, **other: Any) -> dict[str, Any]:  # noqa: ANN401, any field of a run
    return {
        "tool": tool,
        "work": "file",
        "rtt_ms": 100.0,
        "purpose": "round",
        "part": 1.0,
        "files": 1,
        "bytes": 10**9,
        "wall_s": wall_s,
        "error": None,
        "reckoned_s": None,
        "facts": {},
    } | other


def by_name(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {f"{row.what} ({row.note})" if " / " in row.what else row.what: row for row in rows(runs)}


def test_the_best_file_tool_is_the_one_to_beat() -> None:
    runs = [run("howdah cp", took) for took in (2.0, 1.0, 3.0)]
    runs += [run("scp", 8.0), run("rsync over ssh", 2.8), run("iperf3", 1.0)]
    table = by_name(runs)
    row = table["100 ms, one file: howdah cp / rsync over ssh (best file tool)"]
    assert row.value == 1.4
    assert row.met is True


def test_the_median_counts_and_a_failure_is_not_dropped() -> None:
    runs = [run("howdah cp", took) for took in (2.0, 1.0, 3.0)]
    assert by_name(runs)["100 ms, one file: howdah cp"].value == 4.0
    runs.append(run("howdah cp", 1.0, error="exit code 1: no"))
    assert by_name(runs)["100 ms, one file: howdah cp"].value is None


def test_first_copies_do_not_count() -> None:
    runs = [run("scp", 1.0, purpose="first", part=0.1, bytes=10**8), run("scp", 8.0)]
    assert by_name(runs)["100 ms, one file: scp"].value == 1.0


def test_a_slow_tool_is_judged_by_what_the_whole_would_take() -> None:
    slow = run("scp", 12.0, purpose="first", part=0.1, bytes=10**8, reckoned_s=80.0)
    assert rate(slow) == 0.1
    assert rows([slow])[0].note == "80 s for all of it, reckoned from 1/10"


def test_the_ceiling_is_judged_on_one_clock() -> None:
    runs = [run("howdah cp", 2.0, facts={"moving_bps": 8e9}), run("iperf3", 1.6, facts={"own_bps": 10e9})]
    ratios = [row for row in rows(runs) if "/ iperf3" in row.what]
    assert [(row.value, row.met) for row in ratios] == [(0.8, False), (0.8, None), (0.4, None)]


def test_small_files_are_counted_in_files() -> None:
    tree = run("scp", 20.0, work="files", files=10_000)
    assert (rows([tree])[0].value, rows([tree])[0].unit) == (500.0, "files/s")


def test_short() -> None:
    assert [short(value) for value in (0.1234, 9.87, 1234.5)] == ["0.123", "9.87", "1,234"]
