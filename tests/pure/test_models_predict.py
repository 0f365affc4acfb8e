"""Predictions for paths never measured, and the error they admit to."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.models import ALLOWED, CELLS, Cell, mean_gbps
from bench.models import RTTS_S as RTTS_S_OF
from howdah import HowdahError
from howdah.profiles import theory
from howdah.profiles.theory import PathParameters
from howdah.profiles.theory.prediction import WINDOW_PER_BUFFER
from howdah.values import sizes

RTTS_S = np.array([0.0004, 0.0118, 0.0226, 0.0456, 0.0916, 0.183, 0.366])
PATH = PathParameters(10e9, RTTS_S)
LARGE = 1e9
GOODPUT_BPS = 10e9 * 1448 / 1538


def steady_gbps(cell: Cell) -> float:
    path = PathParameters(10e9, RTTS_S_OF[cell.rtts], cell.loss, mtu_bytes=9000)
    return mean_gbps(theory.predict_steady(path, "cubic", cell.streams, LARGE))


@pytest.mark.parametrize("cell", [c for c in CELLS if c.streams == 1 and c.loss], ids=str)
def test_the_loss_model_is_within_the_target_of_public_measurements(cell: Cell) -> None:
    assert steady_gbps(cell) == pytest.approx(cell.measured_gbps, rel=ALLOWED[cell.rtts])


@pytest.mark.parametrize("cell", [c for c in CELLS if c.streams == 16 and c.loss >= 1e-4], ids=str)
def test_sixteen_streams_are_within_a_quarter_of_public_measurements(cell: Cell) -> None:
    assert steady_gbps(cell) == pytest.approx(cell.measured_gbps, rel=0.25)


@settings(max_examples=6, deadline=None)
@given(
    control=st.sampled_from(["reno", "cubic", "scalable", "htcp", "highspeed"]),
    streams=st.integers(1, 10),
    buffer=st.sampled_from([244e3, 256e6, 1e9, None]),
    lost=st.sampled_from([0.0, 1e-5]),
)
def test_a_prediction_is_within_the_path_and_its_own_interval(
    control: str, streams: int, buffer: float | None, lost: float
) -> None:
    got = theory.predict(PATH._replace(loss=lost), control, streams, buffer, duration_s=20)
    assert got.rate_mid_bps.shape == RTTS_S.shape
    assert np.all(got.rate_low_bps > 0)
    assert np.all(got.rate_low_bps <= got.rate_mid_bps)
    assert np.all(got.rate_mid_bps <= got.rate_high_bps)
    assert np.all(got.rate_high_bps <= GOODPUT_BPS * (1 + 1e-9))
    if lost == 0:
        assert np.all(np.diff(got.rate_mid_bps) < 1e-3 * GOODPUT_BPS)


def test_the_same_question_has_the_same_answer_alone_or_among_others() -> None:
    """Without random loss exactly; with it the draws differ."""
    used = ("htcp", 4, LARGE)
    whole = theory.predict(PATH, *used).rate_mid_bps
    assert np.array_equal(theory.predict(PATH, *used).rate_mid_bps, whole)
    alone = theory.predict(PATH._replace(rtt_s=RTTS_S[4]), *used).rate_mid_bps
    assert float(alone) == pytest.approx(whole[4], rel=1e-9)


def test_small_buffers_give_one_window_a_round_trip_to_each_stream() -> None:
    got = theory.predict(PATH, "cubic", 10, 244e3)
    beyond = RTTS_S > 0.01
    limit = 10 * WINDOW_PER_BUFFER * 244e3 * 8 / RTTS_S[beyond]
    assert got.rate_mid_bps[beyond] == pytest.approx(limit, rel=0.02)


@pytest.mark.parametrize(
    ("control", "streams", "rtt_s", "duration_s", "measured_mbps"),
    [
        ("cubic", 1, 0.0118, 5.0, 269.3),
        ("cubic", 10, 0.0118, 5.0, 2663.8),
        ("cubic", 1, 0.183, 5.3, 16.5),
        ("cubic", 1, 0.366, 5.5, 6.6),
        ("htcp", 10, 0.366, 13.0, 76.8),
    ],
)
def test_runs_that_buffers_of_244_kb_held_are_within_a_quarter(
    control: str, streams: int, rtt_s: float, duration_s: float, measured_mbps: float
) -> None:
    """Measured with Linux 6.18 in a lab at 10 Gb/s."""
    asked = (control, streams, 244e3)
    got = theory.predict(PATH._replace(rtt_s=rtt_s), *asked, duration_s=duration_s)
    assert float(got.rate_mid_bps) == pytest.approx(measured_mbps * 1e6, rel=0.25)
    assert got.rate_low_bps <= measured_mbps * 1e6 <= got.rate_high_bps


@given(buffer_bytes=st.floats(1e4, 1e9), streams=st.integers(1, 16))
@settings(max_examples=10, deadline=None)
def test_what_the_kernel_may_give_for_a_buffer_is_within_the_interval(
    buffer_bytes: float, streams: int
) -> None:
    """Where buffers hold the streams: from what is window unmeasured to nearly all that the kernel keeps."""
    rtt_s = 100 * streams * buffer_bytes * 8 / PATH.capacity_bps
    got = theory.predict_steady(PATH._replace(rtt_s=rtt_s), "reno", streams, buffer_bytes)
    asked_bps = streams * buffer_bytes * 8 / rtt_s
    assert got.rate_low_bps <= 2 * sizes.RECEIVE_SHARE * asked_bps
    assert got.rate_high_bps >= 1.8 * asked_bps
    assert got.rate_high_bps <= 2 * asked_bps


def test_more_streams_and_more_buffer_widen_the_concave_region() -> None:
    """As the first RTT after which the profile lies below the chord of its neighbours."""

    def concave_until(streams: int, buffer_bytes: float) -> float:
        rtt_s = np.linspace(0.01, 0.366, 30)
        rate = theory.predict(PathParameters(10e9, rtt_s), "cubic", streams, buffer_bytes).rate_mid_bps
        bent = rate[1:-1] - (rate[:-2] + rate[2:]) / 2
        below = np.nonzero(bent < -1e-4 * GOODPUT_BPS)[0]
        return float(rtt_s[below[0] + 1]) if below.size else float(rtt_s[-1])

    assert concave_until(1, 20e6) < concave_until(4, 20e6) < concave_until(4, 200e6)


def test_a_ramp_at_366_ms_costs_what_its_round_trips_take() -> None:
    got = theory.predict(PATH, "scalable", 1, LARGE, duration_s=100).rate_mid_bps
    ramp_s = 0.366 * np.log2(10e9 * 0.366 / 1538 / 8 / 10)
    assert got[-1] / GOODPUT_BPS == pytest.approx(1 - (ramp_s - 0.366 / 2) / 100, abs=0.015)


def test_streams_make_up_for_each_others_losses() -> None:
    lossy = PathParameters(10e9, np.array([0.02]), 1e-4, mtu_bytes=9000)
    one, four, many = (theory.predict_steady(lossy, "reno", n, LARGE).rate_mid_bps[0] for n in (1, 4, 64))
    assert four == pytest.approx(4 * one, rel=0.05)
    assert many == pytest.approx(10e9 * 8948 / 9038, rel=0.02)


class TestCalibration:
    @settings(max_examples=10)
    @given(seed=st.integers(0, 10_000), runs=st.sampled_from([19, 40, 99]))
    def test_the_interval_holds_nine_in_ten_of_what_comes_next(self, seed: int, runs: int) -> None:
        """Over 400 samples of runs, each with one run to come, ratios lognormal about 0.8."""
        rng = np.random.default_rng(seed)
        held = 0
        for _ in range(400):
            ratio = 0.8 * np.exp(0.1 * rng.standard_normal(runs + 1))
            known = theory.calibrate(np.full(runs, 5e9), 5e9 * ratio[:-1])
            held += known.low <= ratio[-1] <= known.high
        assert held / 400 >= 0.85

    def test_few_runs_shift_the_default_but_do_not_narrow_it(self) -> None:
        known = theory.calibrate([1e9, 2e9, 4e9], [0.5e9, 1.0e9, 2.0e9])
        assert known == pytest.approx((0.3, 0.5, 0.625, 3))

    def test_it_moves_a_prediction(self) -> None:
        used = ("cubic", 1, LARGE)
        plain = theory.predict(PATH, *used)
        known = theory.predict(PATH, *used, calibration=theory.Calibration(0.45, 0.5, 0.55, 40))
        assert known.rate_mid_bps == pytest.approx(plain.rate_mid_bps / 2)
        assert known.rate_high_bps == pytest.approx(known.rate_mid_bps * 1.1)

    def test_runs_that_say_nothing_are_left_out_and_none_is_refused(self) -> None:
        assert theory.calibrate([1e9, np.nan, 1e9], [1e9, 1e9, 0.0]).runs == 1
        with pytest.raises(HowdahError, match="no measured rate can be compared"):
            theory.calibrate([np.nan], [1e9])
        with pytest.raises(HowdahError, match="2 measured rates cannot be compared with 1 predictions"):
            theory.calibrate([1e9], [1e9, 1e9])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rtt_s": 0.0}, "rtt_s is 0.0; it must be above 0"),
        ({"capacity_bps": np.nan}, "capacity_bps is nan; it must be above 0"),
        ({"loss": 1.0}, "loss is 1.0; it must be a share"),
        ({"loss": np.nan}, "loss is nan; it must be a share"),
        ({"queue_bytes": -1.0}, "queue_bytes is -1.0; it must be 0 or above"),
        ({"mtu_bytes": 50}, "mtu_bytes is 50; it must be 576 to 65535"),
        ({"streams": 0}, "streams is 0; it must be above 0"),
        ({"buffer_bytes": 0.0}, "buffer_bytes is 0.0; it must be above 0"),
        ({"congestion_control": "vegas"}, "no throughput model of vegas"),
        ({"duration_s": 0.0}, "duration_s is 0.0; it must be above 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changed: dict[str, Any], told: str) -> None:
    path = PATH._replace(**{k: v for k, v in changed.items() if k in PATH._fields})
    used: dict[str, Any] = {"congestion_control": "cubic"}
    used |= {k: v for k, v in changed.items() if k in ("congestion_control", "streams", "buffer_bytes")}
    with pytest.raises(HowdahError, match=told) as refused:
        theory.predict(path, **used, duration_s=changed.get("duration_s", 10.0))
    assert "\n" not in str(refused.value)
