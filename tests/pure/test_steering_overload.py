"""Overloads in made-up series of simple physics: they say nothing of real paths, only of the rule."""

import numpy as np
import pytest

from howdah.steering.round_trips import overloads

STEP_S, BASE_S = 0.01, 0.04


def series(queue: np.ndarray, lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """From the queue in base RTTs and the share of probes lost, at each step."""
    rng = np.random.default_rng(7)
    rtt_s = BASE_S * (1 + queue + 0.02 * rng.random(len(queue)))
    rtt_s[rng.random(len(queue)) < lost] = np.nan
    return STEP_S * (np.arange(len(queue)) + 0.5), rtt_s, BASE_S


def times(seconds: float) -> np.ndarray:
    return STEP_S * np.arange(round(seconds / STEP_S))


def udp(every_s: float, on_s: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
    on = times(20) % every_s < on_s
    return series(np.where(on, 1.0, 0.0), np.where(on, 0.3, 0.0))


def cubic() -> tuple[np.ndarray, np.ndarray, float]:
    along = times(20) % 4 / 4
    return series(0.3 + 0.7 * along, np.where(along > 0.985, 0.3, 0.0))


def bbr(lost: float) -> tuple[np.ndarray, np.ndarray, float]:
    empty = times(30) % 10 < 0.3
    return series(np.where(empty, 0.0, 1.0), np.where(empty, 0.0, lost))


@pytest.mark.parametrize("every_s", [2, 5, 10])
def test_bursts_that_do_not_yield_are_overloads(every_s: float) -> None:
    assert overloads(*udp(every_s)) == 20 / every_s


def test_who_yields_overloads_for_a_moment_or_leaves_no_empty_queue() -> None:
    assert overloads(*cubic()) == 0
    assert overloads(*bbr(0.0)) == 0
    assert overloads(*bbr(0.1)) <= 1


def test_a_path_without_a_queue_and_one_without_answers_are_none() -> None:
    assert overloads(*series(np.zeros(1000), np.full(1000, 0.3))) == 0
    assert overloads(np.arange(5.0), np.full(5, np.nan), BASE_S) == 0
