"""Growth that depends on the window alone, so that it counts in round trips: Reno, Scalable, HighSpeed.

With a(W) segments gained a round trip, the two integrals of such a growth are rounds U = ∫ dW/a and
segments acknowledged V = ∫ W dW/a. While the path is not full a round trip lasts τ, so time is τ U
(region CA1 of Rao et al. 2015); once it is full, ACKs come at the rate C and a round trip lasts W/C, so
time is V/C (region CA2). Both integrals are tabulated once for each law.

Sources: RFC 5681 §3.1; T. Kelly, ACM CCR 33(2), 2003; RFC 3649 §5; RFC 9438 §4.3 (the Reno-friendly law).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Numbers = FloatArray | float

LEAST_SEGMENTS = 1.0
MOST_SEGMENTS = 1e9
_STEPS = 8192
"""The table's windows are 0.25 % apart; between them the integrals are linear, exact to 10⁻⁵."""


class ByRound:
    """One law a(W), tabulated from 1 to 10⁹ segments."""

    def __init__(self, increase: Callable[[FloatArray], FloatArray]) -> None:
        self._window = np.geomspace(LEAST_SEGMENTS, MOST_SEGMENTS, _STEPS)
        step = np.diff(self._window)
        middle = (self._window[1:] + self._window[:-1]) / 2
        gained = increase(middle)
        self._rounds = np.concatenate([[0.0], np.cumsum(step / gained)])
        self._acked = np.concatenate([[0.0], np.cumsum(step * middle / gained)])

    def rounds(self, low: Numbers, high: Numbers) -> FloatArray:
        """Round trips of growth from ``low`` to ``high`` segments."""
        return self._at(high, self._rounds) - self._at(low, self._rounds)

    def acked(self, low: Numbers, high: Numbers) -> FloatArray:
        """Segments acknowledged while it grows from ``low`` to ``high`` segments."""
        return self._at(high, self._acked) - self._at(low, self._acked)

    def after_acked(self, start: Numbers, acked: Numbers) -> FloatArray:
        """Window when so many segments were acknowledged since it was ``start``."""
        return np.interp(self._at(start, self._acked) + acked, self._acked, self._window)

    def window(self, t_s: Numbers, start: Numbers, rtt_s: Numbers, bdp: Numbers) -> FloatArray:
        """Window ``t_s`` seconds after it was ``start``, ``bdp`` segments fill the path; all broadcast."""
        clear_s = np.maximum(self.rounds(start, bdp), 0.0) * rtt_s
        clear = np.interp(self._at(start, self._rounds) + np.divide(t_s, rtt_s), self._rounds, self._window)
        queueing_s = np.maximum(np.subtract(t_s, clear_s), 0.0)
        queueing = self.after_acked(np.maximum(start, bdp), queueing_s * np.divide(bdp, rtt_s))
        return np.where(t_s <= clear_s, clear, queueing)

    def _at(self, window: Numbers, table: FloatArray) -> FloatArray:
        return np.asarray(np.interp(window, self._window, table), float)


def additive(segments: float) -> ByRound:
    """So many segments a round trip, as Reno with 1."""
    return ByRound(lambda window: np.full_like(window, segments))


def proportional(per: float) -> ByRound:
    """One segment for each ``per`` acknowledged, below that Reno's one a round trip: Scalable with 100."""
    return ByRound(lambda window: np.maximum(window / per, 1.0))
