"""H-TCP between two losses: the longer since the last one, the faster it grows.

Source: R. N. Shorten, D. J. Leith, PFLDnet 2004; Linux ``net/ipv4/tcp_htcp.c``. In the time Δ since the
loss was repaired it gains α = 2 (1 − β) max(1, s f(Δ)) segments a round trip, with f = 1 in the first second
and 1 + 10 (Δ − 1) + ((Δ − 1)/2)² later, and s = RTT / 100 ms kept to 0.1 … 2 (RTT scaling). The back-off β
is least RTT / largest RTT kept to 0.5 … 0.8; 0.5 where the throughput differs by a fifth from that of the
loss before, and at an RTT up to 10 ms.

Deviations of Linux: α is not a whole number, the largest RTT is that of the window lost, and the limit of
one segment for two ACKs is left out, which binds only where few ACKs stand for many segments.
"""

import numpy as np

from howdah.profiles.theory.growth import ControlState, FloatArray, FlowPath, Numbers

REFERENCE_RTT_S = 0.1
SCALING = (0.1, 2.0)
BACKOFFS = (0.5, 0.8)
ADAPTED_FROM_S = 0.01
EVEN_SHARE = 0.2
SLOW_S = 1.0


class Htcp:
    """H-TCP with RTT scaling and adaptive back-off."""

    def window(self, path: FlowPath, start: FloatArray, memory: ControlState, t_s: FloatArray) -> FloatArray:
        """The window grows by round trips, so slower once the queue makes them longer: then W² grows by 2 C τ
        α."""
        gained = 2 * (1 - memory.backoff) * growth_s(t_s, path.rtt_s) / path.rtt_s
        clear = np.maximum(path.bdp - start, 0.0)
        full = np.maximum(start, path.bdp)
        queueing = np.sqrt(full**2 + 2 * path.bdp * np.maximum(gained - clear, 0.0))
        return np.where(gained <= clear, start + gained, queueing)

    def cut(
        self, path: FlowPath, before: FloatArray, memory: ControlState
    ) -> tuple[FloatArray, ControlState]:
        """The adapted back-off, which empties the queue but not the path."""
        rate = path.delivered_per_s(before)
        steady = np.abs(rate - memory.rate_per_s) <= EVEN_SHARE * memory.rate_per_s
        adapted = np.clip(path.rtt_s / path.round_s(before), *BACKOFFS)
        adapts = steady & memory.steady & (path.rtt_s > ADAPTED_FROM_S)
        backoff = np.where(adapts, adapted, BACKOFFS[0])
        return backoff * before, memory._replace(backoff=backoff, rate_per_s=rate, steady=steady)


def growth_s(t_s: Numbers, rtt_s: Numbers) -> FloatArray:
    """∫ max(1, s f(Δ)) dΔ from 0 to ``t_s``, in seconds."""
    scale = np.clip(np.divide(rtt_s, REFERENCE_RTT_S), *SCALING)
    late = np.maximum(np.subtract(t_s, SLOW_S), 0.0)
    # s f reaches 1 where x²/4 + 10 x = 1/s − 1.
    wait = np.where(scale < 1, 20 * (np.sqrt(1 + np.maximum(1 / scale - 1, 0.0) / 100) - 1), 0.0)
    fast = _antiderivative(np.maximum(late, wait)) - _antiderivative(wait)
    slow: FloatArray = np.minimum(t_s, SLOW_S) * np.maximum(scale, 1.0)
    return slow + np.minimum(late, wait) + scale * fast


def _antiderivative(late_s: FloatArray) -> FloatArray:
    """∫ f of the seconds beyond the first."""
    return late_s + 5 * late_s**2 + late_s**3 / 12
