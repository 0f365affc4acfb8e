"""Cells of one path and one length, and what holds each."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweeps import RTTS_S, joined, sweep
from test_report_statements import falling, steady

from howdah.archive.runs import Configuration, Runs
from howdah.report.cells import Cell, buffer_words, gigabits, is_buffer, is_rtt, limiting_factor, window_bps
from howdah.report.material import Material, bin_s, ramp_s, sustained_bps

ONE = Configuration("cubic", 1, 1e9)


def changed(runs: Runs, **columns: float) -> Runs:
    return dataclasses.replace(
        runs,
        **{name: np.full(len(runs), value, getattr(runs, name).dtype) for name, value in columns.items()},
    )


def test_every_run_is_in_its_cell() -> None:
    runs = sweep(falling, repeats=2)
    cells = Material(runs).cells
    places = [
        place
        for each, rates in cells.rates.items()
        for rtt_s in rates
        for place in cells.places(Cell(each, rtt_s))
    ]
    assert sorted(places) == list(range(len(runs)))
    for each, rates in cells.rates.items():
        assert list(rates) == list(RTTS_S)
        for rtt_s, of_one in rates.items():
            chosen = runs.where(**each._asdict(), rtt_s=rtt_s)
            assert np.array_equal(of_one, chosen.rate_bps)


def test_autotuned_runs_are_a_configuration() -> None:
    cells = Material(changed(sweep(falling, streams=(1,), buffers=(1.0,)), buffer_bytes=np.nan)).cells
    assert list(cells.rates) == [Configuration("cubic", 1, None)]


def test_a_cell_is_of_one_length() -> None:
    long = sweep(lambda _: 9e9, streams=(1,), buffers=(1e9,))
    short = changed(sweep(lambda _: 5e9, streams=(1,), buffers=(1e9,)), elapsed_s=10.0)
    sized = sweep(lambda _: 1e9, streams=(1,), buffers=(1e9,), sizes=(10**9, 2 * 10**10))
    material = Material(joined(short, long, sized))
    assert material.cells.mean_bps(Cell(ONE, 0.183)) == pytest.approx(9e9, rel=0.05)
    assert set(material.sizes[Cell(ONE, 0.183)]) == {10**9, 2 * 10**10}
    larger = Material(joined(sized, sweep(lambda _: 3e9, streams=(1,), buffers=(1e9,), sizes=(5 * 10**10,))))
    assert larger.cells.mean_bps(Cell(ONE, 0.183)) == pytest.approx(3e9, rel=0.05)


def test_a_page_is_of_the_path_with_most_runs() -> None:
    few, many = sweep(falling, path="dtn2", rtts=(0.05,)), sweep(falling, path="lab 10 Gb/s")
    material = Material(joined(few, many))
    assert material.path == "lab 10 Gb/s"
    assert [cells.path for cells in material.paths] == ["lab 10 Gb/s", "dtn2"]


@pytest.mark.parametrize(
    ("rate_bps", "resent", "limit"),
    [(9.3e9, 5, "link"), (4e9, 0, "buffers"), (1e9, 7, "losses"), (1e9, 0, "growth")],
)
def test_what_holds_a_cell(rate_bps: float, resent: int, limit: str) -> None:
    best = sweep(lambda _: 9.4e9, streams=(10,), buffers=(1e9,), rtts=(0.1,))
    own = changed(
        sweep(lambda _: rate_bps, streams=(1,), buffers=(60e6,), rtts=(0.1,)), retransmissions=resent
    )
    material = Material(joined(best, own))
    cell = Cell(Configuration("cubic", 1, 60e6), 0.1)
    assert window_bps(cell) == pytest.approx(4.8e9)
    assert limiting_factor(material.cells, cell) == limit


def test_the_noise_decides_what_is_clear() -> None:
    def rate(step: float) -> Runs:
        return sweep(
            lambda point: 5e9 * (1 + step * (point.streams == 4)), streams=(1, 4), buffers=(1e9,), rtts=(0.1,)
        )

    high, low = (Cell(Configuration("cubic", streams, 1e9), 0.1) for streams in (4, 1))
    assert Material(rate(0.1)).cells.clearly_more(high, low)
    assert not Material(rate(0.01)).cells.clearly_more(high, low)
    assert not Material(rate(-0.1)).cells.clearly_more(high, low)


@given(st.floats(0.1, 1e4), st.floats(1e-4, 0.9))
def test_bins_leave_sixty_or_are_the_papers_or_a_round_trip(elapsed_s: float, rtt_s: float) -> None:
    width = bin_s(elapsed_s, rtt_s)
    assert rtt_s - 1e-9 <= width <= 1
    assert width >= 0.1
    assert round(width * 10) == pytest.approx(width * 10)
    assert width in (0.1, 1.0) or width - rtt_s < 0.1 or elapsed_s / width == pytest.approx(60, rel=0.5)


@pytest.mark.parametrize("ramp", [2, 10, 30])
def test_a_ramp_that_is_known_is_found(ramp: int) -> None:
    runs = sweep(falling, streams=(2,), buffers=(1e9,), rtts=(0.366,), trace=steady(8e9, ramp), repeats=1)
    material = Material(runs)
    (trace,) = material.traces(Cell(Configuration("cubic", 2, 1e9), 0.366))
    assert ramp_s(trace) == pytest.approx(0.9 * ramp, abs=1.5)
    assert sustained_bps(trace) == pytest.approx(8e9, rel=0.05)


def test_words_are_the_papers() -> None:
    assert [buffer_words(size) for size in (244e3, 256e6, 2**30 - 1, None)] == [
        "244 KB",
        "256 MB",
        "1.074 GB",
        "autotuned",
    ]
    assert (gigabits(53e6), gigabits(8.123e9)) == ("53 Mb/s", "8.12 Gb/s")
    assert is_buffer(250e3, "default")
    assert is_buffer(2**30, "large")
    assert not is_buffer(64e6, "normal")
    assert not is_buffer(None, "large")
    assert is_rtt(0.0116, 0.0118)
    assert not is_rtt(0.0226, 0.0118)
