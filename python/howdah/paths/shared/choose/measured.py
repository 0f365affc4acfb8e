"""What a transfer has had: rate, round trip and what was sent again, over any span of the last minute."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

KEPT_S = 60.0
PEAK_S = 1.0
"""The capacity is at least what arrived in so long. Less, and data held back by a hole would come at once."""
_SEGMENT_BYTES = 1448
_SHORTEST_S = 0.5
_ROUNDED = 1e-9


class Look(NamedTuple):
    """A transfer at one instant; counts are since its begin."""

    t_s: float
    bytes_done: int
    retransmissions: int
    rtt_s: float | None = None
    """Of the streams now."""
    left_s: float | None = None
    """Until its end at the rate it has; None: not known."""


class Had(NamedTuple):
    """Over a span."""

    rate_bps: float
    rtt_s: float | None
    resent: float
    """Of the segments sent, about what part was sent again."""


class Meter:
    """Looks of the last minute."""

    def __init__(self) -> None:
        self._looks: list[Look] = []
        self._times: list[float] = []
        self.peak_bps: float | None = None
        """The most that arrived within PEAK_S."""

    def add(self, look: Look) -> None:
        """Takes the next look; one from before the last is left out."""
        if self._times and look.t_s <= self._times[-1]:
            return
        self._looks.append(look)
        self._times.append(look.t_s)
        if look.t_s - self._times[0] > 2 * KEPT_S:
            kept = bisect_left(self._times, look.t_s - KEPT_S)
            del self._looks[:kept], self._times[:kept]
        # Only over a whole span: of a shorter one the begin of a burst may be missing.
        if self._times[0] <= look.t_s - PEAK_S and (had := self.over(look.t_s - PEAK_S, look.t_s)):
            self.peak_bps = max(self.peak_bps or 0.0, had.rate_bps) or None

    def over(self, begin_s: float, end_s: float) -> Had | None:
        """What was had between these; None where that is too short, or nothing is known of it."""
        times = self._times
        first, last = bisect_left(times, begin_s - _ROUNDED), bisect_right(times, end_s + _ROUNDED) - 1
        if last <= first or times[last] - times[first] < _SHORTEST_S:
            return None
        one, two = self._looks[first], self._looks[last]
        moved = max(0, two.bytes_done - one.bytes_done)
        again = max(0, two.retransmissions - one.retransmissions)
        rtts = [look.rtt_s for look in self._looks[first : last + 1] if look.rtt_s is not None]
        segments = moved / _SEGMENT_BYTES + again
        return Had(
            moved * 8 / (two.t_s - one.t_s),
            sum(rtts) / len(rtts) if rtts else None,
            again / segments if segments else 0.0,
        )

    def forget_peak(self) -> None:
        """The path is another one."""
        self.peak_bps = None
