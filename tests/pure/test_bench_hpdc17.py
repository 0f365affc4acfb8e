"""What make bench-hpdc17 judges, and that what it keeps is enough for the page."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
from samples import run, sample
from sweeps import Point, sweep

from bench.hpdc17 import judge, page, record
from howdah.archive import Archive
from howdah.archive.runs import COLUMNS
from howdah.measure.plan import parse_plan
from howdah.report.material import Material
from howdah.values.link import symmetric
from howdah.values.record import Swept

PLAN = """
name = "tiny"
repeats = 3
[lab]
rate = "10Gbit"
rtt = "100ms"
[[runs]]
congestion_control = "cubic"
streams = 2
buffer = "1GB"
time = "10s"
"""


def fill(root: Path, repeats: int) -> Archive:
    plan = parse_plan(PLAN, "tiny.toml")
    (cell,) = plan.repeats()
    archive = Archive(root)
    for repeat in range(repeats):
        samples = [
            sample(t_s=tenth / 10, stream=stream, bytes_acked=tenth * 10**7)
            for tenth in range(1, 101)
            for stream in range(2)
        ]
        link = symmetric(10**10, 10**8)
        made = run(repeat, link=link, buffer_bytes=10**9, rate_bps=8e9, samples=samples)
        swept = Swept(id=plan.id, name=plan.name, cell=str(cell), repeat=repeat)
        archive.save(msgspec.structs.replace(made, sweep=swept))
    return archive


@pytest.mark.parametrize(("made", "met"), [(2, False), (3, True)])
def test_a_sweep_that_was_stopped_is_not_at_its_end(tmp_path: Path, made: int, met: bool) -> None:
    archive = fill(tmp_path, made)
    row = judge.of_sweep(parse_plan(PLAN, "tiny.toml"), archive)
    assert (row.value, row.unit, row.met) == (made, "of 3", met)
    assert judge.of_lateness(Material(archive.runs())).value == 0


def smooth(point: Point) -> float:
    return min(9.4e9 * (1 - point.rtt_s), point.streams * point.buffer_bytes * 8 / point.rtt_s)


def uneven(point: Point) -> float:
    """What nothing between RTTs foretells: another configuration is best at each."""
    rng = np.random.default_rng([point.streams, round(point.rtt_s * 1e4)])
    return float(rng.uniform(1e9, 9e9))


def test_choice_and_prediction_can_fail() -> None:
    good = list(judge.of_selection(Material(sweep(smooth, spread=0.03, repeats=5))))
    assert [row.met for row in good[:3]] == [True, True, True]
    bad = list(judge.of_selection(Material(sweep(uneven, spread=0.03, repeats=5))))
    assert [row.met for row in bad[:3]] == [False, False, False]
    # Of five inner RTTs there are ten draws of three; what they say beside the one that counts.
    for mine, other in zip(good[4:], bad[4:], strict=True):
        assert mine.what.startswith("over all 10 draws: ")
        assert mine.met is None
        assert mine.value is not None
        assert other.value is not None
    assert (good[4].value or 0) > 90 > (bad[4].value or 0)


def test_too_few_rtts_to_leave_out_are_rows_that_are_not_met() -> None:
    rows = list(judge.of_selection(Material(sweep(smooth, rtts=(0.0118, 0.0456, 0.183)))))
    assert [(row.value, row.met) for row in rows] == [(None, False)] * 4
    assert "sweep more" in rows[0].note


def test_each_statement_has_a_row_with_its_verdict() -> None:
    rows = {row.what.partition(":")[0]: row for row in judge.of_statements(Material(sweep(smooth)))}
    assert (rows["falls-with-rtt"].value, rows["falls-with-rtt"].unit) == (1, "agrees")
    assert (rows["dual"].value, rows["dual"].unit) == (None, "cannot tell")
    assert all(row.target is None for row in rows.values())


def kept_row(what: str, met: bool | None) -> Mapping[str, object]:
    return {"what": what, "met": met}


def test_another_bench_counts_by_its_record(tmp_path: Path) -> None:
    for name in judge.PARTS:
        rows = [kept_row("one", True), kept_row("two", name != "models"), kept_row("three", None)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"commit": "abc", "rows": rows}))
    found = dict(zip(judge.PARTS, judge.of_parts(tmp_path), strict=True))
    assert found["profile"].met is True
    assert (found["models"].value, found["models"].met) == (1, False)
    assert "missed: two" in found["models"].note
    (tmp_path / "archive.json").unlink()
    assert [row.met for row in judge.of_parts(tmp_path)] == [True, True, False, False]


def test_what_is_kept_is_enough_for_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = fill(tmp_path / "archive", 3)
    runs = archive.runs()
    newest = archive.load("last")
    results = tmp_path / "results"
    results.mkdir()
    for module, name, file in (
        (record, "FILE", "hpdc17.json"),
        (record, "TRACES", "hpdc17-traces.parquet"),
        (page, "RESULTS", ""),
    ):
        monkeypatch.setattr(module, name, results / file)
    record.FILE.write_text(json.dumps({"runs": record.kept(runs, newest)}))
    record.keep_traces(archive, Material(runs))
    found, again = record.load()
    for name in COLUMNS:
        column, kept = getattr(runs, name), getattr(found, name)
        assert kept.dtype.kind == column.dtype.kind, name
        assert np.array_equal(kept, column, equal_nan=column.dtype.kind == "f"), name
    assert again.environment == newest.environment
    whole, part = runs.traces(), found.traces()
    assert whole.keys() == part.keys()
    for each, trace in part.items():
        assert np.array_equal(trace.bytes_acked, whole[each].bytes_acked)
    page.draw()
    text = (results / "hpdc17.html").read_text()
    assert "CUBIC, 2 streams, 1 GB at 100 ms" in text
    assert (results / "hpdc17.png").read_bytes().startswith(b"\x89PNG")


def test_samples_that_no_figure_needs_are_not_kept() -> None:
    material = Material(sweep(smooth, controls=("cubic", "htcp"), rtts=(0.0118, 0.0226)))
    cells = record.traced(material)
    assert {cell.configuration.congestion_control for cell in cells} == {"cubic"}
    assert {cell.configuration.buffer_bytes for cell in cells} == {1e9}
