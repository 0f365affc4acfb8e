"""The profile of a path that was never measured: what a configuration would reach there, and how surely.

Streams share the path evenly and lose together where their queue overflows. Losses at random hit them one at
a time, and what one gives up the others take; so n streams reach at least n times what one of an nth of the
path reaches, and where that is more, n times what each would reach alone, up to what all reach without loss.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah import HowdahError
from howdah.profiles.models import buffers, controls
from howdah.profiles.models.by_round import FloatArray
from howdah.profiles.models.calibration import UNMEASURED, Calibration
from howdah.profiles.models.epoch import Limits
from howdah.profiles.models.flow import Flow, Start
from howdah.profiles.models.lane import Lane
from howdah.profiles.models.wire import Segment

REPLICAS = 32
"""Flows that are run where losses are random."""
SEED = 2017
DURATION_S = 100.0
"""Of the runs of Rao et al. 2017."""
AUTOTUNED_WINDOW_BYTES = 3 * 2**20
"""Half of Linux's default ``tcp_rmem``."""
_TAILS = (0.05, 0.95)


class PathParameters(NamedTuple):
    """A dedicated path. ``rtt_s`` may be an array; so may everything that broadcasts with it."""

    capacity_bps: npt.ArrayLike
    """On the wire."""
    rtt_s: npt.ArrayLike
    """Base RTT."""
    loss: npt.ArrayLike = 0.0
    """Share of segments lost at random."""
    queue_bytes: npt.ArrayLike = np.nan
    """At the bottleneck; nan: one bandwidth × delay."""
    mtu_bytes: int = 1500
    autotuned_window_bytes: float = AUTOTUNED_WINDOW_BYTES
    """Most that a stream without a buffer of its own has in flight."""


class Configuration(NamedTuple):
    """How it is used."""

    congestion_control: str
    streams: int = 1
    buffer_bytes: float = np.nan
    """As asked for at both ends; ``buffers`` has the window that it gives. nan: autotuned."""

    @classmethod
    def of(cls, congestion_control: str, streams: int, buffer_bytes: float | None) -> "Configuration":
        """The same where None is autotuned, as in ``howdah.archive.runs.Configuration``."""
        return cls(congestion_control, streams, np.nan if buffer_bytes is None else buffer_bytes)


class Prediction(NamedTuple):
    """Mean goodput, bits per second, in the shape of the path's arrays; 90 % of runs lie between the ends."""

    rate_low_bps: FloatArray
    rate_mid_bps: FloatArray
    rate_high_bps: FloatArray


class _Rates(NamedTuple):
    """Segments per second of one stream: mean, and 5 % and 95 % of its runs."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray


def predict(
    path: PathParameters,
    configuration: Configuration,
    *,
    duration_s: float = DURATION_S,
    calibration: Calibration = UNMEASURED,
) -> Prediction:
    """What ``configuration`` would reach in a run of ``duration_s``. The same question has the same answer.

    Raises HowdahError for a path or configuration that cannot be, or a congestion control without a model.
    """
    if not duration_s > 0:
        raise HowdahError(f"duration_s is {duration_s}; it must be above 0")
    # What was sent within half a round trip of the end has not arrived.
    return _predict(
        path,
        configuration,
        lambda flow, rng: flow.sent_by(np.maximum(duration_s - flow.lane.rtt_s / 2, 0.0), rng) / duration_s,
        calibration,
    )


def predict_steady(
    path: PathParameters, configuration: Configuration, *, calibration: Calibration = UNMEASURED
) -> Prediction:
    """The same in the long run, without the beginning."""
    return _predict(path, configuration, Flow.steady_per_s, calibration)


def _predict(
    path: PathParameters,
    configuration: Configuration,
    measure: Callable[[Flow, np.random.Generator], FloatArray],
    calibration: Calibration,
) -> Prediction:
    _check(path, configuration)
    segment = Segment(path.mtu_bytes)
    rates = _aggregate(path, configuration, measure)
    most = np.asarray(path.capacity_bps, float) / segment.wire_bits
    low, mid, high = (
        np.minimum(rate * ratio, most) * segment.payload_bits
        for rate, ratio in (
            (rates.low, calibration.low),
            (rates.mean, calibration.mid),
            (rates.high, calibration.high),
        )
    )
    return Prediction(np.minimum(low, mid), mid, np.maximum(mid, high))


def _aggregate(
    path: PathParameters,
    configuration: Configuration,
    measure: Callable[[Flow, np.random.Generator], FloatArray],
) -> _Rates:
    """Of all streams together."""
    n = configuration.streams
    together = _rates(path, configuration, n, measure)
    shared = _Rates(*(n * rate for rate in together))
    if n == 1 or not np.any(path.loss):
        return shared
    lossless = n * _rates(path._replace(loss=0.0), configuration, n, measure).mean
    alone = _rates(path, configuration, 1, measure)
    half_width = [(alone.mean - alone.low) * np.sqrt(n), (alone.high - alone.mean) * np.sqrt(n)]
    mean = np.maximum(shared.mean, np.minimum(lossless, n * alone.mean))
    return _Rates(mean, np.maximum(mean - half_width[0], 0.0), mean + half_width[1])


def _rates(
    path: PathParameters,
    configuration: Configuration,
    sharers: int,
    measure: Callable[[Flow, np.random.Generator], FloatArray],
) -> _Rates:
    """Of one stream that has a ``sharers``-th of the path."""
    fields = (path.capacity_bps, path.rtt_s, path.loss, path.queue_bytes)
    capacity, rtt, loss, queue = np.broadcast_arrays(*(np.asarray(each, float) for each in fields))
    replicas = REPLICAS if np.any(loss > 0) else 1
    segment = Segment(path.mtu_bytes)
    bdp = capacity * rtt / segment.wire_bits
    waiting = np.where(np.isnan(queue), bdp, 8 * queue / segment.wire_bits)
    window_bytes = buffers.window_bytes(configuration.buffer_bytes)
    if np.isnan(window_bytes):
        window_bytes = path.autotuned_window_bytes
    cap = np.full(bdp.shape, 8 * window_bytes / segment.payload_bits)
    columns = ((bdp + waiting) / sharers, cap, loss)
    lane = Lane(*(np.repeat(each.ravel(), replicas) for each in (rtt, bdp / sharers)))
    limits = Limits(*(np.repeat(each.ravel(), replicas) for each in columns))
    name = configuration.congestion_control.removeprefix("hd_")
    flow = Flow(controls.named(name), lane, limits, Start(hystart=name in controls.HYSTART), replicas)
    runs = measure(flow, np.random.default_rng(SEED)).reshape(*bdp.shape, replicas)
    low, high = np.quantile(runs, _TAILS, axis=-1)
    return _Rates(runs.mean(axis=-1), low, high)


def _check(path: PathParameters, configuration: Configuration) -> None:
    """Raises HowdahError for what cannot be."""
    above = {
        "capacity_bps": path.capacity_bps,
        "rtt_s": path.rtt_s,
        "streams": configuration.streams,
        "autotuned_window_bytes": path.autotuned_window_bytes,
    }
    if not np.isnan(configuration.buffer_bytes):
        above["buffer_bytes"] = configuration.buffer_bytes
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
