"""Whether a path is ours alone, over a fluid path in virtual time: others keep their windows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah.paths.shared.choose.alone import EMPTY_S, LESS, MOST_LESS, Alone

TICK_S, STEPS = 0.1, 100
CARRIES_BPS = 500e6


def found(others: float, base_rtt_s: float, queue_bdp: float) -> tuple[bool, float]:
    """What is found where others have that part of a path whose queue is full, and after how long."""
    alone = Alone()
    rtt_s = base_rtt_s * (1 + queue_bdp)
    # On its way, of others and of ours, in seconds of the path.
    theirs_s, ours_s = others * rtt_s, (1 - others) * rtt_s
    alone.begin(rtt_s, base_rtt_s, [(1 - others) * CARRIES_BPS / 4] * 4)
    assert alone.bound_bps is not None
    assert alone.each_bps(alone.bound_bps) == pytest.approx(alone.bound_bps / 4)
    part = alone.bound_bps / CARRIES_BPS
    assert 1 - MOST_LESS <= part / (1 - others) <= 1 - LESS + 1e-9
    assert alone.look(0.0, rtt_s, base_rtt_s) is None
    alone.made(0.0, None)
    for tick in range(1, 1000):
        for _ in range(STEPS):
            ours_s = max(part * base_rtt_s, ours_s + (part - ours_s / rtt_s) * TICK_S / STEPS)
            rtt_s = max(base_rtt_s, theirs_s + ours_s)
        told = alone.look(tick * TICK_S, rtt_s, base_rtt_s)
        if told is not None:
            assert (alone.asked, alone.bound_bps is None) == (not told, not told)
            return told, tick * TICK_S
    raise AssertionError("it never knew")


@settings(max_examples=50, deadline=None)
@given(base_rtt_s=st.floats(0.005, 0.3), queue_bdp=st.floats(0.2, 2.0))
def test_a_queue_of_our_own_ends_soon(base_rtt_s: float, queue_bdp: float) -> None:
    told, after_s = found(0.0, base_rtt_s, queue_bdp)
    assert told
    assert EMPTY_S <= after_s <= EMPTY_S + 2.5


@pytest.mark.parametrize("base_rtt_s", [0.02, 0.128])
@pytest.mark.parametrize("others", [0.3, 0.5, 0.9])
def test_a_queue_that_others_fill_stays(others: float, base_rtt_s: float) -> None:
    told, _ = found(others, base_rtt_s, 1.0)
    assert not told


def test_streams_of_unequal_windows_have_the_bound_nevertheless() -> None:
    """Without the queue theirs are sent in half the time; only one is to be bounded."""
    alone, rates_bps = Alone(), [100e6, 50e6, 25e6, 25e6]
    bound_bps = alone.begin(0.2, 0.1, rates_bps)
    each_bps = alone.each_bps(bound_bps)
    assert sum(min(each_bps, 2 * rate_bps) for rate_bps in rates_bps) == pytest.approx(bound_bps)


def test_what_was_refused_finds_nothing() -> None:
    alone = Alone()
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    assert alone.finding
    alone.made(1.0, "pacing cannot be set")
    assert not alone.finding
    assert alone.look(2.0, 0.1, 0.1) is None


def test_without_round_trips_nobody_is_taken_to_be_away() -> None:
    alone = Alone()
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    alone.made(0.0, None)
    told = [alone.look(tick * TICK_S, None, 0.1) for tick in range(100)]
    assert False in told
    assert True not in told


def test_on_another_route_nobody_is_taken_to_be_away() -> None:
    alone = Alone()
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    alone.made(0.0, None)
    alone.new_path()
    told = [alone.look(tick * TICK_S, 0.1, 0.1) for tick in range(100)]
    assert False in told
    assert True not in told
