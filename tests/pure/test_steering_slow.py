"""A transfer alone on a slow path, in virtual time: its paced streams wait for one another's bursts."""

from random import Random

import numpy as np
import pytest
from test_steering_machine import begun, came

from howdah.steering.machine import Recognised, Tick, step
from howdah.steering.path_state import PathState
from howdah.steering.shares import Belief
from howdah.steering.throughput import Look, own_queue_s

STREAMS, BASE_S, FULL_S, TICK_S = 8, 0.04, 0.17, 0.1
BURSTS_S = 0.3
"""The mean wait for bursts, as a part of all at the same time."""


def goodput(carries_bps: float, others_bps: float = 0.0) -> float:
    """Our part of the path in the second half of two minutes; others keep a queue that is full."""
    state, draw = begun(), Random(1)  # noqa: S311, not for secrets
    full_s = FULL_S if carries_bps < 50e6 else BASE_S
    queue_s, acked, half = 0.0, 0.0, 0.0
    times_s: list[float] = []
    rtts_s: list[float] = []
    for number in range(1, 1200):
        t_s, bound_bps = number * TICK_S, state.sent.pacing_bps
        streams = state.sent.streams
        free_bps = carries_bps + (full_s - queue_s) * carries_bps / TICK_S - others_bps
        ours_bps = free_bps if bound_bps is None else min(free_bps, bound_bps * streams)
        queue_s = max(0.0, queue_s + ((ours_bps + others_bps) / carries_bps - 1) * TICK_S)
        queue_s = full_s if others_bps else min(full_s, queue_s)
        rate_bps = min(ours_bps, carries_bps - others_bps)
        acked += rate_bps * TICK_S / 8
        half = acked if number == 600 else half
        burst_s = 0.0 if bound_bps is None else streams * 2 * 1448 * 8 / carries_bps
        waits_s = [2 * BURSTS_S * burst_s * draw.random() for _ in range(10)]
        times_s += [t_s - TICK_S + 0.01 * each for each in range(1, 11)]
        rtts_s += [BASE_S + queue_s + each for each in waits_s]
        rtt_s = float(np.median(rtts_s[-30:]))
        if number % 10 == 0 and not state.probes:
            state, _ = step(state, Recognised(Belief({})))
        look = Look(t_s, round(acked), 0, rtt_s, 1000.0, (t_s, round(acked)))
        each_bps = [rate_bps / streams] * streams
        path = PathState(BASE_S, FULL_S / BASE_S)
        series = np.array(times_s[-300:], np.float64), np.array(rtts_s[-300:], np.float64)
        state, command = step(state, Tick(look, path, BASE_S, rtt_s, each_bps, each_bps, series))
        if command is not None:
            state, _ = step(state, came(state, t_s))
    return (acked - half) * 8 / (1200 - 600) / TICK_S / carries_bps


@pytest.mark.parametrize("megabits", [5.6, 19.0, 500.0])
def test_alone_it_has_nearly_the_whole_path(megabits: float) -> None:
    assert goodput(megabits * 1e6) > 0.9


@pytest.mark.parametrize("megabits", [5.6, 19.0])
def test_beside_others_that_fill_the_queue_it_takes_no_more_than_its_share(megabits: float) -> None:
    """It comes to what they leave."""
    assert goodput(megabits * 1e6, 0.5e6 * megabits) == pytest.approx(0.5, abs=0.03)


def test_what_bursts_make_is_a_queue_on_a_slow_path_only() -> None:
    assert own_queue_s(8, 6e6, BASE_S) == pytest.approx(0.031, rel=0.01)
    assert own_queue_s(8, 200e6, BASE_S) == 0.0
    assert own_queue_s(16, 500e6, 0.128) == 0.0
