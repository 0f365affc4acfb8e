"""The congestion controls by name: how each grows between two losses, and what a loss leaves, for many flows.

Reno, Scalable and HighSpeed depend on the window alone. Sources: RFC 5681 (Reno); T. Kelly, ACM CCR 33(2),
2003 (Scalable); RFC 3649 §5 and appendix B (HighSpeed), whose table Linux takes: row k is for windows above
that at which the formula's growth is k − 1, gains k segments a round trip, and cuts as the formula does at
its upper end. Deviation of Linux's HighSpeed: it adds k for each ACK and not for each segment, so that it
grows slower where receive offload makes one ACK of many segments.

CUBIC grows as W(t) = C (t − K)³ + W_max, and never slower than Reno would. Source: RFC 9438 §4; S. Ha,
I. Rhee, L. Xu, ACM SIGOPS OSR 42(5), 2008; Linux ``net/ipv4/tcp_cubic.c``. Deviations:
- Of the RFC, as Linux: the Reno-friendly window goes on growing by 3 (1 − β)/(1 + β) segments a round trip
  above W_max too, where §4.3 would have 1.
- Of Linux: a window grows by more than half in no round trip there. Nothing here comes near that.

H-TCP grows faster, the longer it is since the last loss. Source: R. N. Shorten, D. J. Leith, PFLDnet 2004;
Linux ``net/ipv4/tcp_htcp.c``. In the time Δ since the loss was repaired it gains α = 2 (1 − β) max(1, s f(Δ))
segments a round trip, with f = 1 in the first second and 1 + 10 (Δ − 1) + ((Δ − 1)/2)² later, and
s = RTT / 100 ms kept to 0.1 … 2 (RTT scaling). The back-off β is least RTT / largest RTT kept to 0.5 … 0.8;
0.5 where the throughput differs by a fifth from that of the loss before, and at an RTT up to 10 ms.
Deviations of Linux: α is not a whole number, the largest RTT is that of the window lost, and the limit of one
segment for two ACKs is left out, which binds only where few ACKs stand for many segments.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from howdah import HowdahError

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
    """One law a(W), the segments gained a round trip, tabulated from 1 to 10⁹ segments.

    Growth that depends on the window alone counts in round trips. Its two integrals are rounds U = ∫ dW/a and
    segments acknowledged V = ∫ W dW/a. While the path is not full a round trip lasts τ, so time is τ U
    (region CA1 of Rao et al. 2015). Once it is full, ACKs come at the rate C and a round trip lasts W/C, so
    time is V/C (region CA2).
    """

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


SCALABLE_PER = 100.0
"""The segments acknowledged for one that Scalable gains."""
SCALABLE_BETA = 7 / 8


class PerRound:
    """A control whose growth and cut depend on the window alone: Reno, Scalable, HighSpeed."""

    def __init__(self, law: RoundGrowth, left: Callable[[FloatArray], Numbers]) -> None:
        self.law = law
        self.left = left

    def window(self, path: FlowPath, start: FloatArray, memory: ControlState, t_s: FloatArray) -> FloatArray:
        """The window by the law alone."""
        del memory
        return self.law.window(t_s, start, path.rtt_s, path.bdp)

    def cut(
        self, path: FlowPath, before: FloatArray, memory: ControlState
    ) -> tuple[FloatArray, ControlState]:
        """The window less the share that the law cuts."""
        del path
        return self.left(before) * before, memory


@functools.cache
def reno() -> PerRound:
    """The model of Reno, RFC 5681."""
    return PerRound(additive(1.0), lambda _: 0.5)


@functools.cache
def scalable() -> PerRound:
    """The model of Scalable: T. Kelly, ACM CCR 33(2), 2003."""
    return PerRound(proportional(SCALABLE_PER), lambda _: SCALABLE_BETA)


@functools.cache
def high_speed() -> PerRound:
    """The model of HighSpeed, RFC 3649."""
    return PerRound(RoundGrowth(high_speed_increase), lambda window: 1 - high_speed_cut(window))


_CONTROLS: dict[str, Callable[[], ControlModel]] = {
    "reno": reno,
    "cubic": Cubic,
    "scalable": scalable,
    "htcp": Htcp,
    "highspeed": high_speed,
}
HYSTART = frozenset({"cubic"})
"""The controls that leave slow start before the queue is full."""


def has_model(name: str) -> bool:
    """Whether there is a model of ``name``, with or without ``hd_``."""
    return name.removeprefix("hd_") in _CONTROLS


def control_model(name: str) -> ControlModel:
    """The model of ``name``, with or without ``hd_``. Raises HowdahError when there is none."""
    make = _CONTROLS.get(name.removeprefix("hd_"))
    if make is None:
        raise HowdahError(f"there is no throughput model of {name}; there are: {', '.join(_CONTROLS)}")
    return make()


HIGH_SPEED_LOW = 38.0
HIGH_SPEED_HIGH = 83_000.0
HIGH_SPEED_LEAST_CUT = 0.1
HIGH_SPEED_ROWS = 72


def high_speed_formula_cut(window: FloatArray) -> FloatArray:
    """The cut b(w) of §5: from 0.5 at 38 segments to 0.1 at 83,000, linear in log w."""
    position: FloatArray = np.log(window / HIGH_SPEED_LOW) / np.log(HIGH_SPEED_HIGH / HIGH_SPEED_LOW)
    return 0.5 + (HIGH_SPEED_LEAST_CUT - 0.5) * position


def high_speed_formula_increase(window: FloatArray) -> FloatArray:
    """The increase of §5: a(w) = w² p(w) 2 b(w) / (2 − b(w)), with p(w) = 0.078 / w^1.2."""
    b = high_speed_formula_cut(window)
    return window**2 * 2 * b / ((2 - b) * window**1.2 * 12.8)


@functools.cache
def high_speed_row_ends() -> FloatArray:
    """The largest window of each row."""
    windows = np.geomspace(HIGH_SPEED_LOW, 1.2 * HIGH_SPEED_HIGH, 4096)
    ends = np.interp(np.arange(1, HIGH_SPEED_ROWS + 1), high_speed_formula_increase(windows), windows)
    ends[0] = HIGH_SPEED_LOW
    return ends


def high_speed_increase(window: FloatArray) -> FloatArray:
    """The segments gained a round trip, by the table."""
    return 1.0 + np.asarray(_row(window), float)


def high_speed_cut(window: FloatArray) -> FloatArray:
    """The share of the window that a loss takes, by the table."""
    return high_speed_formula_cut(high_speed_row_ends()[_row(window)])


def _row(window: FloatArray) -> npt.NDArray[np.intp]:
    return np.minimum(np.searchsorted(high_speed_row_ends(), window), HIGH_SPEED_ROWS - 1)
