"""What benches say of a figure: met or not, also where NumPy made the figure."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench import parts, report
from bench.report import Row, Target


@pytest.mark.parametrize(("value", "met"), [(np.float64(1.5), True), (np.float32(0.5), False), (None, False)])
def test_a_figure_of_numpy_can_be_kept(value: float | None, met: bool) -> None:
    row = Row("x", value, "s", Target.within(1.0, 2.0))
    assert json.loads(json.dumps(row.met)) is met


def test_without_a_target_nothing_is_met_or_missed() -> None:
    assert Row("x", 1.0, "s").met is None


def rows(runs: list[parts.Run]) -> list[Row]:
    return [Row("sum", float(sum(run["took"] for run in runs)), "s")]


def test_a_part_takes_the_place_of_its_last_run_and_what_was_measured_before_a_failure_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "commit", lambda: "now")

    def gather(*measured: parts.Run, keep: bool = True) -> list[parts.Run]:
        def each() -> Iterator[parts.Run]:
            for run in measured:
                if run["took"] < 0:
                    raise ValueError("stopped")
                yield run

        return parts.gather("x", ("part",), each(), rows, str, keep=keep)

    one, two, again = {"part": 1, "took": 1}, {"part": 2, "took": 2}, {"part": 1, "took": 5}
    assert gather(one, two) == [one, two]
    assert gather(again, keep=False) == [again]
    with pytest.raises(ValueError, match="stopped"):
        gather(again, {"part": 2, "took": -1})
    assert parts.kept("x") == [two, again]
    assert json.loads((tmp_path / "x.json").read_text())["rows"][0]["value"] == 7
    monkeypatch.setattr(report, "commit", lambda: "later")
    assert parts.kept("x") == []
    before = (tmp_path / "x.json").read_text()
    with pytest.raises(ValueError, match="stopped"):
        gather(one, {"part": 2, "took": -1})
    assert (tmp_path / "x.json").read_text() == before, "until the bench is whole"
    assert parts.kept("x") == [one]
    assert gather(two) == [one, two]
    assert parts.kept("x") == [one, two]
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_part_never_takes_the_place_of_another_commits_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "commit", lambda: "now")
    assert parts.keeps("x", whole=False)
    for commit, kept in (("now", True), ("before", False)):
        (tmp_path / "x.json").write_text(json.dumps({"commit": commit, "runs": []}))
        assert parts.keeps("x", whole=False) is kept
        assert parts.keeps("x", whole=True)
    assert "the record is of before" in capsys.readouterr().err
