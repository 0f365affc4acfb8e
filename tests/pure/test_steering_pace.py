"""Streams that are held, over a fluid path in virtual time: a queue, a round trip of delay, others."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepped import Stepped

from howdah.steering.pace import Pace, Path
from howdah.steering.throughput import level_bps
from howdah.steering.tunables import TUNED

TICK_S = 0.1
CARRIES_BPS = 500e6
SHARE_BPS = CARRIES_BPS / 2


class Held(NamedTuple):
    """What came of it, tick by tick."""

    rates_bps: list[float]
    bounds_bps: list[float]
    queues_s: list[float]
    changes_s: list[float]

    def mean_bps(self, from_s: float, until_s: float) -> float:
        """Of ours."""
        kept = self.rates_bps[round(from_s / TICK_S) : round(until_s / TICK_S)]
        return sum(kept) / len(kept)


def hold(
    others_bps: Callable[[float], float],
    length_s: float,
    *,
    base_rtt_s: float = 0.128,
    queue_bdp: float = 1.0,
    told: float = 1.0,
    uses_bps: float = 1e12,
    had_bps: float = 0.0,
    windows: Sequence[float] = (1.0,),
    each_bps: float | None = None,
    alone: bool = False,
) -> Held:
    """Others send so much whatever we do; ``told`` is what the path is taken to carry, of what it does.

    ``windows`` are the parts of it that each of our streams has a window for.
    """
    share_bps = told * SHARE_BPS
    path = Path(base_rtt_s, told * CARRIES_BPS, share_bps, alone)
    begin_bps = max(share_bps, had_bps) if alone else share_bps
    paced_bps = each_bps or begin_bps / len(windows)
    uneven = paced_bps * len(windows) / begin_bps
    held, done = Stepped(Pace.begin(begin_bps, had_bps, 0.0, paced_bps, uneven)), Held([], [], [], [])
    queue_bits, bound_bps, rtts, came_s = 0.0, share_bps, [base_rtt_s], None
    for tick in range(round(length_s / TICK_S)):
        t_s = tick * TICK_S
        rates_bps = [min(paced_bps, part * uses_bps) for part in windows]
        ours, theirs = sum(rates_bps), others_bps(t_s)
        queue_bits = queue_bits + (ours + theirs - CARRIES_BPS) * TICK_S
        queue_bits = min(max(0.0, queue_bits), queue_bdp * CARRIES_BPS * base_rtt_s)
        rtts.append(base_rtt_s + queue_bits / CARRIES_BPS)
        part = min(1.0, CARRIES_BPS / (ours + theirs)) if queue_bits else 1.0
        late = rtts[max(0, len(rtts) - 2 - round(base_rtt_s / TICK_S))]
        asked = None
        if came_s is None:
            asked = held.look(t_s, late, [rate_bps * part for rate_bps in rates_bps], path)
        if came_s is not None and t_s >= came_s:
            held.made(None)
            bound_bps, paced_bps, came_s = held.bound_bps, held.each_bps, None
            done.changes_s.append(t_s)
        if asked is not None:
            came_s = t_s + TICK_S
        done.rates_bps.append(ours * part)
        done.bounds_bps.append(bound_bps)
        done.queues_s.append(rtts[-1] - base_rtt_s)
    return done


@pytest.mark.parametrize("base_rtt_s", [0.01, 0.128, 0.25])
@pytest.mark.parametrize("told", [0.8, 1.0, 1.2])
def test_alone_it_comes_to_the_whole_path_and_hardly_fills_its_queue(base_rtt_s: float, told: float) -> None:
    ran = hold(lambda t_s: 0.0, 120, base_rtt_s=base_rtt_s, told=told)
    assert ran.mean_bps(15, 120) > 0.93 * CARRIES_BPS
    assert sorted(ran.queues_s)[round(0.95 * len(ran.queues_s))] < 0.25 * base_rtt_s + 0.01


def test_who_comes_finds_room_and_has_it_back_when_they_leave() -> None:
    """They grow as CUBIC does from a small window, and lose nothing."""

    def others_bps(t_s: float) -> float:
        return min(SHARE_BPS, 60e6 + 0.4 * max(0.0, t_s - 30) ** 3 * 12e3 / 0.128) if 30 <= t_s < 90 else 0.0

    ran = hold(others_bps, 120)
    assert ran.mean_bps(20, 30) > 0.93 * CARRIES_BPS
    assert ran.mean_bps(60, 90) == pytest.approx(SHARE_BPS, rel=0.06)
    assert max(ran.queues_s[round(32 / TICK_S) :]) < 0.06
    assert ran.mean_bps(102, 120) > 0.93 * CARRIES_BPS


def test_beside_others_that_fill_the_queue_it_keeps_an_equal_share() -> None:
    ran = hold(lambda t_s: SHARE_BPS * (1.2 if t_s < 2 else 1.0), 60)
    assert max(ran.bounds_bps) <= 1.02 * SHARE_BPS


def test_what_there_was_before_is_gone_on_with() -> None:
    ran = hold(lambda t_s: 0.0, 20, had_bps=0.98 * CARRIES_BPS)
    assert ran.mean_bps(2, 20) > 0.93 * CARRIES_BPS


def test_who_does_not_use_its_bound_gets_no_more() -> None:
    ran = hold(lambda t_s: 0.0, 60, uses_bps=1.1 * SHARE_BPS)
    assert max(ran.bounds_bps) < 1.1 * SHARE_BPS / 0.8 + 0.1 * SHARE_BPS


def test_streams_of_unequal_windows_have_the_whole_path_nevertheless() -> None:
    """Each has an equal part of the bound, and most could do with less."""
    windows = (0.3, 0.25, 0.15, 0.1, 0.1, 0.05, 0.03, 0.02)
    ran = hold(lambda t_s: 0.0, 40, had_bps=0.95 * CARRIES_BPS, uses_bps=1.4 * CARRIES_BPS, windows=windows)
    assert ran.mean_bps(10, 40) > 0.9 * CARRIES_BPS
    assert sorted(ran.queues_s)[round(0.95 * len(ran.queues_s))] < 0.05


def test_streams_of_unequal_windows_have_their_share_beside_a_queue_of_others() -> None:
    """Windows of streams that have just begun grow for seconds; those that have more make up for them."""
    windows = (0.5, 0.2, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02)
    ran = hold(lambda t_s: 0.8 * CARRIES_BPS, 40, uses_bps=1.2 * SHARE_BPS, windows=windows)
    assert ran.mean_bps(5, 40) > 0.65 * SHARE_BPS
    assert max(ran.bounds_bps) == SHARE_BPS


def test_a_path_of_its_own_is_used_almost_whole_and_without_a_queue() -> None:
    ran = hold(lambda t_s: 0.0, 120, had_bps=0.95 * CARRIES_BPS, alone=True)
    assert ran.mean_bps(2, 120) > 0.97 * CARRIES_BPS
    assert sum(queue_s > 0.0064 for queue_s in ran.queues_s) < 0.05 * len(ran.queues_s)


def test_unequal_windows_that_are_known_cost_nothing_from_the_first_second_on() -> None:
    windows = (0.3, 0.25, 0.15, 0.1, 0.1, 0.05, 0.03, 0.02)
    uses_bps, begin_bps = 1.4 * CARRIES_BPS, 0.95 * CARRIES_BPS
    each_bps = level_bps([part * uses_bps for part in windows], begin_bps)
    ran = hold(
        lambda t_s: 0.0,
        40,
        had_bps=begin_bps,
        uses_bps=uses_bps,
        windows=windows,
        each_bps=each_bps,
        alone=True,
    )
    assert min(ran.rates_bps) > 0.85 * CARRIES_BPS
    assert ran.mean_bps(0, 40) > 0.95 * CARRIES_BPS


def test_streams_that_are_all_slow_for_a_moment_are_not_let_go() -> None:
    """A busy host sends less than it is told to, of all of them."""
    held, path = (
        Stepped(Pace.begin(CARRIES_BPS, 0.0, 0.0, CARRIES_BPS / 4)),
        Path(0.128, CARRIES_BPS, SHARE_BPS, ours=True),
    )
    for tick in range(100):
        asked = held.look(tick / 10, 0.128, [0.7 * held.each_bps] * 4, path)
        assert asked is None or asked <= 1.001 * CARRIES_BPS / 4
        if asked is not None:
            held.made(None)


def test_who_comes_to_a_path_of_our_own_finds_room_too() -> None:
    """Who has little at first is not seen, and then grows as CUBIC does from a small window."""

    def others_bps(t_s: float) -> float:
        return min(SHARE_BPS, 20e6 + 0.4 * max(0.0, t_s - 30) ** 3 * 12e3 / 0.128) if t_s >= 30 else 0.0

    ran = hold(others_bps, 90, had_bps=0.95 * CARRIES_BPS, alone=True)
    assert ran.mean_bps(60, 90) == pytest.approx(SHARE_BPS, rel=0.06)
    assert max(ran.queues_s[round(32 / TICK_S) :]) < 0.06


def test_a_bound_that_was_refused_is_asked_for_again_and_is_no_rate_to_rise_from() -> None:
    """The machine says when it may be asked for."""
    held, path = Stepped(Pace.begin(SHARE_BPS, 0.0, 0.0, SHARE_BPS)), Path(0.128, CARRIES_BPS, SHARE_BPS)
    asked_bps: list[float] = []
    for tick in range(600):
        each_bps = held.look(tick / 10, 0.128, [held.each_bps], path)
        if each_bps is not None:
            asked_bps.append(each_bps)
            held.made("pacing cannot be set")
    assert len(asked_bps) > 2
    assert held.each_bps == SHARE_BPS
    assert max(asked_bps) < SHARE_BPS / TUNED.pace_used + TUNED.pace_fast * CARRIES_BPS


@settings(max_examples=30, deadline=None)
@given(
    loads=st.lists(st.floats(0.0, 1.2), min_size=1, max_size=12),
    base_rtt_s=st.floats(0.002, 0.3),
    told=st.floats(0.7, 1.3),
)
def test_it_is_never_below_its_share_and_rises_slowly(
    loads: list[float], base_rtt_s: float, told: float
) -> None:
    ran = hold(
        lambda t_s: loads[int(t_s / 5) % len(loads)] * CARRIES_BPS, 60, base_rtt_s=base_rtt_s, told=told
    )
    assert min(ran.bounds_bps) >= told * SHARE_BPS
    for one, two in pairwise(ran.changes_s):
        assert two - one >= TUNED.pace_every_s - 2 * TICK_S
        before, after = (ran.bounds_bps[round(t_s / TICK_S)] for t_s in (one, two))
        assert after - before <= TUNED.pace_fast * told * CARRIES_BPS * (two - one + 2 * TICK_S) + 1
