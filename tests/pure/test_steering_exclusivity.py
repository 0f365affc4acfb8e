"""Whether a path is ours alone, over a fluid path in virtual time: others keep their windows."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepped import Stepped

from howdah.steering.exclusivity import (
    ExclusivityProbe,
)
from howdah.steering.throughput import Bound
from howdah.steering.tunables import TUNED

TICK_S, STEPS = 0.1, 100
CARRIES_BPS = 500e6
STREAMS = 4


class Found(NamedTuple):
    told: bool
    after_s: float
    bounds: list[tuple[float, bool]]
    """When one was asked for, or its end, which is False."""


def found(
    others: float, base_rtt_s: float, queue_bdp: float, keeps: Callable[[float], float] = lambda t_s: 1.0
) -> Found:
    """What is found where others have that part of a path whose queue is full, and keep so much of it."""
    alone = Stepped(ExclusivityProbe())
    full_s = base_rtt_s * (1 + queue_bdp)
    bounds: list[tuple[float, bool]] = []
    t_s, begun_s = 0.0, None
    # On its way, of others and of ours, in seconds of the path.
    ours_s, rtt_s, part = (1 - others) * full_s, full_s, None
    for tick in range(1000):
        t_s = tick * TICK_S
        for step in range(STEPS):
            theirs_s = others * full_s * keeps(t_s + step * TICK_S / STEPS)
            most_s = (1 - others) * full_s
            sent = most_s / rtt_s * 10 if part is None else part
            # Windows that are free are full within a round trip; those that are bounded come to the bound.
            ours_s += (sent - ours_s / rtt_s) * TICK_S / STEPS
            ours_s = min(most_s, max((part or 0.0) * base_rtt_s, ours_s))
            rtt_s = max(base_rtt_s, theirs_s + ours_s)
        told, bound = None, None
        if alone.finding:
            told, bound = alone.look(t_s, rtt_s, base_rtt_s)
        elif rtt_s > base_rtt_s * 1.1:
            bound = alone.begin(rtt_s, base_rtt_s, [ours_s / rtt_s * CARRIES_BPS / STREAMS] * STREAMS)
            begun_s = t_s if begun_s is None else begun_s
        if bound is not None:
            assert alone.finding
            before, part = part, bound.each_bps and bound.each_bps * STREAMS / CARRIES_BPS
            if part is not None and before is None:
                assert (
                    1 - TUNED.exclusivity_most_less - 1e-9
                    <= part / (ours_s / rtt_s)
                    <= 1 - TUNED.exclusivity_less + 1e-9
                )
            bounds.append((t_s, part is not None))
            alone.made(t_s, None)
        if told is not None:
            assert begun_s is not None
            assert not alone.finding
            assert (part is not None) == told, "the bound goes on where nobody else is there"
            return Found(told, t_s - begun_s, bounds)
    raise AssertionError("it never knew")


@settings(max_examples=50, deadline=None)
@given(base_rtt_s=st.floats(0.005, 0.3), queue_bdp=st.floats(0.2, 2.0))
def test_a_queue_of_our_own_ends_soon_and_comes_back_and_ends_again(
    base_rtt_s: float, queue_bdp: float
) -> None:
    told, after_s, bounds = found(0.0, base_rtt_s, queue_bdp)
    assert told
    assert (
        2 * TUNED.exclusivity_empty_s
        <= after_s
        <= 2 * (TUNED.exclusivity_empty_s + 2.5) + TUNED.exclusivity_back_s
    )
    assert [bounded for _, bounded in bounds] == [True, False, True]


@pytest.mark.parametrize("base_rtt_s", [0.02, 0.128])
@pytest.mark.parametrize("others", [0.3, 0.5, 0.9])
def test_a_queue_that_others_fill_stays(others: float, base_rtt_s: float) -> None:
    assert not found(others, base_rtt_s, 1.0).told


@pytest.mark.parametrize("cut_s", [-0.1, 0.3, 0.8])
@pytest.mark.parametrize("others", [0.6, 0.9])
def test_a_queue_that_ends_for_others_who_lose_something_is_not_ours(others: float, cut_s: float) -> None:
    """As CUBIC does; it comes back in seconds and not at once."""

    def keeps(t_s: float) -> float:
        return 1.0 if t_s < 1.0 + cut_s else min(1.0, 0.7 + 0.03 * (t_s - 1.0 - cut_s))

    assert not found(others, 0.128, 0.375, keeps).told


def test_what_we_lose_ourselves_is_asked_again() -> None:
    alone = Stepped(ExclusivityProbe())
    for _ in range(TUNED.exclusivity_tries):
        assert not alone.finding
        alone.begin(0.2, 0.1, [CARRIES_BPS])
        alone.made(0.0, None)
        answers = (alone.look(tick * TICK_S, 0.1, 0.1) for tick in range(1, 15))
        asked = next(answer for answer in answers if answer.bound is not None)
        assert asked == (None, Bound(None))
        alone.made(2.0, None)
        told = [alone.look(2.0 + tick * TICK_S, 0.11, 0.1).told for tick in range(1, 15)]
    assert False in told
    assert True not in told


def test_a_bound_that_does_not_end_the_queue_that_has_come_back_is_lowered() -> None:
    alone, t_s = Stepped(ExclusivityProbe()), 0.0
    first_bps = alone.begin(0.2, 0.1, [CARRIES_BPS]).each_bps
    alone.made(0.0, None)
    bounds: list[float | None] = []
    for tick in range(1, 200):
        t_s = tick * TICK_S
        rtt_s = 0.1 if t_s < 1.0 else 0.2
        told, bound = alone.look(t_s, rtt_s, 0.1)
        if bound is not None:
            bounds.append(bound.each_bps)
            alone.made(t_s, None)
        if told is not None:
            break
    assert told is False
    assert first_bps is not None
    lowered = [pytest.approx(first_bps * 0.9**times) for times in range(TUNED.exclusivity_eases + 1)]
    assert bounds == [None, *lowered, None]
    assert t_s < 12


def test_streams_of_unequal_windows_have_the_bound_nevertheless() -> None:
    """Without the queue theirs are sent in half the time; only one is to be bounded."""
    alone, rates_bps = Stepped(ExclusivityProbe()), [100e6, 50e6, 25e6, 25e6]
    each_bps = alone.begin(0.2, 0.1, rates_bps).each_bps
    assert each_bps is not None
    together_bps = sum(min(each_bps, 2 * rate_bps) for rate_bps in rates_bps)
    assert together_bps == pytest.approx((1 - 0.1) * sum(rates_bps))


def test_what_was_refused_finds_nothing() -> None:
    alone = Stepped(ExclusivityProbe())
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    assert alone.finding
    alone.made(1.0, "pacing cannot be set")
    assert not alone.finding
    assert alone.look(2.0, 0.1, 0.1) == (None, None)


def test_without_round_trips_nobody_is_taken_to_be_away() -> None:
    alone = Stepped(ExclusivityProbe())
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    alone.made(0.0, None)
    told = [alone.look(tick * TICK_S, None, 0.1).told for tick in range(100)]
    assert False in told
    assert True not in told


def test_on_another_route_a_bound_ends_though_there_is_no_queue() -> None:
    """It was set again on the old one, and waited for a queue that would end."""
    alone = Stepped(ExclusivityProbe())
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    for t_s, rtt_s in ((0.0, 0.1), (1.0, 0.2)):
        alone.made(t_s, None)
        answers = (alone.look(t_s + tick * TICK_S, rtt_s, 0.1) for tick in range(1, 10))
        assert any(answer.bound is not None for answer in answers)
    assert alone.step == "again"
    alone.made(2.0, None)
    alone.on_new_route()
    assert alone.look(2.1, 0.1, 0.1) == (False, Bound(None))
    alone.made(2.2, None)
    assert not alone.finding


def test_on_another_route_nobody_is_taken_to_be_away() -> None:
    alone = Stepped(ExclusivityProbe())
    alone.begin(0.2, 0.1, [CARRIES_BPS])
    alone.made(0.0, None)
    alone.on_new_route()
    told = [alone.look(tick * TICK_S, 0.1, 0.1).told for tick in range(100)]
    assert False in told
    assert True not in told
