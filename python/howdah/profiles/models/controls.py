"""The congestion controls by name."""

import functools
from collections.abc import Callable

from howdah import HowdahError
from howdah.profiles.models import highspeed
from howdah.profiles.models.by_round import ByRound, FloatArray, Numbers, additive, proportional
from howdah.profiles.models.cubic import Cubic
from howdah.profiles.models.htcp import Htcp
from howdah.profiles.models.lane import Control, Lane, Memory

SCALABLE_PER = 100.0
"""Scalable gains one segment for so many acknowledged."""
SCALABLE_KEPT = 7 / 8


class PerRound:
    """A control whose growth and cut depend on the window alone: Reno, Scalable, HighSpeed."""

    def __init__(self, law: ByRound, kept: Callable[[FloatArray], Numbers]) -> None:
        self.law = law
        self.kept = kept

    def window(self, lane: Lane, start: FloatArray, memory: Memory, t_s: FloatArray) -> FloatArray:
        """By the law alone."""
        del memory
        return self.law.window(t_s, start, lane.rtt_s, lane.bdp)

    def cut(self, lane: Lane, before: FloatArray, memory: Memory) -> tuple[FloatArray, Memory]:
        """A share of the window."""
        del lane
        return self.kept(before) * before, memory


@functools.cache
def reno() -> PerRound:
    """RFC 5681."""
    return PerRound(additive(1.0), lambda _: 0.5)


@functools.cache
def scalable() -> PerRound:
    """T. Kelly, ACM CCR 33(2), 2003."""
    return PerRound(proportional(SCALABLE_PER), lambda _: SCALABLE_KEPT)


@functools.cache
def high_speed() -> PerRound:
    """RFC 3649."""
    return PerRound(ByRound(highspeed.increase), lambda window: 1 - highspeed.taken(window))


_CONTROLS: dict[str, Callable[[], Control]] = {
    "reno": reno,
    "cubic": Cubic,
    "scalable": scalable,
    "htcp": Htcp,
    "highspeed": high_speed,
}
HYSTART = frozenset({"cubic"})
"""Those that leave slow start before the queue is full."""


def named(name: str) -> Control:
    """The model of ``name``, with or without ``hd_``. Raises HowdahError when there is none."""
    make = _CONTROLS.get(name.removeprefix("hd_"))
    if make is None:
        raise HowdahError(f"there is no throughput model of {name}; there are: {', '.join(_CONTROLS)}")
    return make()
