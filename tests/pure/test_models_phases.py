"""The phases of 2015 and the ramp of 2017, against integration and by the definitions of what they claim."""

import numpy as np
import numpy.typing as npt
import pytest
import regimes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from howdah.profiles.theory import controls
from howdah.profiles.theory.controls import FlowPath

FloatArray = npt.NDArray[np.float64]
NAMES = ("reno", "cubic", "scalable", "htcp", "highspeed")
RATE_PER_S = 1e9 / 12_304


def flow_path(rtt_s: npt.ArrayLike, rate_per_s: float = RATE_PER_S) -> FlowPath:
    rtt = np.atleast_1d(np.asarray(rtt_s, float))
    return FlowPath(rtt, rate_per_s * rtt)


def bends(x: FloatArray, y: FloatArray) -> FloatArray:
    """By the definition of concavity: how far each point lies above the chord of its neighbours."""
    part = (x[2:] - x[1:-1]) / (x[2:] - x[:-2])
    return y[1:-1] - (part * y[:-2] + (1 - part) * y[2:])


@pytest.mark.parametrize("per", [1.0, 100.0])
@settings(max_examples=12)
@given(rtt_s=st.floats(0.01, 0.3), share=st.floats(0.05, 0.95), queue=st.floats(0.1, 2.0))
def test_phases_solve_the_equations_of_window_and_data(
    per: float, rtt_s: float, share: float, queue: float
) -> None:
    """dW/dt = a(W)/round and dN/dt = min(W/τ, C), from W_SS through C τ to the overflow."""
    path = flow_path(rtt_s)
    bdp = path.bdp[0]
    threshold, overflow = max(bdp * share, per), bdp * (1 + queue)
    if threshold >= bdp:
        return

    def slope(_: float, y: FloatArray) -> list[float]:
        round_s = rtt_s * max(1.0, y[0] / bdp)
        return [(1.0 if per == 1 else y[0] / per) / round_s, min(y[0] / rtt_s, RATE_PER_S)]

    def reach(window: float) -> object:
        def event(_: float, y: FloatArray) -> float:
            return float(y[0] - window)

        return event

    solved = solve_ivp(
        slope,
        (0, 1e5),
        [threshold, 0.0],
        events=[reach(bdp), reach(overflow)],
        method="DOP853",
        rtol=1e-9,
        max_step=rtt_s * overflow,
    )
    full_s, over_s = solved.t_events[0][0], solved.t_events[1][0]
    full_sent, over_sent = solved.y_events[0][0][1], solved.y_events[1][0][1]
    got = regimes.until_overflow(
        controls.control_model("reno" if per == 1 else "scalable"), path, threshold, overflow
    )
    assert (got.ca1.duration_s[0], got.ca1.sent[0]) == pytest.approx((full_s, full_sent), rel=5e-3)
    assert got.ca2.duration_s[0] == pytest.approx(over_s - full_s, rel=5e-3, abs=1e-2 * full_s)
    assert got.ca2.sent[0] == pytest.approx(over_sent - full_sent, rel=5e-3, abs=1e-2 * full_sent)
    closed = (
        regimes.additive_ca1(path, threshold) if per == 1 else regimes.proportional_ca1(path, threshold, per)
    )
    assert (closed.duration_s[0], closed.sent[0]) == pytest.approx((full_s, full_sent), rel=1e-4)


def test_cubic_before_a_loss_takes_the_cube_root_or_five_per_cent_a_round() -> None:
    path, threshold = flow_path([0.02, 0.2]), np.array([400.0, 4_000.0])
    got = regimes.until_overflow(controls.control_model("cubic"), path, threshold, 2 * path.bdp)
    alone_s = controls.plateau_after_s(path.bdp - threshold)
    blind_s = path.rtt_s * 20 * np.log(path.bdp / threshold)
    assert got.ca1.duration_s == pytest.approx(np.minimum(alone_s, blind_s), rel=1e-3)


@given(rounds=st.integers(1, 12), rtt_s=st.floats(0.05, 0.4))
def test_slow_start_sends_what_its_rounds_sum_to(rounds: int, rtt_s: float) -> None:
    path = flow_path(rtt_s, 1e9)
    threshold = 10 * 2.0**rounds
    got = regimes.until_overflow(controls.control_model("reno"), path, threshold, 1e10).slow_start
    assert got.sent[0] == sum(10 * 2**k for k in range(rounds))
    assert got.duration_s[0] == pytest.approx(rounds * rtt_s)


@pytest.mark.parametrize("name", NAMES)
def test_congestion_avoidance_falls_with_rtt_by_every_law(name: str) -> None:
    """T_CA of III-C, with T_CA2 = τ₀ + k τ, in the convex regime."""
    path = flow_path(np.linspace(0.04, 0.4, 300))
    got = regimes.until_overflow(controls.control_model(name), path, 3_000.0, 500.0 + path.bdp)
    assert got.convex.all()
    ca2_s = 0.5 + 3 * path.rtt_s
    mean = (got.ca1.sent + RATE_PER_S * ca2_s) / (got.ca1.duration_s + ca2_s)
    assert np.all(np.diff(mean) < RATE_PER_S * 1e-5)


def test_the_regime_is_which_comes_first_the_threshold_or_the_full_path() -> None:
    path = flow_path(np.linspace(0.002, 0.4, 300))
    for name in NAMES:
        got = regimes.until_overflow(
            controls.control_model(name), path, 3_000.0, 500.0 + np.maximum(path.bdp, 3_000.0)
        )
        assert np.array_equal(got.convex, path.bdp > 3_000.0)


def test_additive_congestion_avoidance_is_convex_in_rtt() -> None:
    """The same, in closed form."""
    path = flow_path(np.linspace(0.05, 0.4, 200))
    ca1 = regimes.additive_ca1(path, 3_000.0)
    ca2_s = 0.5 + 3 * path.rtt_s
    mean = (ca1.sent + RATE_PER_S * ca2_s) / (ca1.duration_s + ca2_s)
    assert np.all(np.diff(mean) < 0)
    assert np.all(bends(path.rtt_s, mean) < 0)


class TestSlipsOf2015:
    def test_the_printed_number_of_packets_is_not_that_of_the_region(self) -> None:
        path, low = flow_path(0.1), 3_000.0
        ca1 = regimes.additive_ca1(path, low)
        printed = (path.bdp - low) / (2 * path.rtt_s) + low * ca1.duration_s / path.rtt_s
        assert ca1.sent == pytest.approx((path.bdp**2 - low**2) / 2)
        assert ca1.sent / ca1.duration_s == pytest.approx(RATE_PER_S / 2 + low / (2 * path.rtt_s))
        assert printed[0] < 0.6 * ca1.sent[0]

    def test_the_printed_profile_of_the_concave_regime_is_convex(self) -> None:
        rtt_s, log_c, log_w, ca_s = np.linspace(0.5, 5, 100), 10.0, 12.0, 50.0
        printed = 1 - (rtt_s * log_c - 2) / (rtt_s * log_w + ca_s)
        assert np.all(np.diff(printed) < 0)
        assert np.all(bends(rtt_s, printed) < 0)

    @given(
        c=st.floats(1.001, 1.2), w=st.floats(1.001, 1.2), ca_s=st.floats(0.1, 5.0), rtt_s=st.floats(0.1, 2)
    )
    def test_it_falls_whenever_c_to_the_t_ca_times_w_squared_is_above_1(
        self, c: float, w: float, ca_s: float, rtt_s: float
    ) -> None:
        """Also where C^T_CA > 2/W² fails, which is printed as equivalent."""

        def lost(tau: float) -> float:
            return float((tau * np.log(c) - 2) / (tau * np.log(w) + ca_s))

        assert c**ca_s * w**2 > 1
        assert lost(rtt_s * 1.01) > lost(rtt_s)

    @pytest.mark.parametrize("name", ["scalable", "cubic"])
    def test_the_whole_need_not_fall_where_each_part_does(self, name: str) -> None:
        path = flow_path(np.linspace(0.03, 0.06, 100))
        overflow = 500.0 + np.maximum(path.bdp, 3_000.0)
        got = regimes.until_overflow(controls.control_model(name), path, 3_000.0, overflow)
        assert got.mean_per_s[got.convex].max() > 1.01 * got.mean_per_s[~got.convex][-1]

    @given(rtt_s=st.floats(0.05, 0.4), delta_s=st.floats(0.001, 0.1))
    def test_the_difference_of_means_has_no_factor_c(self, rtt_s: float, delta_s: float) -> None:
        low = 3_000.0
        path = flow_path([rtt_s, rtt_s + delta_s])
        ca1 = regimes.additive_ca1(path, low)
        mean = ca1.sent / ca1.duration_s
        assert mean[1] - mean[0] == pytest.approx(-low * delta_s / (2 * rtt_s * (rtt_s + delta_s)), rel=1e-6)


@given(
    rtt_s=st.floats(0.001, 0.5),
    streams=st.integers(1, 16),
    buffer=st.floats(100, 1e6),
    observed_s=st.floats(1, 200),
)
def test_the_ramp_is_the_mean_of_its_rate(
    rtt_s: float, streams: int, buffer: float, observed_s: float
) -> None:
    """Θ_O is 1/T_O ∫ θ, with θ = n w₀ 2^(t/τ) ln 2 / τ up to T_R, and the peak from there."""
    peak = regimes.peak_per_s(rtt_s, 8e5, streams, buffer)
    got = regimes.ramp(rtt_s, peak, observed_s, streams=streams)
    if got.duration_s == 0:
        assert got.observed_per_s == peak
        return
    t_s = np.linspace(0, float(got.duration_s), 20_001)
    rising = np.trapezoid(streams * 10 * 2 ** (t_s / rtt_s) * np.log(2) / rtt_s, t_s)
    sustained = float(peak) * (observed_s - float(got.duration_s))
    assert got.observed_per_s == pytest.approx((rising + sustained) / observed_s, rel=1e-5)


def test_an_exponential_ramp_is_strictly_concave_and_its_slope_is_the_derivative() -> None:
    rtt_s, rate, observed_s = np.linspace(0.005, 0.366, 400), 8e5, 100.0
    got = regimes.ramp(rtt_s, np.full_like(rtt_s, rate), observed_s).observed_per_s
    assert np.all(bends(rtt_s, got) > 0)
    slopes = regimes.slope_per_s2(rtt_s, rate, observed_s)
    assert np.gradient(got, rtt_s, edge_order=2)[5:] == pytest.approx(slopes[5:], rel=1e-3)
    more = regimes.ramp(rtt_s, np.full_like(rtt_s, rate), observed_s, streams=10).observed_per_s
    assert bends(rtt_s, more) == pytest.approx(bends(rtt_s, got), rel=1e-3)
    gained = rate * rtt_s * np.log2(10) / observed_s - 90 / observed_s
    assert more - got == pytest.approx(gained, rel=1e-6)


@given(exponent=st.floats(0.2, 2.0))
def test_a_ramp_faster_than_linear_in_rtt_is_concave_and_a_slower_one_convex(exponent: float) -> None:
    rtt_s = np.linspace(0.01, 0.5, 60)
    bent = bends(rtt_s, regimes.stretched_per_s(rtt_s, exponent, 15.0, 1.0, 100.0))
    if exponent > 1.01:
        assert np.all(bent > 0)
    elif exponent < 0.99:
        assert np.all(bent < 0)


def test_an_exponential_ramp_of_a_fixed_number_of_doublings_is_the_boundary() -> None:
    rtt_s = np.linspace(0.01, 0.5, 60)
    assert bends(rtt_s, regimes.stretched_per_s(rtt_s, 1.0, 15.0, 1.0, 100.0)) == pytest.approx(0, abs=1e-15)


def test_the_slower_ramp_as_printed_would_rise_and_be_concave() -> None:
    rtt_s = np.linspace(0.01, 0.5, 60)
    printed = regimes.stretched_per_s(rtt_s, -0.2, 15.0, 1.0, 100.0)
    assert np.all(np.diff(printed) > 0)
    assert np.all(bends(rtt_s, printed) > 0)


def test_where_buffers_limit_the_peak_the_profile_is_convex() -> None:
    rtt_s = np.linspace(0.01, 0.366, 200)
    peak = regimes.peak_per_s(rtt_s, 8e5, streams=4, buffer_segments=170.0)
    assert np.all(peak < 8e5)
    assert np.all(bends(rtt_s, regimes.ramp(rtt_s, peak, 100.0, streams=4).observed_per_s) < 0)
    wider = regimes.peak_per_s(rtt_s, 8e5, streams=4, buffer_segments=1e6)
    assert np.all(wider >= peak)
