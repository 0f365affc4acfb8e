"""CUBIC between two losses: W(t) = C (t − K)³ + W_max, and never slower than Reno would be.

Source: RFC 9438 §4; S. Ha, I. Rhee, L. Xu, ACM SIGOPS OSR 42(5), 2008; Linux ``net/ipv4/tcp_cubic.c``.

Deviations:
- Of the RFC, as Linux: the Reno-friendly window goes on growing by 3 (1 − β)/(1 + β) segments a round trip
  above W_max too, where §4.3 would have 1.
- Of Linux: a window grows by more than half in no round trip there. Nothing here comes near that.
"""

import numpy as np

from howdah.profiles.models.by_round import FloatArray, additive, proportional
from howdah.profiles.models.lane import Lane, Memory

SCALE = 0.4
"""C, segments/s³."""
KEPT = 0.7
"""β, the share that a loss leaves."""
FRIENDLY_SEGMENTS = 3 * (1 - KEPT) / (1 + KEPT)
"""α: by so many segments a round trip Reno would grow if its cut left β (RFC 9438 §4.3)."""
STALE_S = 1 / 32
"""As long as its window does not grow, Linux compares it with Reno's no more often."""
BLIND_PER = 20.0
"""Before the first loss it gains at least one segment for so many acknowledged (Linux)."""

_FRIENDLY = additive(FRIENDLY_SEGMENTS)
_BLIND = proportional(BLIND_PER)


class Cubic:
    """See the module; fast convergence (§4.7) as Linux has it by default."""

    def window(self, lane: Lane, start: FloatArray, memory: Memory, t_s: FloatArray) -> FloatArray:
        """The largest of the cubic, Reno's window, and the least growth before the first loss."""
        flat = np.maximum(memory.flat, start)
        curve = flat + SCALE * (t_s - back_s(flat - start)) ** 3
        noticed_s = np.maximum(t_s - STALE_S / 2 - lane.rtt_s, 0.0)
        friendly = _FRIENDLY.window(noticed_s, start, lane.rtt_s, lane.bdp)
        grown = np.maximum(np.maximum(curve, friendly), start)
        if np.any(memory.flat == 0):
            blind = _BLIND.window(t_s, start, lane.rtt_s, lane.bdp)
            grown = np.where(memory.flat == 0, np.maximum(grown, blind), grown)
        return grown

    def cut(self, lane: Lane, before: FloatArray, memory: Memory) -> tuple[FloatArray, Memory]:
        """β of the window; the flat part lies lower where the last loss came at a larger window."""
        del lane
        lower = before * (1 + KEPT) / 2
        return KEPT * before, memory._replace(flat=np.where(before < memory.flat, lower, before))


def back_s(segments: FloatArray) -> FloatArray:
    """K of §4.2: how long the curve takes for its last ``segments`` up to the flat part."""
    return np.cbrt(segments / SCALE)
