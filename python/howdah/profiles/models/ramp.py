"""Ramp-up and sustainment (Rao et al. 2017, §3): Θ_O(τ) = θ̄_S − f_R (θ̄_S − θ̄_R), with f_R = T_R / T_O.

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

from howdah.profiles.models.by_round import FloatArray, Numbers
from howdah.profiles.models.slow_start import START_SEGMENTS


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
