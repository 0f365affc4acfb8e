"""When a copy between two far hosts began, of which this host hears late."""

import msgspec
import pytest

from howdah.remote.meeting import with_its_begin
from howdah.values.outcome import Outcome, Spent, StreamOutcome


def outcome(*receivers: Spent | None, setup_s: float = 0.164, moving_s: float = 0.001) -> Outcome:
    """37 MB on a local network, of which this host heard when all had arrived."""
    streams = [
        StreamOutcome(bytes=1, retransmissions=0, congestion_control="cubic", receiver=receiver)
        for receiver in receivers
    ]
    return Outcome(
        direction="push",
        bytes=37_000_000,
        files=1,
        folders=0,
        links=0,
        files_skipped=0,
        bytes_skipped=0,
        elapsed_s=0.17,
        setup_s=setup_s,
        moving_s=moving_s,
        finishing_s=0.01,
        encrypted=True,
        streams=streams,
    )


def worked(time_s: float) -> Spent:
    return Spent(wall_s={"start": 5.0, "socket": 0.75 * time_s, "digest": 0.25 * time_s})


def test_the_begin_is_that_of_the_stream_that_worked_longest() -> None:
    made = with_its_begin(outcome(worked(0.02), worked(0.1)))
    assert made.moving_s == pytest.approx(0.11)
    assert made.setup_s == pytest.approx(0.055)
    assert made.moving_bps == pytest.approx(37e6 * 8 / 0.11)


def test_what_this_host_saw_begin_before_that_stays() -> None:
    seen = outcome(worked(0.1), setup_s=0.03, moving_s=0.135)
    assert with_its_begin(seen) == seen


def test_an_end_that_lies_makes_no_copy_begin_before_its_session() -> None:
    made = with_its_begin(outcome(worked(3e8)))
    assert made.setup_s == 0.0
    assert made.moving_s == pytest.approx(0.165)


def test_a_begin_that_nobody_knows_is_left_out() -> None:
    for unknown in (outcome(None), outcome()):
        made = with_its_begin(unknown)
        assert (made.setup_s, made.moving_s) == (None, None)
    never = msgspec.structs.replace(outcome(worked(0.1)), setup_s=None, moving_s=None)
    assert with_its_begin(never) == never
