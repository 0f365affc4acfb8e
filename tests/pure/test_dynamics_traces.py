"""Throughput traces from samples of TCP_INFO."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.profiles.dynamics.traces import from_samples

INTERVAL_S = 0.1


@st.composite
def runs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples at 100 ms of one to four streams that begin and end when they like, in any order."""
    rows = []
    for stream in range(draw(st.integers(1, 4))):
        first = draw(st.integers(1, 20))
        steps = draw(st.lists(st.integers(0, 10**9), min_size=15, max_size=60))
        rows += [
            ((first + index) * INTERVAL_S, stream, octets)
            for index, octets in enumerate(np.cumsum(steps).tolist())
        ]
    times, streams, octets = zip(*draw(st.permutations(rows)), strict=True)
    return np.array(times), np.array(streams), np.array(octets)


@given(runs())
def test_bins_of_the_sampling_interval_hold_every_byte(run: tuple[Any, Any, Any]) -> None:
    times, streams, octets = run
    traces = from_samples(times, streams, octets, bin_s=INTERVAL_S)
    moved = traces.rates_bps.sum(axis=1) * traces.bin_s / 8
    last = [octets[streams == stream].max() for stream in traces.streams]
    np.testing.assert_allclose(moved, last, rtol=1e-9, atol=1e-3)
    assert traces.ends_s[-1] == pytest.approx(times.max())


@given(runs(), st.integers(2, 7))
def test_a_coarse_bin_is_the_mean_of_fine_ones(run: tuple[Any, Any, Any], factor: int) -> None:
    fine = from_samples(*run, bin_s=INTERVAL_S / 2)
    coarse = from_samples(*run, bin_s=INTERVAL_S / 2 * factor)
    bins = coarse.rates_bps.shape[1]
    means = fine.rates_bps[:, : bins * factor].reshape(len(fine.streams), bins, factor).mean(axis=2)
    np.testing.assert_allclose(coarse.rates_bps, means, rtol=1e-6, atol=1)
    np.testing.assert_allclose(coarse.aggregate_bps, means.sum(axis=0), rtol=1e-6, atol=4)


def test_a_steady_stream_has_a_steady_trace_whatever_the_instants() -> None:
    times = np.sort(np.random.default_rng(5).uniform(0, 30, 300))
    traces = from_samples(times, np.zeros(300), times * 125_000_000)
    np.testing.assert_allclose(traces.rates_bps[0, 1:], 1e9, rtol=1e-9)


def test_a_stream_that_came_late_and_left_early_is_silent_before_and_after() -> None:
    long = [(0.1 * step, 3, 1000 * step) for step in range(1, 51)]
    short = [(0.1 * step, 8, 1000 * (step - 20)) for step in range(21, 31)]
    traces = from_samples(*zip(*(long + short), strict=True))
    assert traces.streams.tolist() == [3, 8]
    np.testing.assert_allclose(traces.rates_bps, [[80_000] * 5, [0, 0, 80_000, 0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "bin_s", "words"),
    [
        (([], [], []), 1.0, "no samples"),
        (([0.1, 0.2], [0, 0], [1]), 1.0, "shapes"),
        (([0.1, float("nan")], [0, 0], [1, 2]), 1.0, "not finite"),
        (([0.1, 1.2], [0, 0], [2, 1]), 1.0, "stream 0 shrink"),
        (([0.1, 0.1], [0, 1], [1, 1]), 1.0, "sampled twice"),
        (([0.1, 0.2], [0, 0], [1, 2]), 1.0, "less than one bin"),
        (([0.1, 0.2], [0, 0], [1, 2]), 0.0, "more than zero"),
    ],
)
def test_samples_that_make_no_trace(samples: tuple[Any, Any, Any], bin_s: float, words: str) -> None:
    with pytest.raises(HowdahError, match=words):
        from_samples(*samples, bin_s=bin_s)
