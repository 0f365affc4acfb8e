"""The profile of a path that was never measured: what a configuration would reach there, and how surely.

Streams share the path evenly and lose together where their queue overflows. Losses at random hit them one at
a time, and what one gives up the others take; so n streams reach at least n times what one of an nth of the
path reaches, and where that is more, n times what each would reach alone, up to what all reach without loss.

The window of a buffer that was asked for at both ends.

Linux keeps twice what is asked for (net/core/sock.c) and counts in it the memory of packets, not their
payload. Howdah asks for B at the end that sends and for 2 B at the one that receives, so with B in a plan

- the send end holds up to 2 B, and takes more only once that is down to two thirds (sk_stream_min_wspace), so
  1.3 to 2 B;
- the receive end has 4 B for it, which binds nothing: packets seldom cost more than twice their payload.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah import HowdahError
from howdah.profiles.theory import controls
from howdah.profiles.theory.controls import FloatArray, FlowPath
from howdah.profiles.theory.flow import Flow, FlowLimits, SlowStart

REPLICAS = 32
"""Flows that are run where losses are random."""
SEED = 2017
DURATION_S = 100.0
"""The length of the runs of Rao et al. 2017."""
AUTOTUNED_WINDOW_BYTES = 3 * 2**20
"""Half of Linux's default ``tcp_rmem``."""
_TAILS = (0.05, 0.95)
WINDOW_PER_BUFFER = 1.5
"""Payload in flight per byte of buffer. Runs without loss in a lab had 1.15 to 1.8 times their buffer in
flight (Linux 6.18, 1 to 10 streams, 244 kB and 1 MB, 11.8 to 366 ms). A receiver that may not have 2 B
(net.core.rmem_max) offers 1 to 2 B."""
IP_TCP_BYTES = 52
"""The headers: IPv4 20, TCP 20, and the timestamps that Linux always sends, 12."""
ETHERNET_BYTES = 38
"""The frame without its payload: preamble 8, header 14, checksum 4, gap 12."""


COVERAGE = 0.90
RUNS_FOR_COVERAGE = 19
"""No order statistic of fewer runs leaves only 5 % on either side."""


class Segment(NamedTuple):
    """A segment of a path's MTU: what it carries, and what it takes on the wire."""

    mtu_bytes: int

    @property
    def payload_bits(self) -> float:
        """The payload: 1448 bytes of 1500."""
        return 8.0 * (self.mtu_bytes - IP_TCP_BYTES)

    @property
    def wire_bits(self) -> float:
        """The frame with its gap: 1538 bytes for 1500."""
        return 8.0 * (self.mtu_bytes + ETHERNET_BYTES)


class Calibration(NamedTuple):
    """Ratios of measured to predicted rate."""

    low: float
    mid: float
    high: float
    runs: int
    """The number of runs it rests on; 0 is the stated default."""


UNMEASURED = Calibration(low=0.6, mid=1.0, high=1.25, runs=0)
"""The calibration where nothing was measured. Beside the public CUBIC figures of docs/models.md the model in
the long run is 0.78 to 1.22 times what was measured, and for a run from its first byte up to 1.5 times."""


class PathParameters(NamedTuple):
    """A dedicated path. ``rtt_s`` may be an array; so may everything that broadcasts with it."""

    capacity_bps: npt.ArrayLike
    """The capacity on the wire."""
    rtt_s: npt.ArrayLike
    """The base RTT."""
    loss: npt.ArrayLike = 0.0
    """The share of segments lost at random."""
    queue_bytes: npt.ArrayLike = np.nan
    """The queue at the bottleneck; nan is one bandwidth × delay."""
    mtu_bytes: int = 1500
    autotuned_window_bytes: float = AUTOTUNED_WINDOW_BYTES
    """The most that a stream without a buffer of its own has in flight."""


class ModelPrediction(NamedTuple):
    """Mean goodput, bits per second, in the shape of the path's arrays; 90 % of runs lie between the ends."""

    rate_low_bps: FloatArray
    rate_mid_bps: FloatArray
    rate_high_bps: FloatArray


class _Rates(NamedTuple):
    """Segments per second of one stream: mean, and 5 % and 95 % of its runs."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


_Setup = tuple[str, int, float | None]
"""Congestion control, streams, and bytes of buffer asked for at both ends; None is autotuned."""
_Measure = Callable[[Flow, np.random.Generator], FloatArray]


def predict(
    path: PathParameters,
    congestion_control: str,
    streams: int = 1,
    buffer_bytes: float | None = None,
    *,
    duration_s: float = DURATION_S,
    calibration: Calibration = UNMEASURED,
) -> ModelPrediction:
    """Predicts the rate of a configuration in a run of ``duration_s``. The same question has the same answer.

    ``buffer_bytes`` is asked for at both ends of each stream; None is autotuned.
    Raises HowdahError for a path or configuration that cannot be, or a congestion control without a model.
    """
    if not duration_s > 0:
        raise HowdahError(f"duration_s is {duration_s}; it must be above 0")

    def mean_per_s(flow: Flow, rng: np.random.Generator) -> FloatArray:
        # What was sent within half a round trip of the end has not arrived.
        return flow.sent_by(np.maximum(duration_s - flow.path.rtt_s / 2, 0.0), rng) / duration_s

    return _predict(path, (congestion_control, streams, buffer_bytes), mean_per_s, calibration)


def predict_steady(
    path: PathParameters,
    congestion_control: str,
    streams: int = 1,
    buffer_bytes: float | None = None,
    *,
    calibration: Calibration = UNMEASURED,
) -> ModelPrediction:
    """Predicts the rate of a run that never ends."""
    setup = (congestion_control, streams, buffer_bytes)
    return _predict(path, setup, Flow.steady_per_s, calibration)


def _predict(
    path: PathParameters, setup: _Setup, measure: _Measure, calibration: Calibration
) -> ModelPrediction:
    _check(path, setup)
    segment = Segment(path.mtu_bytes)
    rates = _aggregate(path, setup, measure)
    most = np.asarray(path.capacity_bps, float) / segment.wire_bits
    low, mid, high = (
        np.minimum(rate * ratio, most) * segment.payload_bits
        for rate, ratio in zip((rates.low, rates.mean, rates.high), calibration[:3], strict=True)
    )
    return ModelPrediction(np.minimum(low, mid), mid, np.maximum(mid, high))


def _aggregate(
    path: PathParameters,
    setup: _Setup,
    measure: _Measure,
) -> _Rates:
    """The rates of all streams together."""
    n = setup[1]
    together = _rates(path, setup, n, measure)
    shared = _Rates(*(n * rate for rate in together))
    if n == 1 or not np.any(path.loss):
        return shared
    lossless = n * _rates(path._replace(loss=0.0), setup, n, measure).mean
    alone = _rates(path, setup, 1, measure)
    half_width = [(alone.mean - alone.low) * np.sqrt(n), (alone.high - alone.mean) * np.sqrt(n)]
    mean = np.maximum(shared.mean, np.minimum(lossless, n * alone.mean))
    return _Rates(mean, np.maximum(mean - half_width[0], 0.0), mean + half_width[1])


def _rates(
    path: PathParameters,
    setup: _Setup,
    sharers: int,
    measure: _Measure,
) -> _Rates:
    """The rates of one stream that has a ``sharers``-th of the path."""
    control, _, buffer_bytes = setup
    fields = (path.capacity_bps, path.rtt_s, path.loss, path.queue_bytes)
    capacity, rtt, loss, queue = np.broadcast_arrays(*(np.asarray(each, float) for each in fields))
    replicas = REPLICAS if np.any(loss > 0) else 1
    segment = Segment(path.mtu_bytes)
    bdp = capacity * rtt / segment.wire_bits
    waiting = np.where(np.isnan(queue), bdp, 8 * queue / segment.wire_bits)
    window_bytes = path.autotuned_window_bytes if buffer_bytes is None else WINDOW_PER_BUFFER * buffer_bytes
    cap = np.full(bdp.shape, 8 * window_bytes / segment.payload_bits)
    columns = ((bdp + waiting) / sharers, cap, loss)
    flow_path = FlowPath(*(np.repeat(each.ravel(), replicas) for each in (rtt, bdp / sharers)))
    limits = FlowLimits(*(np.repeat(each.ravel(), replicas) for each in columns))
    name = control.removeprefix("hd_")
    flow = Flow(
        controls.control_model(name), flow_path, limits, SlowStart(hystart=name in controls.HYSTART), replicas
    )
    runs = measure(flow, np.random.default_rng(SEED)).reshape(*bdp.shape, replicas)
    low, high = np.quantile(runs, _TAILS, axis=-1)
    return _Rates(runs.mean(axis=-1), low, high)


def _check(path: PathParameters, setup: _Setup) -> None:
    """Raises HowdahError for what cannot be."""
    _, streams, buffer_bytes = setup
    above = {
        "capacity_bps": path.capacity_bps,
        "rtt_s": path.rtt_s,
        "streams": streams,
        "autotuned_window_bytes": path.autotuned_window_bytes,
    }
    if buffer_bytes is not None:
        above["buffer_bytes"] = buffer_bytes
    for name, value in above.items():
        if not np.all(np.asarray(value) > 0):
            raise HowdahError(f"{name} is {value}; it must be above 0")
    loss = np.asarray(path.loss)
    if not np.all((loss >= 0) & (loss < 1)):
        raise HowdahError(f"loss is {path.loss}; it must be a share from 0 up to, not including, 1")
    if not 576 <= path.mtu_bytes <= 65_535:
        raise HowdahError(f"mtu_bytes is {path.mtu_bytes}; it must be 576 to 65535")
    if np.any(np.asarray(path.queue_bytes) < 0):
        raise HowdahError(f"queue_bytes is {path.queue_bytes}; it must be 0 or above")


def calibrate(predicted_bps: npt.ArrayLike, measured_bps: npt.ArrayLike) -> Calibration:
    """Calibrates by runs of a path and what was predicted for each (``rate_mid_bps``), arrays of one length.

    The interval holds the next run in at least 90 % if that comes from the same paths (split conformal
    prediction). Below 19 runs it is also at least as wide as the default about the median.
    Raises HowdahError when nothing can be compared.
    """
    predicted, measured = (np.asarray(each, float).ravel() for each in (predicted_bps, measured_bps))
    if predicted.shape != measured.shape:
        raise HowdahError(
            f"{measured.size} measured rates cannot be compared with {predicted.size} predictions"
        )
    known = np.isfinite(predicted) & np.isfinite(measured) & (predicted > 0) & (measured > 0)
    ratio = np.sort(measured[known] / predicted[known])
    if not ratio.size:
        raise HowdahError("no measured rate can be compared with a prediction; each must be above 0")
    mid = float(np.exp(np.median(np.log(ratio))))
    tail = int((ratio.size + 1) * (1 - COVERAGE) / 2)
    low, high = float(ratio[max(tail, 1) - 1]), float(ratio[-max(tail, 1)])
    if ratio.size < RUNS_FOR_COVERAGE:
        low, high = min(low, UNMEASURED.low * mid), max(high, UNMEASURED.high * mid)
    return Calibration(low, mid, high, int(ratio.size))
