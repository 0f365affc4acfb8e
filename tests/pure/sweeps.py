"""Sweeps whose truth is known, as Runs: a rate for each point, repeats around it, traces where wanted."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.archive.runs import Runs, Trace

RTTS_S = (0.0004, 0.0118, 0.0226, 0.0456, 0.0916, 0.183, 0.366)
BUFFERS_BYTES = (244e3, 256e6, 1e9)
DURATION_S = 100.0


class Point(NamedTuple):
    """What a run is of; its size is None where it was limited by time."""

    control: str
    streams: int
    buffer_bytes: float
    rtt_s: float
    size: int | None


Rates = NDArray[np.float64]
Tracer = Callable[[Point, np.random.Generator], Rates]
"""Rates in b/s by stream and second: shape (streams, 100)."""


def sweep(
    rate_bps: Callable[[Point], float],
    *,
    controls: Sequence[str] = ("cubic",),
    streams: Sequence[int] = (1, 4, 10),
    buffers: Sequence[float] = BUFFERS_BYTES,
    rtts: Sequence[float] = RTTS_S,
    sizes: Sequence[int | None] = (None,),
    repeats: int = 3,
    spread: float = 0.01,
    trace: Tracer | None = None,
    path: str = "lab 10 Gb/s",
    late: bool = False,
    memory: bool = True,
) -> Runs:
    """Every point ``repeats`` times, each run ``spread`` around its rate."""
    rng = np.random.default_rng(20170626)
    cells = itertools.product(controls, streams, buffers, rtts, sizes)
    points = [Point(*each) for each in cells] * repeats
    rates = np.array([rate_bps(point) for point in points]) * np.exp(rng.normal(0, spread, len(points)))
    count = len(points)
    ids = np.array([f"20170626T{place:06}.000000Z-{'late' if late else path[-2:]}" for place in range(count)])
    timed_bytes = rates * DURATION_S / 8

    def read(wanted: Sequence[str]) -> Mapping[str, Trace]:
        if trace is None:
            return {}
        chosen = np.flatnonzero(np.isin(ids, list(wanted))).tolist()
        return {
            str(ids[place]): _samples(trace(points[place], np.random.default_rng(place))) for place in chosen
        }

    return Runs.of(
        id=ids,
        path=np.full(count, path),
        congestion_control=np.array([point.control for point in points]),
        program=np.array([point.control not in ("cubic", "reno") for point in points]),
        streams=np.array([point.streams for point in points]),
        buffer_bytes=np.array([point.buffer_bytes for point in points]),
        rtt_s=np.array([point.rtt_s for point in points]),
        capacity_bps=np.full(count, 9.6e9 if "9.6" in path else 10e9),
        loss=np.zeros(count),
        rate_bps=rates,
        elapsed_s=np.full(count, DURATION_S),
        bytes=np.array(
            [point.size or round(timed) | 1 for point, timed in zip(points, timed_bytes, strict=True)]
        ),
        retransmissions=np.zeros(count, np.int64),
        late=np.full(count, late),
        encrypted=np.zeros(count, np.bool_),
        memory=np.full(count, memory),
        sweep=np.full(count, "known-0a1b2c"),
        repeat=np.repeat(np.arange(repeats), count // repeats),
        read_traces=read,
    )


def joined(*parts: Runs) -> Runs:
    """Several sweeps as one."""
    names = [name for name in Runs.__dataclass_fields__ if name != "read_traces"]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}

    def read(wanted: Sequence[str]) -> Mapping[str, Trace]:
        return {each: trace for part in parts for each, trace in part.read_traces(wanted).items()}

    return Runs(**columns, read_traces=read)


def _samples(rates_bps: Rates) -> Trace:
    streams, seconds = rates_bps.shape
    t_s = np.repeat(np.arange(1.0, seconds + 1), streams)
    stream = np.tile(np.arange(streams), seconds)
    acked = np.cumsum(rates_bps / 8, axis=1).T.ravel().astype(np.int64)
    zeros = np.zeros(t_s.size)
    whole = np.zeros(t_s.size, np.int64)
    return Trace(
        t_s=t_s,
        stream=stream,
        bytes_acked=acked,
        cwnd=whole,
        ssthresh=zeros,
        rtt_s=zeros,
        min_rtt_s=zeros,
        retransmissions=whole,
        delivery_rate_bps=zeros,
        pacing_rate_bps=zeros,
        notsent_bytes=whole,
        limited=np.full(t_s.size, ""),
    )
