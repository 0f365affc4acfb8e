"""The traces of a cell's runs, in bins that leave enough of them."""

import math
from collections.abc import Iterable

import numpy as np

from howdah import HowdahError
from howdah.archive.traces import Trace
from howdah.profiles.dynamics import poincare
from howdah.profiles.dynamics.traces import Traces, from_samples

_BINS = 60
"""Of a whole run: what is left after the ramp-up has to be 30 at least for exponents."""
_BIN_LEAST_S = 0.1
_BIN_MOST_S = 1.0


def bin_s(elapsed_s: float, rtt_s: float) -> float:
    """A sixtieth of a run in whole tenths of a second, from 0.1 s to the papers' 1 s, and at least the RTT.

    In less than a round trip a rate shows how a window is spread over it, not how it grows.
    """
    of_run = min(max(round(elapsed_s / _BINS, 1), _BIN_LEAST_S), _BIN_MOST_S)
    return max(of_run, math.ceil(10 * rtt_s - 1e-9) / 10)


def binned(traces: Iterable[Trace], width_s: float) -> list[Traces]:
    """The traces that fill a bin at least; what is shorter or broken is not in it."""
    found = []
    for each in traces:
        try:
            found.append(from_samples(each.t_s, each.stream, each.bytes_acked, width_s))
        except HowdahError:
            continue
    return found


def ramp_s(traces: Traces) -> float:
    """Time until the aggregate reaches 90 % of what it then sustains (``poincare.sustained``)."""
    whole = traces.aggregate_bps
    return traces.bin_s * (whole.size - poincare.sustained(whole).size)


def sustained_bps(traces: Traces) -> float:
    """Mean of the aggregate after its ramp-up."""
    return float(np.mean(poincare.sustained(traces.aggregate_bps)))
