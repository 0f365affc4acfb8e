"""Slow start: the window doubles each round trip, and once the path is full grows at its rate.

Sources: RFC 5681 §3.1, with Linux's counting of what is acknowledged, so that delayed ACKs change nothing;
S. Ha, I. Rhee, Computer Networks 55(9), 2011 (HyStart), as Linux has it in ``tcp_cubic.c``.

A window that began with w₀ and is W now has sent W − w₀ segments in full rounds: w₀ (1 + 2 + 4 + …).
"""

import numpy as np

from howdah.profiles.theory.growth import FloatArray, FlowPath, Numbers

START_SEGMENTS = 10.0
"""The initial window of RFC 6928."""

_TRAIN_CUSHION_S = 0.001
_RISE_SHARE = 1 / 8
_RISE_S = (0.004, 0.016)


def duration_s(path: FlowPath, start: Numbers, end: Numbers) -> FloatArray:
    """The time from window ``start`` to ``end``, segments: τ log₂ up to the BDP, then one segment each
    1/C."""
    clear = np.maximum(np.minimum(end, path.bdp), start)
    beyond = np.maximum(np.subtract(end, np.maximum(path.bdp, start)), 0.0)
    return path.rtt_s * np.log2(clear / start) + beyond / path.rate_per_s


def window(path: FlowPath, start: Numbers, t_s: Numbers) -> FloatArray:
    """The window after ``t_s`` seconds, in segments."""
    clear_s = duration_s(path, start, np.maximum(path.bdp, start))
    doubled = start * np.exp2(np.minimum(t_s, clear_s) / path.rtt_s)
    return doubled + np.maximum(np.subtract(t_s, clear_s), 0.0) * path.rate_per_s


def overflow(path: FlowPath, start: float, limit: Numbers) -> FloatArray:
    """The window at which a queue overflows that overflows at ``limit`` when it stays full.

    Each ACK lets two segments go at once, so a round that began with w leaves up to w of them in the queue,
    though the path is not full yet: the first round with more than the queue holds overflows it.
    """
    queue = np.maximum(limit - path.bdp, 0.0)
    rounds = np.ceil(np.maximum(np.log2(np.maximum(queue / start, 1.0)), 0.0))
    return np.minimum(start * np.exp2(rounds) + queue, limit)


def hystart_exit(path: FlowPath, start: float) -> FloatArray:
    """The window at which HyStart ends slow start: by the train of ACKs, or the RTT, whichever is sooner.

    A round that begins with at least half of a full path gives a train of ACKs half a round trip long; in
    that time the window gains as much again. The RTT counts when a whole round had it an eighth longer.
    """
    train = path.rate_per_s * (path.rtt_s + _TRAIN_CUSHION_S) / 2
    rounds = np.ceil(np.maximum(np.log2(train / start), 0.0))
    by_train = start * np.exp2(rounds) + train
    rise_s = np.clip(_RISE_SHARE * path.rtt_s, *_RISE_S)
    return np.minimum(by_train, path.bdp + path.rate_per_s * rise_s)
