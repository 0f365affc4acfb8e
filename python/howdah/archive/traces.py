"""Traces: the samples of one run as arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from howdah.archive.samples import Columns

_FLOATS = ("t_s", "ssthresh", "rtt_s", "min_rtt_s", "delivery_rate_bps", "pacing_rate_bps")
"""The columns that are calculated with as floats; those that may be null are among them."""


class Trace(NamedTuple):
    """The samples of one run as equally long arrays, in the order they were taken.

    ``ssthresh`` (before the first loss) and ``pacing_rate_bps`` are NaN where unknown, ``limited`` is "".
    """

    t_s: np.ndarray[Any, np.dtype[np.float64]]
    """The time since the session's start."""
    stream: np.ndarray[Any, np.dtype[np.int64]]
    bytes_acked: np.ndarray[Any, np.dtype[np.int64]]
    """The bytes of the stream, since it began."""
    cwnd: np.ndarray[Any, np.dtype[np.int64]]
    """The congestion window in segments."""
    ssthresh: np.ndarray[Any, np.dtype[np.float64]]
    """The slow-start threshold in segments."""
    rtt_s: np.ndarray[Any, np.dtype[np.float64]]
    """The smoothed round-trip time."""
    min_rtt_s: np.ndarray[Any, np.dtype[np.float64]]
    retransmissions: np.ndarray[Any, np.dtype[np.int64]]
    """The segments of the stream sent again, since it began."""
    delivery_rate_bps: np.ndarray[Any, np.dtype[np.float64]]
    pacing_rate_bps: np.ndarray[Any, np.dtype[np.float64]]
    notsent_bytes: np.ndarray[Any, np.dtype[np.int64]]
    limited: np.ndarray[Any, np.dtype[np.str_]]

    def of(self, stream: int) -> "Trace":
        """The samples of one stream."""
        chosen = self.stream == stream
        return Trace(*(column[chosen] for column in self))


def trace(columns: Columns) -> Trace:
    """The columns of samples as arrays."""
    return Trace(**{name: _array(name, columns[name]) for name in Trace._fields})


def _array(name: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    if name == "limited":
        return np.array([value or "" for value in values], np.str_)
    return np.array(values, np.float64 if name in _FLOATS else np.int64)
