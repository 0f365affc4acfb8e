"""Features say what they are named for, on series whose physics is simple and known (no measurements)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rtts import recording

from howdah.recognition.features import features, names
from howdah.recognition.recording import Burst
from howdah.recognition.windows import Windows, cut

BASE_S = 0.05


def of_queue(queue: np.ndarray, step_s: float = 0.1, base_rtt_s: float = BASE_S) -> dict[str, float]:
    rtt = base_rtt_s * (1 + queue[None])
    lost, sent = np.isnan(rtt).astype(float), np.zeros(rtt.shape, np.int8)
    windows = Windows(rtt, lost, sent, np.array([base_rtt_s]), step_s)
    return dict(zip(names(), features(windows)[0].tolist(), strict=True))


def of_kind(kind: str, length_s: float = 10.0, **options: object) -> dict[str, float]:
    windows, _ = cut(recording(kind, "run", duration_s=length_s, **options), length_s, 0.1)
    return dict(zip(names(), features(windows)[0].tolist(), strict=True))


def sawtooth(period_s: float, length_s: float = 20.0, step_s: float = 0.1) -> np.ndarray:
    return (np.arange(round(length_s / step_s)) * step_s / period_s) % 1


def test_every_feature_has_a_name_of_its_own() -> None:
    assert len(set(names())) == len(names()) == 181


@settings(max_examples=25)
@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(4, 40)),
        elements=st.one_of(st.just(np.nan), st.floats(1e-6, 100)),
    ),
    st.sampled_from([1e-4, 0.05, 1.0]),
    st.sampled_from([0.01, 1.0]),
)
def test_features_are_finite_whatever_was_heard(rtt: np.ndarray, base_rtt_s: float, step_s: float) -> None:
    lost, sent = np.isnan(rtt).astype(float), np.ones(rtt.shape, np.int8)
    windows = Windows(rtt, lost, sent, np.full(len(rtt), base_rtt_s), step_s)
    found = features(windows)
    assert found.shape == (len(rtt), len(names()))
    assert np.isfinite(found).all()


def test_features_do_not_know_the_neighbours() -> None:
    both = [cut(recording(kind, "run"), 10.0, 0.1)[0] for kind in ("cubic", "bbr")]
    together = Windows(
        *(
            np.concatenate([getattr(each, name) for each in both])
            for name in ("rtt_s", "lost", "sent", "base_rtt_s")
        ),
        0.1,
    )
    np.testing.assert_allclose(
        features(together), np.concatenate([features(each) for each in both]), atol=1e-9
    )


def test_a_sawtooth_builds_up_slowly_and_drains_at_once() -> None:
    found = of_queue(sawtooth(4.0))
    assert found["slope_0s_lopsided"] > 0.9
    assert found["slope_0s_up"] == pytest.approx(1 / 4.0)
    assert of_queue(1 - sawtooth(4.0))["slope_0s_lopsided"] < -0.9
    assert found["again_peak_s"] == pytest.approx(4.0)
    assert found["again_peak_rtts"] == pytest.approx(4.0 / BASE_S)
    assert found["drain_0.5s_apart_s"] == pytest.approx(4.0)
    assert found["drain_0.5s_rate_hz"] == pytest.approx(4 / 20)


def test_a_pulse_of_eight_round_trips_is_found_at_any_round_trip() -> None:
    for base_rtt_s in (0.05, 0.1, 0.2):
        times = np.arange(200) * 0.05
        found = of_queue(0.5 + 0.2 * np.sin(2 * np.pi * times / (8 * base_rtt_s)), 0.05, base_rtt_s)
        assert found["again_8rtt"] > 0.6
        assert found["again_4rtt"] < -0.6
        assert found["power_7rtt"] > 0.8


def test_dips_to_the_base_every_ten_seconds_are_counted() -> None:
    found = of_kind("bbr", 60.0, lost=0.0)
    assert found["base_apart_s"] == pytest.approx(10, abs=0.3)
    assert found["base_rate_hz"] == pytest.approx(0.1, abs=0.02)
    assert 0.1 <= found["base_longest_s"] <= 0.4
    assert 9 < found["away_longest_s"] < 10


def test_a_full_queue_neither_drains_nor_empties() -> None:
    full, nobody = of_kind("udp"), of_kind("nobody")
    assert full["base_share"] == 0
    assert nobody["base_share"] > 0.5
    assert full["queue_mean"] == pytest.approx(1, abs=0.05)
    assert full["queue_range_log"] < -1 < of_kind("cubic")["queue_range_log"]


@pytest.mark.parametrize("streams", [1, 2])
def test_streams_of_cubic_are_counted_by_what_they_grow(streams: int) -> None:
    times_s, packet_s = np.arange(1000) * 0.01, 12_000 / 500e6
    grown = sum(0.4 * (times_s - 8 + 3 * each) ** 3 for each in range(streams)) * packet_s
    queue = 0.5 + grown / BASE_S
    found = of_queue(np.concatenate([queue + 0.2, queue]), step_s=0.01)
    assert found["growth_s"] == pytest.approx(10, abs=0.3)
    assert found["growth_cubic_log"] == pytest.approx(np.log10(streams * 0.4 * packet_s), abs=0.05)
    if streams == 1:
        assert found["law_log"] == pytest.approx(np.log10(0.4 * packet_s), abs=0.02)
        assert found["law_turn_s"] == pytest.approx(8, abs=0.5)


def test_queues_in_base_round_trips_are_alike_on_all_paths() -> None:
    levels = [of_queue(3 * sawtooth(4.0), base_rtt_s=base_rtt_s) for base_rtt_s in (0.001, 0.3)]
    for name in ("queue_mean", "queue_sd", "form_0", "slope_0s_up", "drain_1s_deepest", "trend_left"):
        assert levels[0][name] == pytest.approx(levels[1][name])


def test_losses_are_counted_and_bridged() -> None:
    queue = np.ones(100)
    queue[10:15] = queue[50:60] = np.nan
    found = of_queue(queue)
    assert found["lost_share"] == pytest.approx(0.15)
    assert found["lost_rate_hz"] == pytest.approx(0.2)
    assert found["lost_longest_s"] == pytest.approx(1.0)
    assert found["queue_mean"] == pytest.approx(1.0)


def test_what_we_sent_is_set_against_the_rest() -> None:
    times = 1e5 + 0.1 * np.arange(100)
    burst = Burst(start_s=times[0] + 3, end_s=times[0] + 6, congestion_control="cubic")
    heard = recording("nobody", "run", duration_s=10.0, lost=0.0, bursts=(burst,))
    heard.rtt_s[30:60] += BASE_S
    found = dict(zip(names(), features(cut(heard, 10.0, 0.1)[0])[0].tolist(), strict=True))
    assert found["sent_cubic_share"] == pytest.approx(0.3, abs=0.011)
    assert found["sent_cubic_queue"] == pytest.approx(1.0, abs=0.05)
    assert found["sent_bbr_share"] == found["sent_bbr_queue"] == 0
