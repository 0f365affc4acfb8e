"""The state that growth and cuts of a congestion control depend on, for many flows, and growth by the window.

The arrays broadcast together. A growth that depends on the window alone counts in round trips. With a(W)
segments gained a round trip, its two integrals are rounds U = ∫ dW/a and segments acknowledged
V = ∫ W dW/a. While the path is not full a round trip lasts τ, so time is τ U (region CA1 of Rao et al.
2015). Once it is full, ACKs come at the rate C and a round trip lasts W/C, so time is V/C (region CA2).
Both integrals are tabulated once for each law.

Sources: RFC 5681 §3.1; T. Kelly, ACM CCR 33(2), 2003; RFC 3649 §5; RFC 9438 §4.3 (the Reno-friendly law).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Numbers = FloatArray | float


class FlowPath(NamedTuple):
    """The path as one flow has it."""

    rtt_s: FloatArray
    """The base RTT."""
    bdp: FloatArray
    """The segments that fill the path, C τ; more than these wait in its queue."""

    @property
    def rate_per_s(self) -> FloatArray:
        """The capacity in segments per second."""
        return self.bdp / self.rtt_s

    def round_s(self, window: Numbers) -> FloatArray:
        """A round trip with this window: longer than the base RTT by the time in the queue."""
        return self.rtt_s * np.maximum(1.0, window / self.bdp)

    def delivered_per_s(self, window: Numbers) -> FloatArray:
        """The segments delivered per second with this window."""
        return np.minimum(window, self.bdp) / self.rtt_s


class ControlState(NamedTuple):
    """The state that an algorithm keeps from one loss to the next; each uses its part of it."""

    plateau: FloatArray
    """The window where CUBIC's curve is flat, in segments; 0 before the first loss."""
    backoff: FloatArray
    """The share of the window that the last cut left, by which H-TCP grows."""
    rate_per_s: FloatArray
    """The throughput at the last loss, for H-TCP; 0 before the first."""
    steady: npt.NDArray[np.bool_]
    """True where that throughput was about that of the loss before, for H-TCP."""

    @classmethod
    def fresh(cls, shape: tuple[int, ...]) -> "ControlState":
        """The state of flows that lost nothing yet."""
        return cls(np.zeros(shape), np.full(shape, 0.5), np.zeros(shape), np.zeros(shape, bool))


class ControlModel(Protocol):
    """A congestion control after slow start."""

    def window(self, path: FlowPath, start: FloatArray, memory: ControlState, t_s: FloatArray) -> FloatArray:
        """The window ``t_s`` seconds after losses were repaired and it was ``start``, in segments."""
        ...

    def cut(
        self, path: FlowPath, before: FloatArray, memory: ControlState
    ) -> tuple[FloatArray, ControlState]:
        """The part of the window ``before`` that a loss leaves, and the state after it."""
        ...


LEAST_SEGMENTS = 1.0
MOST_SEGMENTS = 1e9
_STEPS = 8192
"""The table's windows are 0.25 % apart; between them the integrals are linear, exact to 10⁻⁵."""


class RoundGrowth:
    """One law a(W), tabulated from 1 to 10⁹ segments."""

    def __init__(self, increase: Callable[[FloatArray], FloatArray]) -> None:
        self._window = np.geomspace(LEAST_SEGMENTS, MOST_SEGMENTS, _STEPS)
        step = np.diff(self._window)
        middle = (self._window[1:] + self._window[:-1]) / 2
        gained = increase(middle)
        self._rounds = np.concatenate([[0.0], np.cumsum(step / gained)])
        self._acked = np.concatenate([[0.0], np.cumsum(step * middle / gained)])

    def rounds(self, low: Numbers, high: Numbers) -> FloatArray:
        """The round trips of growth from ``low`` to ``high`` segments."""
        return self._at(high, self._rounds) - self._at(low, self._rounds)

    def acked(self, low: Numbers, high: Numbers) -> FloatArray:
        """The segments acknowledged while it grows from ``low`` to ``high`` segments."""
        return self._at(high, self._acked) - self._at(low, self._acked)

    def after_acked(self, start: Numbers, acked: Numbers) -> FloatArray:
        """The window when so many segments were acknowledged since it was ``start``."""
        return np.interp(self._at(start, self._acked) + acked, self._acked, self._window)

    def window(self, t_s: Numbers, start: Numbers, rtt_s: Numbers, bdp: Numbers) -> FloatArray:
        """The window ``t_s`` seconds after it was ``start``, where ``bdp`` segments fill the path; all
        broadcast."""
        clear_s = np.maximum(self.rounds(start, bdp), 0.0) * rtt_s
        clear = np.interp(self._at(start, self._rounds) + np.divide(t_s, rtt_s), self._rounds, self._window)
        queueing_s = np.maximum(np.subtract(t_s, clear_s), 0.0)
        queueing = self.after_acked(np.maximum(start, bdp), queueing_s * np.divide(bdp, rtt_s))
        return np.where(t_s <= clear_s, clear, queueing)

    def _at(self, window: Numbers, table: FloatArray) -> FloatArray:
        return np.asarray(np.interp(window, self._window, table), float)


def additive(segments: float) -> RoundGrowth:
    """Growth by so many segments a round trip, as Reno's by 1."""
    return RoundGrowth(lambda window: np.full_like(window, segments))


def proportional(per: float) -> RoundGrowth:
    """Growth by one segment for each ``per`` acknowledged, at least Reno's one a round trip: Scalable with
    100."""
    return RoundGrowth(lambda window: np.maximum(window / per, 1.0))
