"""The congestion controls by name, and those whose growth and cut depend on the window alone.

Sources: RFC 5681 (Reno); T. Kelly, ACM CCR 33(2), 2003 (Scalable); RFC 3649 §5 and appendix B (HighSpeed),
whose table Linux takes: row k is for windows above that at which the formula's growth is k − 1, gains k
segments a round trip, and cuts as the formula does at its upper end.

Deviation of Linux's HighSpeed: it adds k for each ACK and not for each segment, so that it grows slower where
receive offload makes one ACK of many segments.
"""

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from howdah import HowdahError
from howdah.profiles.theory.cubic import Cubic
from howdah.profiles.theory.growth import (
    ControlModel,
    ControlState,
    FloatArray,
    FlowPath,
    Numbers,
    RoundGrowth,
    additive,
    proportional,
)
from howdah.profiles.theory.htcp import Htcp

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
