"""Senders that do not yield, as bursts of UDP, by what they do to round trips and to probes.

Whoever yields to loss, or to a longer round trip, has yielded a few round trips after the queue is full. So
an overload that lasts (the queue is full, and probes are lost all the while) is of somebody who does not. BBR
overloads a short queue for long, but leaves it for 200 ms at most; a burst that is over leaves a path that
those who yielded fill again slowly. So it takes two overloads with an empty queue in between.
"""

from itertools import pairwise

import numpy as np

from howdah.probing.series import Floats

LASTS_S, LASTS_ROUND_TRIPS = 0.3, 4
LOST = 0.05
"""Of the probes of an overload, at least."""
EMPTY_S = 0.5
FULL, EMPTY = 0.8, 0.2
"""Of the longest queue seen."""
_LEAST_QUEUE = 0.1
"""In base RTTs; with less nothing is overloaded."""


def overloads(times_s: Floats, rtt_s: Floats, base_rtt_s: float) -> int:
    """How many overloads end in an empty queue, or come after one; ``rtt_s`` has NaN for a lost probe.

    Two are sure to be of senders that do not yield.
    """
    answered = np.isfinite(rtt_s)
    if answered.sum() < 2:
        return 0
    # A lost probe met a full queue: the queue around it is that of its neighbours.
    queue = np.interp(times_s, times_s[answered], rtt_s[answered]) / base_rtt_s - 1
    most = float(np.quantile(queue, 0.99))
    if most < _LEAST_QUEUE:
        return 0
    lasts_s = max(LASTS_S, LASTS_ROUND_TRIPS * base_rtt_s)
    found, emptied = 0, True
    for begin, end, full in _spans(np.where(queue >= FULL * most, 1, np.where(queue <= EMPTY * most, -1, 0))):
        length_s = float(times_s[end - 1] - times_s[begin])
        if full < 0:
            emptied = emptied or length_s >= EMPTY_S
        elif length_s >= lasts_s and np.mean(~answered[begin:end]) >= LOST and emptied:
            found, emptied = found + 1, False
    return found


def _spans(states: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[tuple[int, int, int]]:
    """Runs of one state other than 0, as (begin, end, state)."""
    edges = [0, *(np.flatnonzero(np.diff(states)) + 1).tolist(), len(states)]
    return [(begin, end, int(states[begin])) for begin, end in pairwise(edges) if states[begin] != 0]
