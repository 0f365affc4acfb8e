"""Recordings, how they are kept, and the windows cut from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rtts import recording

from howdah import HowdahError
from howdah.recognition.files import read_recording, recording_files, write_recording
from howdah.recognition.recording import Burst, Recording, includes, label
from howdah.recognition.windows import cut, default_step_s, examples

BURST = Burst(start_s=2.0, end_s=4.0, congestion_control="bbr")


def steady(times: list[float], rtt: list[float], **changes: object) -> Recording:
    return Recording(
        **{
            "times_s": np.array(times, float),
            "rtt_s": np.array(rtt, float),
            "base_rtt_s": 0.1,
            "step_s": 1.0,
            "run": "run",
            "path": "path",
            "background": {"cubic": 1},
            **changes,
        }
    )


def test_a_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    before = recording("bbr", "run 7", bursts=(BURST,), lost=0.1)
    write_recording(before, tmp_path / "a.npz")
    after, digest = read_recording(tmp_path / "a.npz")
    np.testing.assert_array_equal(after.times_s, before.times_s)
    np.testing.assert_array_equal(after.rtt_s, before.rtt_s)
    assert replace(after, times_s=before.times_s, rtt_s=before.rtt_s).__dict__ == before.__dict__
    write_recording(before, tmp_path / "b.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()
    write_recording(replace(before, run="run 8"), tmp_path / "b.npz")
    assert read_recording(tmp_path / "b.npz")[1] != digest
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_numpy_reads_it_without_us(tmp_path: Path) -> None:
    before = recording("udp", "run")
    write_recording(before, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as held:
        np.testing.assert_array_equal(held["rtt_s"], before.rtt_s)


@pytest.mark.parametrize(
    ("times", "rtt", "changes", "says"),
    [
        ([0, 1, 2], [1, 1], {}, "no series"),
        ([0], [1], {}, "no series"),
        ([0, 2, 1], [1, 1, 1], {}, "clock jumped back"),
        ([0, 1, np.nan], [1, 1, 1], {}, "do not ascend"),
        ([0, 1, 1e9], [1, 1, 1], {}, "its clock jumped"),
        ([0, 1, 2], [1, 0, 1], {}, "an RTT is not from 1e-06 s to 60 s"),
        ([0, 1, 2], [1, np.inf, 1], {}, "an RTT is not from"),
        ([0, 1, 2], [1, 1, 1], {"base_rtt_s": float("nan")}, "base RTT of nan"),
        ([0, 1, 2], [1, 1, 1], {"step_s": 0.0}, "step of 0.0"),
        ([0, 1, 2], [1, 1, 1], {"bursts": (Burst(start_s=3, end_s=2, congestion_control="x"),)}, "burst"),
        ([0, 1, 2], [1, 1, 1], {"run": ""}, "no name fit to print"),
        ([0, 1, 2], [1, 1, 1], {"path": "\x1b[2J"}, "no name fit to print"),
        ([0, 1, 2], [1, 1, 1], {"background": {"cubic": 0}}, "no background"),
        ([0, 1, 2], [1, 1, 1], {"background": {"1, b": 1}}, "no background"),
    ],
)
def test_a_recording_that_contradicts_itself_is_refused(
    times: list[float], rtt: list[float], changes: dict[str, object], says: str
) -> None:
    with pytest.raises(HowdahError, match=says) as error:
        steady(times, rtt, **changes)
    assert "\n" not in str(error.value)


def test_a_class_is_named_by_its_streams() -> None:
    assert label({"cubic": 2, "bbr": 1}) == "1 bbr, 2 cubic"
    assert label({}) == "nobody"
    assert steady([0, 1], [1, 1], background=None).label is None
    assert includes("1 bbr, 2 cubic", "bbr")
    assert not includes("2 bbr2, 1 cubic", "bbr")


def test_windows_are_means_on_a_grid() -> None:
    # Steps of 1 s: the third sample is early, the fifth is missing, the sixth had no answer.
    heard = steady([10, 11, 11.9, 13, 15, 16, 17], [0.1, 0.2, 0.3, 0.4, np.nan, 0.6, 0.8])
    fine, starts = cut(heard, 4.0, 1.0)
    np.testing.assert_allclose(fine.rtt_s, [[0.1, 0.2, 0.3, 0.4], [np.nan, np.nan, 0.6, 0.8]])
    np.testing.assert_allclose(fine.queue, [[0, 1, 2, 3], [5, 5, 5, 7]])
    assert starts.tolist() == [10, 14]
    # The fifth was not sent, the sixth was lost.
    assert fine.lost.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0]]
    coarse, _ = cut(heard, 8.0, 2.0)
    assert coarse.lost.tolist() == [[0, 0, 0.5, 0]]
    np.testing.assert_allclose(coarse.rtt_s, [[0.15, 0.35, np.nan, 0.7]])
    np.testing.assert_allclose(fine.first(4.0).rtt_s, fine.rtt_s)


def test_windows_with_too_many_gaps_are_left_out() -> None:
    heard = steady(list(range(12)), [0.1] * 4 + [0.1] + [np.nan] * 3 + [0.1] * 4)
    windows, starts = cut(heard, 4.0, 1.0)
    assert starts.tolist() == [0, 8]
    assert len(windows) == 2


def test_windows_know_what_was_sent() -> None:
    odd = Burst(start_s=5.0, end_s=6.0, congestion_control="vegas")
    windows, _ = cut(steady(list(range(8)), [0.1] * 8, bursts=(BURST, odd)), 8.0, 1.0)
    assert windows.sent.tolist() == [[0, 0, 2, 2, 0, 3, 0, 0]]


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(4, 12), st.integers(0, 10_000))
def test_coarser_windows_are_those_cut_coarser(times: int, steps: int, seed: int) -> None:
    heard = recording("cubic", "run", seed, duration_s=0.1 * times * steps * 3, lost=0.0)
    length_s, step_s = 0.1 * times * steps, 0.1 * times
    fine, coarse = cut(heard, length_s, 0.1)[0].coarser(step_s), cut(heard, length_s, step_s)[0]
    np.testing.assert_allclose(fine.rtt_s, coarse.rtt_s)
    np.testing.assert_allclose(fine.lost, coarse.lost)
    assert fine.step_s == pytest.approx(coarse.step_s)


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(4, 12), st.integers(0, 10_000))
def test_parts_of_windows_are_those_cut_shorter(count: int, steps: int, seed: int) -> None:
    heard = recording("cubic", "run", seed, duration_s=0.1 * count * steps * 3, lost=0.0)
    heard = replace(heard, bursts=(BURST,))
    parts, short = (
        cut(heard, 0.1 * count * steps, 0.1)[0].parts(count),
        cut(heard, 0.1 * steps, 0.1)[0],
    )
    assert parts.length_s == pytest.approx(0.1 * steps)
    for name in ("rtt_s", "lost", "sent", "base_rtt_s"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(short, name))


def test_what_cannot_be_cut_is_refused() -> None:
    heard = recording("udp", "run 3")
    with pytest.raises(
        HowdahError, match=r"'run 3' was recorded in steps of 0\.1 s, and 0\.25 s is no multiple"
    ):
        cut(heard, 10.0, 0.25)
    with pytest.raises(HowdahError, match="tells nothing"):
        cut(heard, 0.3, 0.1)
    with pytest.raises(HowdahError, match="no recording has a window of 90 s"):
        examples([heard], 90.0, 0.1)
    with pytest.raises(HowdahError, match="the traffic in run 'run 3' is not known"):
        examples([replace(heard, background=None)], 10.0, 0.1)
    with pytest.raises(HowdahError, match="have no first 20 s"):
        cut(heard, 10.0, 0.1)[0].first(20.0)


def test_steps_are_twenty_milliseconds_or_what_was_recorded() -> None:
    for step_s, expected in ((0.001, 0.02), (0.01, 0.02), (0.03, 0.03), (0.25, 0.25), (1.0, 1.0)):
        heard = steady([0, step_s], [1, 1], step_s=step_s)
        assert default_step_s([heard]) == pytest.approx(expected)


def test_folders_are_read_in_order_of_name(tmp_path: Path) -> None:
    for name in ("b.npz", "a.npz", "c.json"):
        (tmp_path / name).touch()
    assert [each.name for each in recording_files([tmp_path, tmp_path / "x.npz"])] == [
        "a.npz",
        "b.npz",
        "x.npz",
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(HowdahError, match="no recordings"):
        recording_files([tmp_path / "empty"])
