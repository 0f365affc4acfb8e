"""Flows from loss to loss: against rounds with random losses, the reference models, and closed forms."""

import cc_model as model
import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import brentq

from howdah.profiles.theory import controls
from howdah.profiles.theory import flow as models
from howdah.profiles.theory.controls import FlowPath
from howdah.profiles.theory.flow import START_SEGMENTS, Flow, FlowLimits, SlowStart

FloatArray = npt.NDArray[np.float64]
NAMES = ("reno", "cubic", "scalable", "htcp", "highspeed")
MS = 1_000_000
FIRST = 100


def flow(
    name: str,
    rtt_s: npt.ArrayLike,
    *,
    bdp: float = 1e7,
    lost: float = 0.0,
    queue: float = 1.0,
    cap: float = np.inf,
    replicas: int = 1,
) -> Flow:
    rtt = np.repeat(np.atleast_1d(np.asarray(rtt_s, float)), replicas)
    flow_path = FlowPath(rtt, np.full(rtt.shape, bdp))
    limits = FlowLimits(flow_path.bdp * (1 + queue), np.full(rtt.shape, cap), np.full(rtt.shape, lost))
    return Flow(controls.control_model(name), flow_path, limits, SlowStart(hystart=name == "cubic"))


def steady_window(name: str, rtt_s: float, lost: float, replicas: int = 200) -> float:
    each = flow(name, rtt_s, lost=lost, replicas=replicas)
    return float(np.mean(each.steady_per_s(np.random.default_rng(3)))) * rtt_s


@pytest.mark.parametrize("name", ["reno", "scalable"])
def test_random_losses_are_those_of_a_round_by_round_simulation(name: str) -> None:
    """The window a whole number of segments, each lost for itself, found and repaired a round later each."""
    lost, rng, cells = 1e-3, np.random.default_rng(5), 400
    window, sent, rounds = np.full(cells, 30.0), np.zeros(cells), 6_000
    found = np.zeros(cells, bool)
    repairing = np.zeros(cells, bool)
    for at in range(rounds):
        if at >= rounds // 3:
            sent += window
        hit = rng.random(cells) < -np.expm1(np.floor(window) * np.log1p(-lost))
        per = 1.0 if name == "reno" else window / 100
        kept = 0.5 if name == "reno" else 0.875
        grows = np.maximum(per, 1.0) if name == "scalable" else 1.0
        cut = found & ~repairing
        window = np.where(cut, np.maximum(window * kept, 2.0), np.where(repairing, window, window + grows))
        # What is lost while another loss is on its way to the sender costs nothing more.
        repairing, found = cut, np.where(cut, False, hit)
    expected = sent.mean() / (rounds - rounds // 3)
    assert steady_window(name, 0.05, lost) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(
    ("name", "lost", "window"),
    [
        ("reno", 1e-4, models.mathis(1e-4)),
        ("cubic", 1e-6, models.cubic(1e-6, 0.1)),
        ("scalable", 1e-4, models.scalable(1e-4)),
        ("highspeed", 1e-5, models.highspeed(1e-5)),
    ],
)
def test_flows_reach_what_the_response_functions_say(name: str, lost: float, window: FloatArray) -> None:
    """Random losses leave more than even ones do, Reno 7 %; the table of HighSpeed grows by rows."""
    assert steady_window(name, 0.1, lost) == pytest.approx(float(window), rel=0.25)


@pytest.mark.parametrize(
    ("form", "keeps", "per_round"),
    [
        (models.mathis, 0.5, lambda w: 1.0),
        (models.scalable, 0.875, lambda w: w / 100),
    ],
)
def test_response_functions_are_means_over_one_cycle(form: object, keeps: float, per_round: object) -> None:
    """Summed round by round from after a loss to the next, 1/p segments later."""
    lost = 2e-6

    def surplus(top: float) -> float:
        return cycle(top)[0] - 1 / lost

    def cycle(top: float) -> tuple[float, float]:
        w, segments, rounds = top * keeps, 0.0, 0.0
        while w < top:
            part = min(1.0, (top - w) / per_round(w))
            segments += w * part
            w += per_round(w) * part
            rounds += part
        return segments, rounds

    top = brentq(surplus, 200, 2e5, rtol=1e-6)
    segments, rounds = cycle(top)
    assert form(lost) == pytest.approx(segments / rounds, rel=0.01)


def test_cubic_by_even_losses_is_the_mean_over_its_curve() -> None:
    lost, rtt_s = 1e-6, 0.2

    def cycle(top: float) -> tuple[float, float]:
        k = np.cbrt(0.3 * top / 0.4)
        t_s = np.linspace(0, k, 5_001)
        return float(np.trapezoid(top + 0.4 * (t_s - k) ** 3, t_s)) / rtt_s, float(k)

    top = brentq(lambda w: cycle(w)[0] - 1 / lost, 10, 1e6)
    segments, span_s = cycle(top)
    assert models.cubic(lost, rtt_s) == pytest.approx(segments * rtt_s / span_s, rel=1e-3)


def test_padhye_is_mathis_where_timeouts_are_rare_and_less_where_not() -> None:
    assert models.padhye(1e-7, 0.1, 0.3) == pytest.approx(float(models.mathis(1e-7)), rel=0.01)
    assert models.padhye(0.05, 0.1, 0.3) < 0.75 * models.mathis(0.05)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rtt_ms", "queue"), [(20, 1.0), (80, 1.0), (80, 0.3), (200, 0.5)])
def test_a_path_without_random_loss_carries_what_the_reference_model_does(
    name: str, rtt_ms: int, queue: float
) -> None:
    """200 Mb/s for 40 s, from the first segment through the overflows."""
    rate_bps, span_s = 200_000_000, 40.0
    bdp = rate_bps * rtt_ms / 1e3 / 1538 / 8
    trace = model.run(
        model.Experiment(
            algorithm=name,
            rtt_ns=rtt_ms * MS,
            rate_bps=rate_bps,
            queue_segments=int(queue * bdp),
            span_ns=int(span_s) * 1_000 * MS,
        )
    )
    t_s = np.array([each.t_ns for each in trace.rounds]) / 1e9
    windows = np.array([min(each.cwnd_segments, bdp) for each in trace.rounds], float)
    expected = float(np.sum(windows[:-1] / bdp * np.diff(t_s)) / span_s)
    got = flow(name, rtt_ms / 1e3, bdp=bdp, queue=queue).sent_by(span_s, np.random.default_rng(1))[0]
    assert got / (bdp / (rtt_ms / 1e3) * span_s) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_buffers_that_are_smaller_than_the_path_hold_the_window(name: str) -> None:
    """Nothing overflows, so the flow sends one buffer a round trip after slow start."""
    each = flow(name, 0.1, bdp=10_000.0, cap=640.0)
    rounds = np.log2(64)
    assert each.sent_by(30.0, np.random.default_rng(1))[0] == pytest.approx(
        630 + (30.0 - 0.1 * rounds) / 0.1 * 640, rel=1e-6
    )
    assert each.steady_per_s(np.random.default_rng(1))[0] == pytest.approx(6_400, rel=1e-6)


@pytest.mark.parametrize("span_s", [0.05, 0.2, 0.55])
def test_a_run_that_ends_in_slow_start_sent_what_its_rounds_say(span_s: float) -> None:
    each = flow("reno", 0.1, bdp=1e6)
    sent = each.sent_by(span_s, np.random.default_rng(1))[0]
    assert sent == pytest.approx(START_SEGMENTS * (2 ** (span_s / 0.1) - 1))


class Drawn(np.random.Generator):
    """Gives what it was given, the same to every flow."""

    def __init__(self, values: FloatArray) -> None:
        super().__init__(np.random.PCG64())
        self.values = iter(values)

    def exponential(self, scale: float = 1.0, size: object = None) -> FloatArray:
        return np.full(size, next(self.values, np.inf))


def reference_with_losses(name: str, rtt_ms: int, due: FloatArray) -> tuple[float, float]:
    """Seconds to the last loss and segments sent by then, each loss ``due`` segments after the last cut."""
    losses: list[int] = []
    rtt_ns, window = rtt_ms * MS, float(FIRST)
    for segments in due:
        # Even after the deepest cut so many are sent by then.
        rounds = 4 + segments / (window / 2)
        trace = model.run(
            model.Experiment(
                algorithm=name,
                rtt_ns=rtt_ns,
                start_segments=FIRST,
                ssthresh_segments=FIRST,
                losses_ns=tuple(losses),
                span_ns=(losses[-1] if losses else 0) + int(rounds * rtt_ns),
            )
        )
        t_ns = np.array([each.t_ns for each in trace.rounds])
        windows = np.array([each.cwnd_segments for each in trace.rounds], float)
        sent = np.concatenate([[0.0], np.cumsum(windows)[:-1]])
        begun = float(np.interp(trace.cuts[-1].t_ns, t_ns, sent)) if losses else 0.0
        losses.append(int(np.interp(begun + segments, sent, t_ns)))
        window = float(np.interp(losses[-1], t_ns, windows))
    return losses[-1] / 1e9, float(np.interp(losses[-1], t_ns, sent))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rtt_ms", "lost"), [(10, 1e-3), (50, 3e-4)])
def test_under_the_same_losses_it_sends_what_the_reference_model_does(
    name: str, rtt_ms: int, lost: float
) -> None:
    due = np.random.default_rng(8).exponential(size=25)
    span_s, sent = reference_with_losses(name, rtt_ms, due / lost)
    each = flow(name, rtt_ms / 1e3, lost=lost)._replace(start=SlowStart(window=FIRST, threshold=FIRST))
    # The first draw is for slow start, which is over at once.
    got = each.sent_by(span_s, Drawn(np.concatenate([[np.inf], due])))[0]
    assert got == pytest.approx(sent, rel=0.06)


def test_more_loss_sends_less() -> None:
    windows = [steady_window("cubic", 0.05, lost, replicas=16) for lost in (1e-5, 1e-4, 1e-3, 1e-2)]
    assert np.all(np.diff(windows) < 0)
