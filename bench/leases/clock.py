"""Clocks of hosts: each with an origin and a rate of its own, in whole ns."""

from typing import NamedTuple

PPM_MAX = 4_900
"""How far from true a clock may run here: two of them then differ by 0.98 %, just within the margin."""
_MILLION = 1_000_000


class Clock(NamedTuple):
    """Shows ``origin_ns`` at the beginning and gains ``ppm`` of what passes."""

    origin_ns: int
    ppm: int

    def read(self, now_ns: int) -> int:
        """What it shows at a true time."""
        return self.origin_ns + now_ns + now_ns * self.ppm // _MILLION

    def when(self, shown_ns: int) -> int:
        """The first true time at which it shows this."""
        return -((self.origin_ns - shown_ns) * _MILLION // (_MILLION + self.ppm))
