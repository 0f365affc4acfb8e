"""Throughput traces from samples of ``TCP_INFO``.

The bytes a stream has had acknowledged are interpolated at the edges of bins, so no byte is lost or counted
twice, whatever the instants of the samples: coarse bins are the means of fine ones.

What a trace must be before anything is said of it.

A trace that is wrong (not finite, not one row) is an error. One of which nothing can be said (short,
constant) gives ``Undetermined`` and its reason, so that one dull run does not spoil the table of a sweep.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.text import count

Trace = NDArray[np.float64]

_CONSTANT = 1e-9
"""Spread, as a share of the largest value, that is rounding and not dynamics."""


class Undetermined(NamedTuple):
    """Stands for a number where nothing can be said, and gives the reason."""

    reason: str


def checked_trace(trace: ArrayLike) -> Trace:
    """The trace as an array of shape (n,); HowdahError when it is not one row of finite numbers."""
    values = np.asarray(trace, dtype=np.float64)
    if values.ndim != 1:
        raise HowdahError(
            f"a trace is one row of rates, and this has {values.ndim} dimensions; take one stream"
        )
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise HowdahError(
            f"sample {wrong[0]} of the trace is {values[wrong[0]]}; leave the run out or measure again"
        )
    return values


def why_undetermined(trace: Trace, least: int) -> Undetermined | None:
    """The reason why a trace that must vary and have ``least`` samples does not; None when it does."""
    if trace.size < least:
        return Undetermined(f"{count(trace.size, 'sample')}, and {least} are needed")
    if np.ptp(trace) <= _CONSTANT * np.abs(trace).max():
        return Undetermined("the trace is constant")
    return None


def standardised(trace: Trace) -> Trace:
    """A trace that varies, with mean 0 and standard deviation 1."""
    scaled = trace / np.abs(trace).max()
    result: Trace = (scaled - scaled.mean()) / scaled.std()
    return result


Floats = NDArray[np.float64]


class Traces(NamedTuple):
    """Rates of all streams of one run in equal bins."""

    start_s: float
    """The start of the first bin, on the clock of the samples."""
    bin_s: float
    streams: NDArray[np.int64]
    """Indices of the streams, ascending: shape (streams,)."""
    rates_bps: Floats
    """The rates, shape (streams, bins)."""

    @property
    def aggregate_bps(self) -> Floats:
        """The rate of all streams together: shape (bins,)."""
        total: Floats = self.rates_bps.sum(axis=0)
        return total

    @property
    def ends_s(self) -> Floats:
        """The end of each bin: shape (bins,)."""
        return self.start_s + self.bin_s * np.arange(1, self.rates_bps.shape[1] + 1)


def from_samples(t_s: ArrayLike, stream: ArrayLike, bytes_acked: ArrayLike, bin_s: float = 1.0) -> Traces:
    """Traces of a run from its samples, each of shape (samples,), in any order.

    ``bytes_acked`` counts from the stream's beginning, which is taken to be one sampling interval before its
    first sample. The trace begins with the first stream; after its last sample a stream is silent. Only
    whole bins are kept: bytes beyond the last edge are in no bin.

    HowdahError: arrays of unequal length, values not finite, bytes that shrink, less than one bin.
    """
    times, owners, counted = _columns(t_s, stream, bytes_acked)
    if not (np.isfinite(bin_s) and bin_s > 0):
        raise HowdahError(f"bins of {bin_s} s cannot be filled; take more than zero")
    streams = np.unique(owners)
    curves = [_curve(times[owners == each], counted[owners == each], int(each)) for each in streams]
    interval = _interval(curves)
    start = min(instants[0] for instants, _ in curves) - interval
    span = max(instants[-1] for instants, _ in curves) - start
    # A span of 9.999999 bins is one of ten whose instants were rounded.
    bins = int(np.floor(span / bin_s + 1e-6))
    if bins < 1:
        raise HowdahError(
            f"the samples span {span:.3g} s, less than one bin of {bin_s:g} s; take smaller bins"
        )
    edges = start + bin_s * np.arange(bins + 1)
    filled = np.stack(
        [
            np.interp(edges, np.r_[instants[0] - interval, instants], np.r_[0.0, octets])
            for instants, octets in curves
        ]
    )
    return Traces(float(start), float(bin_s), streams, np.diff(filled, axis=1) * 8 / bin_s)


def _columns(
    t_s: ArrayLike, stream: ArrayLike, bytes_acked: ArrayLike
) -> tuple[Floats, NDArray[np.int64], Floats]:
    times = np.asarray(t_s, dtype=np.float64)
    owners = np.asarray(stream, dtype=np.int64)
    counted = np.asarray(bytes_acked, dtype=np.float64)
    if not (times.ndim == 1 and times.shape == owners.shape == counted.shape):
        raise HowdahError(
            "samples need an instant, a stream and bytes each, and the columns are of shapes "
            f"{times.shape}, {owners.shape} and {counted.shape}"
        )
    if not times.size:
        raise HowdahError("the run has no samples, so it has no trace; measure for longer")
    if not (np.isfinite(times).all() and np.isfinite(counted).all()):
        raise HowdahError("a sample's instant or bytes are not finite; leave the run out or measure again")
    return times, owners, counted


def _curve(times: Floats, counted: Floats, stream: int) -> tuple[Floats, Floats]:
    order = np.lexsort((counted, times))
    instants, octets = times[order], counted[order]
    if octets[0] < 0 or np.any(np.diff(octets) < 0):
        raise HowdahError(
            f"the bytes acknowledged on stream {stream} shrink; its samples are of more than one connection"
        )
    return instants, octets


def _interval(curves: list[tuple[Floats, Floats]]) -> float:
    gaps = np.concatenate([np.diff(instants) for instants, _ in curves])
    gaps = gaps[gaps > 0]
    if not gaps.size:
        raise HowdahError("no stream was sampled twice, so the run has no trace; measure for longer")
    return float(np.median(gaps))


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing their mean: shape (n,)."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    ranks: NDArray[np.float64] = (last - (sizes - 1) / 2)[group]
    return ranks


def normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normal quantile of each value's rank: shape (n,)."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank - 0.5) / values.size) for rank in mean_ranks(values)])
