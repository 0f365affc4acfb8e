"""A path of its own that a transfer fills late: what had arrived before tells little of what it carries."""

import numpy as np
import pytest
from test_steering_machine import begun, came

from howdah.steering.machine import Recognised, Tick, step
from howdah.steering.path_state import PathState
from howdah.steering.shares import Belief
from howdah.steering.states import Phase
from howdah.steering.throughput import Look, Rates, lately_s

CARRIES_BPS, BASE_S, TICK_S, STREAMS = 500e6, 0.1, 0.1, 8


def alone(
    begins_bps: float, fills_s: float, queue_s: float, length_s: float, bursts_s: float = 0.0
) -> list[tuple[float, bool]]:
    """At each look the part of the path that arrives, and whether the streams are paced.

    The files are small until ``fills_s``, so the streams have no more than ``begins_bps``. Where these are
    not bounded to less, bursts make a queue of ``bursts_s``.
    """
    state, rates = begun(), Rates()
    now_s, acked = 0.0, [0.0] * STREAMS
    times_s: list[float] = []
    rtts_s: list[float] = []
    seen: list[tuple[float, bool]] = []
    for number in range(1, round(length_s / TICK_S)):
        t_s, streams, bound_bps = number * TICK_S, state.sent.streams, state.sent.pacing_bps
        free_bps = CARRIES_BPS * (1 + (queue_s - now_s) / TICK_S) if t_s > fills_s else begins_bps
        ours_bps = min(free_bps, bound_bps * streams if bound_bps else free_bps)
        now_s = min(queue_s, max(0.0, now_s + (ours_bps / CARRIES_BPS - 1) * TICK_S))
        if t_s <= fills_s and ours_bps == begins_bps:
            now_s = bursts_s
        rate_bps = min(ours_bps, CARRIES_BPS)
        acked = [each + rate_bps * TICK_S / 8 / streams for each in acked[:streams]]
        rates.add(t_s, [round(each) for each in acked])
        times_s += [t_s - TICK_S + 0.01 * each for each in range(1, 11)]
        rtts_s += [BASE_S + now_s] * 10
        rtt_s = float(np.median(rtts_s[-30:]))
        if number % 10 == 0 and not state.probes:
            state, _ = step(state, Recognised(Belief({})))
        total = round(sum(acked))
        look = Look(t_s, total, 0, rtt_s, 1000.0, (t_s, total))
        path = PathState(BASE_S, queue_s / BASE_S)
        series = np.array(times_s[-300:], np.float64), np.array(rtts_s[-300:], np.float64)
        lately_bps, long_bps = rates.each_bps(lately_s(rtt_s)), rates.each_bps(3.0)
        state, command = step(state, Tick(look, path, BASE_S, rtt_s, lately_bps, long_bps, series))
        if command is not None:
            state, _ = step(state, came(state, t_s)._replace(had_bps=sum(lately_bps or [])))
        seen.append((rate_bps / CARRIES_BPS, state.phase is Phase.PACED))
    return seen


@pytest.mark.parametrize("fills_s", [0.0, 3.0, 5.0, 10.0, 20.5])
@pytest.mark.parametrize("queue_s", [0.03, 0.1, 0.4])
def test_a_path_that_small_files_did_not_fill_is_had_whole_as_soon_as_it_is_paced(
    fills_s: float, queue_s: float
) -> None:
    seen = alone(20e6, fills_s, queue_s, fills_s + 40)
    paced = next(number for number, (_, paced) in enumerate(seen) if paced)
    parts = [part for part, _ in seen[paced:]]
    assert paced * TICK_S < max(8.5, fills_s + 6)
    assert np.mean(parts[10:210]) > 0.9
    assert np.mean(parts[210:]) > 0.97


def test_paced_streams_that_find_room_and_no_queue_take_it_within_half_a_minute() -> None:
    """Small files were found to be alone by the queue of their own bursts, and paced to what they had."""
    fills_s = 20.0
    seen = alone(20e6, fills_s, 0.1, fills_s + 60, bursts_s=0.01)
    assert seen[round(fills_s / TICK_S) - 2][1]
    parts = [part for part, _ in seen[round(fills_s / TICK_S) :]]
    assert parts[0] < 0.1
    assert np.mean(parts[300:]) > 0.97
