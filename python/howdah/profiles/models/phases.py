"""Slow start and the two regions of congestion avoidance between two losses (Rao et al. 2015, §III).

- Slow start doubles the window each round trip up to W_SS, or until the path is full (C τ).
- CA1, only where W_SS < C τ: the window grows by the variant's law from W_SS to C τ.
- CA2: the path is full; the rate stays C while the window grows into the queue, until that overflows.

W_SS ≥ C τ is the paper's concave regime, W_SS < C τ its convex one.

What is printed there and does not hold, as the tests show by the definitions:

- III-B: with C in segments a second, T_C is τ log₂(C τ / w₀), and what is sent in it is C τ − w₀, not
  2C; the printed forms hold for C in segments a round trip, which changes with τ.
- III-B: T falls with τ when C^T_CA W_SS² > 1; printed are the opposite inequality and C^T_CA > 2/W_SS².
- III-B: (τ log C − 2)/(τ log W_SS + T_CA) is concave in τ, not convex, because its numerator grows too.
  So the printed T, with T_CA given, is convex. It is concave when the time of observation is given
  instead (``ramp``).
- III-C: N_CA1 lacks a factor T_CA1 in its first term. It is T_CA1 (C τ + W_SS) / (2 τ), for Reno
  (C² τ² − W_SS²)/2, from which the printed mean C/2 + W_SS/(2τ) follows.
- III-C: Θ_CA1(τ + δ) − Θ_CA1(τ) is −W_SS δ / (2 τ (τ + δ)), without C; and in the quotient of f_CA1 the
  denominator is α + δα + β + δβ. The result for f_CA1(τ + δ) − f_CA1(τ) is right.
- III-C: that T_CA falls with τ and that slow start's mean does is not enough for T to fall: just above
  C τ = W_SS a CA1 near the full rate joins a short slow start, and with Scalable or CUBIC T rises there.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah.profiles.models import slow_start
from howdah.profiles.models.by_round import FloatArray, Numbers
from howdah.profiles.models.epoch import Growth, Limits
from howdah.profiles.models.lane import Control, Lane, Memory

_LONG_S = 1e7


class Phase(NamedTuple):
    """One of the three."""

    duration_s: FloatArray
    sent: FloatArray
    """Segments."""


class Phases(NamedTuple):
    """From the first segment to the first overflow."""

    slow_start: Phase
    ca1: Phase
    ca2: Phase

    @property
    def mean_per_s(self) -> FloatArray:
        """T(τ): segments per second over all three."""
        segments = self.slow_start.sent + self.ca1.sent + self.ca2.sent
        return segments / (self.slow_start.duration_s + self.ca1.duration_s + self.ca2.duration_s)

    @property
    def convex(self) -> npt.NDArray[np.bool_]:
        """Whether the path is in the convex regime: CA1 is there."""
        return self.ca1.duration_s > 0


def until_overflow(
    control: Control,
    lane: Lane,
    threshold: Numbers,
    overflow: Numbers,
    start: float = slow_start.START_SEGMENTS,
) -> Phases:
    """The phases with slow start up to ``threshold`` (W_SS) and a loss at ``overflow`` segments in flight.

    All arrays have the one dimension of the lane's. ``overflow`` must be above both C τ and ``threshold``.
    """
    shape = lane.bdp.shape
    threshold, overflow = (np.broadcast_to(np.asarray(each, float), shape) for each in (threshold, overflow))
    first = Phase(slow_start.duration_s(lane, start, threshold), threshold - start)
    full = _grow(control, lane, threshold, np.maximum(lane.bdp, threshold))
    full = Phase(*(np.where(lane.bdp > threshold, each, 0.0) for each in full))
    whole = _grow(control, lane, threshold, overflow)
    return Phases(first, full, Phase(whole.duration_s - full.duration_s, whole.sent - full.sent))


def additive_ca1(lane: Lane, threshold: Numbers, segments: float = 1.0) -> Phase:
    """CA1 in closed form (§III-C) where ``segments`` are gained a round trip; nothing where W_SS ≥ C τ."""
    low = np.minimum(threshold, lane.bdp)
    duration_s = lane.rtt_s * (lane.bdp - low) / segments
    return Phase(duration_s, duration_s * (lane.bdp + low) / (2 * lane.rtt_s))


def proportional_ca1(lane: Lane, threshold: Numbers, per: float) -> Phase:
    """The same where one segment is gained for each ``per`` acknowledged, as Scalable does."""
    low = np.minimum(threshold, lane.bdp)
    return Phase(lane.rtt_s * per * np.log(lane.bdp / low), per * (lane.bdp - low))


def _grow(control: Control, lane: Lane, start: FloatArray, end: FloatArray) -> Phase:
    shape = lane.bdp.shape
    limits = Limits(end, np.full(shape, np.inf), np.zeros(shape))
    growth = Growth(control, lane, limits, start, Memory.fresh(shape))
    grown = growth.until_loss(np.full(shape, np.inf), np.full(shape, _LONG_S))
    return Phase(grown.elapsed_s, grown.sent)
