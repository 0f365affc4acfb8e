"""CUBIC between two losses: W(t) = C (t − K)³ + W_max, and never slower than Reno would be.

Source: RFC 9438 §4; S. Ha, I. Rhee, L. Xu, ACM SIGOPS OSR 42(5), 2008; Linux ``net/ipv4/tcp_cubic.c``.

Deviations:
- Of the RFC, as Linux: the Reno-friendly window goes on growing by 3 (1 − β)/(1 + β) segments a round trip
  above W_max too, where §4.3 would have 1.
- Of Linux: a window grows by more than half in no round trip there. Nothing here comes near that.
"""

import numpy as np

from howdah.profiles.theory.growth import ControlState, FloatArray, FlowPath, additive, proportional

SCALE = 0.4
"""The scale C, segments/s³."""
BETA = 0.7
"""The share that a loss leaves: β."""
FRIENDLY_SEGMENTS = 3 * (1 - BETA) / (1 + BETA)
"""Reno would grow by α segments a round trip if its cut left β (RFC 9438 §4.3)."""
STALE_S = 1 / 32
"""Linux compares a window that does not grow with Reno's no more often than this."""
BLIND_PER = 20.0
"""Linux gains at least one segment for so many acknowledged before the first loss."""

_FRIENDLY = additive(FRIENDLY_SEGMENTS)
_BLIND = proportional(BLIND_PER)


class Cubic:
    """CUBIC with fast convergence (§4.7), which Linux has by default."""

    def window(self, path: FlowPath, start: FloatArray, memory: ControlState, t_s: FloatArray) -> FloatArray:
        """The largest of the cubic, Reno's window, and the least growth before the first loss."""
        plateau = np.maximum(memory.plateau, start)
        curve = plateau + SCALE * (t_s - plateau_after_s(plateau - start)) ** 3
        noticed_s = np.maximum(t_s - STALE_S / 2 - path.rtt_s, 0.0)
        friendly = _FRIENDLY.window(noticed_s, start, path.rtt_s, path.bdp)
        grown = np.maximum(np.maximum(curve, friendly), start)
        if np.any(memory.plateau == 0):
            blind = _BLIND.window(t_s, start, path.rtt_s, path.bdp)
            grown = np.where(memory.plateau == 0, np.maximum(grown, blind), grown)
        return grown

    def cut(
        self, path: FlowPath, before: FloatArray, memory: ControlState
    ) -> tuple[FloatArray, ControlState]:
        """Cuts the window to β; the plateau lies lower where the last loss came at a larger window."""
        del path
        lower = before * (1 + BETA) / 2
        return BETA * before, memory._replace(plateau=np.where(before < memory.plateau, lower, before))


def plateau_after_s(segments: FloatArray) -> FloatArray:
    """The time K of §4.2 that the curve takes for its last ``segments`` up to the plateau."""
    return np.cbrt(segments / SCALE)
