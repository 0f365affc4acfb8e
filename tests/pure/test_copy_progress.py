"""The progress of a copy on a terminal: three lines, its rates, and the time that is left."""

import io
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from howdah._native import format_bytes
from howdah.remote.messages import Progress
from howdah.remote.meter import Meter
from howdah.words.copy_progress import amount
from howdah.words.copy_terminal import view

PROGRESS = st.builds(
    Progress,
    elapsed_s=st.floats(0, 1e5),
    bytes_done=st.integers(0, 2**50),
    bytes_total=st.none() | st.integers(1, 2**50),
    current=st.none() | st.text(st.characters(categories=("L", "N", "Zs")), max_size=200),
    rtt_s=st.none() | st.floats(0, 10),
    files_total=st.none() | st.integers(0, 10**8),
)


@given(st.lists(PROGRESS, min_size=1, max_size=4))
def test_progress_is_three_lines_of_80_columns(seen: list[Progress]) -> None:
    meter = Meter()
    for now in sorted(seen, key=lambda each: (each.elapsed_s, each.bytes_done)):
        meter.add(now)
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=False).print(view(seen[-1], meter, 80))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3, lines
    assert all(len(line) <= 80 for line in lines)


def _steady(rate_bps: float, until_s: float) -> Iterator[Progress]:
    empty = msgspec.convert(
        {
            "phase": "moving",
            "scan_complete": True,
            "bytes_total": 10**12,
            **dict.fromkeys(
                ["files_done", "files_skipped", "bytes_skipped", "streams", "retransmissions"], 0
            ),
            "elapsed_s": 0.0,
            "bytes_done": 0,
        },
        Progress,
    )
    for tick in range(int(until_s * 10)):
        t_s = tick / 10
        yield msgspec.structs.replace(empty, elapsed_s=t_s, bytes_done=int(max(0.0, t_s - 1) * rate_bps / 8))


def test_rates_and_time_left_of_a_steady_transfer() -> None:
    meter = Meter()
    assert meter.now_bps() is None
    for now in _steady(8e9, 11):
        meter.add(now)
    assert meter.now_bps() == pytest.approx(8e9)
    assert meter.mean_bps() == pytest.approx(8e9)
    assert meter.left_s(now) == pytest.approx((10**12 - now.bytes_done) / 1e9)


def test_holes_are_done_when_they_are_made_and_are_no_rate() -> None:
    meter = Meter()
    for now in _steady(8e9, 11):
        # A tenth of all is holes so far, and they come as fast again as what is sent.
        some = msgspec.structs.replace(now, hole_bytes=now.bytes_done, bytes_total=10**12 - now.bytes_done)
        meter.add(some)
    assert meter.now_bps() == pytest.approx(8e9)
    left_bytes = 10**12 - 2 * some.bytes_done
    assert meter.left_s(some) == pytest.approx(left_bytes / 2e9)
    assert amount(some) == f"{format_bytes(2 * some.bytes_done)} of 1.00 TB"


def test_a_source_that_is_one_file_leaves_no_end_of_a_line_open() -> None:
    *_, now = _steady(8e9, 1)
    out = io.StringIO()
    shown = view(msgspec.structs.replace(now, files_total=1, current=""), Meter(), 80)
    Console(file=out, width=80).print(shown)
    assert out.getvalue().splitlines()[-1].rstrip() == "     file 0 of 1"
