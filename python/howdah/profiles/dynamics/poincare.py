"""The Poincaré map of a throughput trace as numbers (HPDC 2017, section 4.1, figure 12).

The map is the cloud of points (X_i, X_{i+1}). A trace that stays where it is lies close to the 45° line.
The cloud of a stationary trace has the same variance along both of its axes, so its principal axis is either
nearly the 45° line (the next rate follows this one) or nearly across it (a high rate is followed by a low
one): the tilt tells which, and ``slope`` how strongly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah.profiles.dynamics.traces import Trace, Traces, Undetermined, checked_trace, why_undetermined

LEAST_SAMPLES = 4
SUSTAINED_SHARE = 0.9


class MapShape(NamedTuple):
    """The cloud of one trace. Spreads are standard deviations as shares of the mean rate."""

    points: int
    mean: float
    """The mean rate, in the unit of the trace."""
    tilt_deg: float | None
    """The angle from the 45° line to the principal axis, counter-clockwise, in (-90, 90]; None for a round
    cloud."""
    slope: float
    """The slope of the least-squares line of the next rate on this one."""
    along: float
    """The spread along the 45° line: how far the rate wanders."""
    across: float
    """The spread across the 45° line: how far one step jumps. The smaller, the steadier."""


class RunMaps(NamedTuple):
    """The maps of one run, of the part of each trace that is sustained."""

    aggregate: MapShape | Undetermined
    streams: tuple[MapShape | Undetermined, ...]
    across_ratio: float | Undetermined
    """Aggregate ``across`` over the mean of the streams': 1/√streams if streams jump independently, 1 if
    together."""


def points(trace: ArrayLike) -> NDArray[np.float64]:
    """The map of a trace of shape (n,): shape (n - 1, 2), each row (X_i, X_{i+1})."""
    values = checked_trace(trace)
    return np.column_stack((values[:-1], values[1:]))


def sustained(trace: ArrayLike) -> Trace:
    """The trace without its ramp-up.

    The ramp-up ends with the first sample that reaches 90 % of the median of the trace's second half.
    """
    values = checked_trace(trace)
    if not values.size:
        return values
    level = np.median(values[values.size // 2 :])
    return values[int(np.argmax(values >= SUSTAINED_SHARE * level)) :]


def map_shape(trace: ArrayLike) -> MapShape | Undetermined:
    """The cloud of a trace of shape (n,), n ≥ 4, all of it; see ``sustained``."""
    values = checked_trace(trace)
    reason = why_undetermined(values, LEAST_SAMPLES)
    if reason is not None:
        return reason
    mean = float(values.mean())
    if mean <= 0:
        return Undetermined("the mean rate is not above zero")
    shares = values / mean
    now, then = shares[:-1] - shares[:-1].mean(), shares[1:] - shares[1:].mean()
    here, there, both = float(now @ now), float(then @ then), float(now @ then)
    if here == 0:
        return Undetermined("the trace is constant but for its last sample")
    scale = np.sqrt(2 * now.size)
    return MapShape(
        points=now.size,
        mean=mean,
        tilt_deg=_tilt_deg(here, there, both),
        slope=both / here,
        along=float(np.linalg.norm(then + now) / scale),
        across=float(np.linalg.norm(then - now) / scale),
    )


def of_run(traces: Traces) -> RunMaps:
    """The maps of a run's aggregate and of each of its streams, ramp-up left out."""
    aggregate = map_shape(sustained(traces.aggregate_bps))
    streams = tuple(map_shape(sustained(each)) for each in traces.rates_bps)
    return RunMaps(aggregate, streams, _across_ratio(aggregate, streams))


def _tilt_deg(here: float, there: float, both: float) -> float | None:
    """The principal axis of [[here, both], [both, there]] against the 45° line."""
    if np.hypot(here - there, 2 * both) <= 1e-12 * (here + there):
        return None
    axis_deg = float(np.degrees(np.arctan2(2 * both, here - there))) / 2
    tilt_deg = axis_deg - 45
    return tilt_deg + 180 if tilt_deg <= -90 else tilt_deg


def _across_ratio(
    aggregate: MapShape | Undetermined, streams: tuple[MapShape | Undetermined, ...]
) -> float | Undetermined:
    if len(streams) < 2:
        return Undetermined("one stream is its own aggregate")
    if isinstance(aggregate, Undetermined):
        return aggregate
    across = [each.across for each in streams if isinstance(each, MapShape)]
    if len(across) < len(streams):
        return Undetermined("a stream has no map")
    return aggregate.across / float(np.mean(across))
