"""The table of bench small comes out of the runs as it should."""

from typing import Any

from bench.small import HOWDAH, RSYNC, rows


def run(tool: str, wall_s: float, **other: Any) -> dict[str, Any]:  # noqa: ANN401, any field of a run
    files = {"tool": tool, "work": "files", "purpose": "round", "part": 1.0, "files": 10**6, "wall_s": wall_s}
    return files | {"error": None, "reckoned_s": None} | other


def test_the_best_of_the_slow_tools_counts_by_what_the_whole_would_take() -> None:
    part = {"purpose": "first", "part": 0.001, "files": 1000}
    start = {"purpose": "start", "part": 0.0, "files": 1}
    runs = [run("xrdcp", 0.5, **start), run("xrdcp", 6.0, reckoned_s=5500.5, **part)]
    runs += [run("rclone", 0.5, **start), run("rclone", 50.0, reckoned_s=49500.5, **part)]
    runs += [run(HOWDAH.name, took) for took in (40.0, 50.0, 60.0)] + [run(RSYNC.name, 500.0)]
    found = {row.what: row for row in rows(runs)}
    assert found[HOWDAH.name].value == 20_000
    assert found[HOWDAH.name].met is True
    assert found[f"{HOWDAH.name} / {RSYNC.name}"].value == 10
    assert found["xrdcp"].value == 10**6 / 5500.5
    assert found[f"{HOWDAH.name} / xrdcp"].value == 5500.5 / 50
    assert f"{HOWDAH.name} / rclone" not in found


def test_a_copy_that_failed_is_not_dropped() -> None:
    runs = [run(HOWDAH.name, 40.0), run(HOWDAH.name, 40.0, error="exit code 1: no"), run(RSYNC.name, 500.0)]
    found = {row.what: row for row in rows(runs)}
    assert found[HOWDAH.name].value is None
    assert found[HOWDAH.name].met is False
    assert found[f"{HOWDAH.name} / {RSYNC.name}"].met is False
