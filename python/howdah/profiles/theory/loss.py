"""Throughput of one stream under random loss: the published response functions, in closed form.

They give the mean window in segments at a share ``loss`` of segments lost, one each 1/loss segments, and know
no capacity. H-TCP has none: its growth in time and its back-off depend on each other. ``flow`` runs the same
laws from loss to loss, with losses at random, a capacity, a queue, and the time that a repair takes.

Sources: M. Mathis et al., CCR 27(3), 1997; J. Padhye et al., ToN 8(2), 2000, eq. 30; RFC 9438 §5.1; T. Kelly,
CCR 33(2), 2003; RFC 3649 §5.
"""

import numpy as np

from howdah.profiles.theory.controls import BETA, FRIENDLY_SEGMENTS, SCALABLE_BETA, SCALABLE_PER, SCALE
from howdah.profiles.theory.growth import FloatArray, Numbers


def mathis(loss: Numbers) -> FloatArray:
    """The mean window of Reno: √(3 / (2 p))."""
    return np.asarray(np.sqrt(1.5 / np.asarray(loss, float)))


def padhye(loss: Numbers, rtt_s: Numbers, timeout_s: Numbers, *, ack_segments: float = 1.0) -> FloatArray:
    """The mean window of Reno with timeouts: rate × RTT. ``ack_segments`` is b: 2 where delayed ACKs slow
    growth."""
    p, b = np.asarray(loss, float), ack_segments
    rounds: FloatArray = np.sqrt(2 * b * p / 3)
    waiting = np.minimum(1.0, 3 * np.sqrt(3 * b * p / 8)) * p * (1 + 32 * p**2)
    return np.asarray(rtt_s / (rtt_s * rounds + timeout_s * waiting))


def cubic(loss: Numbers, rtt_s: Numbers) -> FloatArray:
    """The mean window of CUBIC: the larger of eq. 6 of RFC 9438 and of what its Reno-friendly region keeps
    to."""
    p = np.asarray(loss, float)
    curve: FloatArray = (SCALE * (3 + BETA) / (4 * (1 - BETA)) * (rtt_s / p) ** 3) ** 0.25
    friendly = np.sqrt(FRIENDLY_SEGMENTS * (1 + BETA) / (2 * (1 - BETA) * p))
    return np.maximum(curve, friendly)


def scalable(loss: Numbers) -> FloatArray:
    """The mean window of Scalable, by one segment a hundred and an eighth lost: 1 / (100 ln(8/7) p)."""
    rounds_per_loss = -SCALABLE_PER * np.log(SCALABLE_BETA)
    return np.asarray(1 / (rounds_per_loss * np.asarray(loss, float)))


def highspeed(loss: Numbers) -> FloatArray:
    """The mean window of HighSpeed: 0.12 / p^0.835; Reno's above 0.1 % of loss, where its window is below 38
    segments."""
    p = np.asarray(loss, float)
    return np.maximum(0.12 / p**0.835, mathis(p))
