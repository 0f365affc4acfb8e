"""The papers' own accounts of a run: phases up to the first overflow, and ramp-up and sustainment.

Slow start and the two regions of congestion avoidance between two losses (Rao et al. 2015, §III).

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

Ramp-up and sustainment (Rao et al. 2017, §3): Θ_O(τ) = θ̄_S − f_R (θ̄_S − θ̄_R), with f_R = T_R / T_O.

n streams begin with w₀ segments each and double them each round trip until they fill the peak
C_τ = min(C, n B / τ), in segments a second. That takes T_R = τ log₂(C_τ τ / (n w₀)), in which
C_τ τ − n w₀ segments are sent; then the rate stays θ̄_S, the peak or what losses leave of it.

What is printed there and does not hold, as the tests show by the definition of concavity:

- §3.4 has T_R = τ log C and 2C sent in it: that is for C in segments a round trip. With C a second the
  logarithm grows with τ, so Θ_O'' = −C / (T_O τ ln 2) < 0: a sustained exponential ramp makes a strictly
  concave profile, and a straight line only where the number of doublings is held fixed.
- §3.4: n streams do not make T_R = τ^(1+ε) log C: they take log₂ n doublings away, which shifts Θ_O up by
  C τ log₂(n) / T_O and leaves its curvature as it is.
- §3.4: for a ramp slower than exponential T_R = τ^(−ε) log C is printed. Then Θ_O would rise with τ and be
  concave. The printed derivative, and its convexity, are those of T_R = τ^(1−ε) log C.
- §3.4 writes Θ_S^B1 ≤ Θ_S^B2 of the sustained rates as if it ordered the transition RTTs; it orders the
  profiles. Where n B / τ < C the profile is that of n B / τ, which is convex.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah.profiles.theory import flow
from howdah.profiles.theory.controls import ControlModel, ControlState, FloatArray, FlowPath, Numbers
from howdah.profiles.theory.flow import START_SEGMENTS, FlowLimits, WindowGrowth

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
    control: ControlModel,
    path: FlowPath,
    threshold: Numbers,
    overflow: Numbers,
    start: float = flow.START_SEGMENTS,
) -> Phases:
    """The phases with slow start up to ``threshold`` (W_SS) and a loss at ``overflow`` segments in flight.

    All arrays have the one dimension of the path's. ``overflow`` must be above both C τ and ``threshold``.
    """
    shape = path.bdp.shape
    threshold, overflow = (np.broadcast_to(np.asarray(each, float), shape) for each in (threshold, overflow))
    first = Phase(flow.duration_s(path, start, threshold), threshold - start)
    full = _grow(control, path, threshold, np.maximum(path.bdp, threshold))
    full = Phase(*(np.where(path.bdp > threshold, each, 0.0) for each in full))
    whole = _grow(control, path, threshold, overflow)
    return Phases(first, full, Phase(whole.duration_s - full.duration_s, whole.sent - full.sent))


def additive_ca1(path: FlowPath, threshold: Numbers, segments: float = 1.0) -> Phase:
    """CA1 in closed form (§III-C) where ``segments`` are gained a round trip; nothing where W_SS ≥ C τ."""
    low = np.minimum(threshold, path.bdp)
    duration_s = path.rtt_s * (path.bdp - low) / segments
    return Phase(duration_s, duration_s * (path.bdp + low) / (2 * path.rtt_s))


def proportional_ca1(path: FlowPath, threshold: Numbers, per: float) -> Phase:
    """The same where one segment is gained for each ``per`` acknowledged, as Scalable does."""
    low = np.minimum(threshold, path.bdp)
    return Phase(path.rtt_s * per * np.log(path.bdp / low), per * (path.bdp - low))


def _grow(control: ControlModel, path: FlowPath, start: FloatArray, end: FloatArray) -> Phase:
    shape = path.bdp.shape
    limits = FlowLimits(end, np.full(shape, np.inf), np.zeros(shape))
    growth = WindowGrowth(control, path, limits, start, ControlState.fresh(shape))
    grown = growth.until_loss(np.full(shape, np.inf), np.full(shape, _LONG_S))
    return Phase(grown.elapsed_s, grown.sent)


class Ramp(NamedTuple):
    """Both phases of a run of length T_O; rates are segments per second."""

    duration_s: FloatArray
    """T_R."""
    share: FloatArray
    """f_R = T_R / T_O."""
    rising_per_s: FloatArray
    """θ̄_R, the mean of the ramp."""
    sustained_per_s: FloatArray
    """θ̄_S."""

    @property
    def observed_per_s(self) -> FloatArray:
        """Θ_O."""
        return self.sustained_per_s - self.share * (self.sustained_per_s - self.rising_per_s)


def peak_per_s(
    rtt_s: Numbers, capacity_per_s: float, streams: int = 1, buffer_segments: float = np.inf
) -> FloatArray:
    """C_τ^{B,n} = min(C, n B / τ), segments per second."""
    return np.minimum(capacity_per_s, streams * buffer_segments / np.asarray(rtt_s, float))


def ramp(
    rtt_s: Numbers,
    peak: Numbers,
    observed_s: float,
    *,
    streams: int = 1,
    start: float = START_SEGMENTS,
    sustained_share: Numbers = 1.0,
) -> Ramp:
    """The phases for a ``peak`` (segments per second); ``sustained_share`` is θ̄_S over it.

    The arrays broadcast. A ramp that does not end within ``observed_s`` is observed as far as it came.
    """
    rtt = np.asarray(rtt_s, float)
    first = streams * start
    doublings = np.minimum(np.log2(np.maximum(np.asarray(peak) * rtt / first, 1.0)), observed_s / rtt)
    duration = rtt * doublings
    sent = first * np.expm1(doublings * np.log(2))
    rising = np.divide(sent, duration, out=np.zeros_like(duration), where=duration > 0)
    return Ramp(duration, duration / observed_s, rising, np.asarray(peak) * sustained_share)


def slope_per_s2(
    rtt_s: Numbers,
    capacity_per_s: float,
    observed_s: float,
    *,
    streams: int = 1,
    start: float = START_SEGMENTS,
) -> FloatArray:
    """dΘ_O/dτ where the peak is C and is sustained: −C (log₂(C τ / (n w₀)) + 1/ln 2 − 1) / T_O."""
    doublings: FloatArray = np.log2(capacity_per_s * np.asarray(rtt_s, float) / (streams * start))
    return np.asarray(-capacity_per_s / observed_s * (doublings + 1 / np.log(2) - 1))


def stretched_per_s(
    rtt_s: Numbers, exponent: float, doublings: float, capacity_per_s: float, observed_s: float
) -> FloatArray:
    """Θ_O for T_R = τ^exponent × doublings (τ in seconds), what is sent in the ramp left out.

    The paper's family with exponent 1 + ε: concave for exponent > 1, a line at 1, convex between 0 and 1.
    """
    return capacity_per_s * (1 - np.asarray(rtt_s, float) ** exponent * doublings / observed_s)
