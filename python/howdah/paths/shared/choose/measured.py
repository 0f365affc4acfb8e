"""What a transfer has had: rate, round trip and what was sent again, over any span of the last minute."""

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

KEPT_S = 60.0
PEAK_S = 1.0
"""The capacity is at least what arrived in so long. Less, and data held back by a hole would come at once."""
_SEGMENT_BYTES = 1448
_SHORTEST_S = 0.5


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
        self._looks: deque[Look] = deque()
        self.peak_bps: float | None = None
        """The most that arrived within PEAK_S."""

    def add(self, look: Look) -> None:
        """Takes the next look; one from before the last is left out."""
        looks = self._looks
        if looks and look.t_s <= looks[-1].t_s:
            return
        looks.append(look)
        while looks[-1].t_s - looks[0].t_s > KEPT_S:
            looks.popleft()
        had = self.over(look.t_s - PEAK_S, look.t_s)
        # Only over a whole span: of a shorter one the begin of a burst may be missing.
        if had is not None and looks[0].t_s <= look.t_s - PEAK_S:
            self.peak_bps = max(self.peak_bps or 0.0, had.rate_bps) or None

    def over(self, begin_s: float, end_s: float) -> Had | None:
        """What was had between these; None where that is too short, or nothing is known of it."""
        times = [look.t_s for look in self._looks]
        first, last = bisect_left(times, begin_s - 1e-9), bisect_left(times, end_s + 1e-9) - 1
        if last <= first or times[last] - times[first] < _SHORTEST_S:
            return None
        looks = self._looks
        one, two = looks[first], looks[last]
        moved = max(0, two.bytes_done - one.bytes_done)
        again = max(0, two.retransmissions - one.retransmissions)
        rtts = [looks[k].rtt_s for k in range(first, last + 1)]
        known = [rtt_s for rtt_s in rtts if rtt_s is not None]
        segments = moved / _SEGMENT_BYTES + again
        return Had(
            moved * 8 / (two.t_s - one.t_s),
            sum(known) / len(known) if known else None,
            again / segments if segments else 0.0,
        )

    def forget_peak(self) -> None:
        """The path is another one."""
        self.peak_bps = None
