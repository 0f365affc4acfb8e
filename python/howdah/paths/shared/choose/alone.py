"""Whether nobody else fills a path that our streams fill: told by sending a little less for a moment.

Streams that fill a path keep a queue. Held to a little less than they had it ends, where all of the path is
theirs; where others fill it as well it stays, for their windows do, and what we leave makes their round trips
only a little shorter (Little's law). What arrived while ours filled it alone is what it carries. Pure.
"""

from collections.abc import Sequence

from howdah.paths.shared.choose.measured import queues
from howdah.paths.shared.choose.rates import level_bps

ENDS_S = 1.0
"""A queue of our own is to end in so long,"""
LESS, MOST_LESS = 0.05, 0.5
"""by so much less than we had; with more a path that somebody fills by half would look empty."""
EMPTY_S = 1.0
"""So long without a queue."""
LONGEST_S, LONGEST_ROUND_TRIPS = 3.0, 10.0
"""A queue that is still there then is not ours alone."""


class Alone:
    """Finds it out, whenever it is asked to."""

    def __init__(self) -> None:
        self.asked = False
        """A bound, or its end, is on its way to the streams."""
        self.bound_bps: float | None = None
        """Of all streams, that was asked for last; None: its end."""
        self._most_bps: list[float] = []
        """What each stream has a window for."""
        self._begin_s: float | None = None
        self._queued_s = 0.0
        self._moved = False

    @property
    def finding(self) -> bool:
        """Whether less is sent for it."""
        return self.asked or self._begin_s is not None

    def new_path(self) -> None:
        """The route has changed for good: what is found now is nothing."""
        self._moved = self.finding

    def each_bps(self, bound_bps: float) -> float:
        """What each stream is to be paced to, so that together they have that bound."""
        return level_bps(self._most_bps, bound_bps)

    def begin(self, rtt_s: float, base_rtt_s: float, rates_bps: Sequence[float]) -> float:
        """Streams that have had so much each are to be bounded: to how much, all together."""
        self.asked, self._moved = True, False
        self.bound_bps = sum(rates_bps) * (1 - min(MOST_LESS, max(LESS, (rtt_s - base_rtt_s) / ENDS_S)))
        # Without the queue a window is sent in a shorter time.
        self._most_bps = [rate_bps * rtt_s / base_rtt_s for rate_bps in rates_bps]
        return self.bound_bps

    def made(self, t_s: float, refused: str | None) -> None:
        """What came of what was asked."""
        self.asked = False
        bounded = self.bound_bps is not None and refused is None
        self._begin_s, self._queued_s = (t_s if bounded else None), t_s

    def look(self, t_s: float, rtt_s: float | None, base_rtt_s: float) -> bool | None:
        """Whether nobody else is there, by the latest round trip; None: not known yet."""
        if self.asked or self._begin_s is None:
            return None
        if rtt_s is None or queues(rtt_s, base_rtt_s):
            self._queued_s = t_s
        told = t_s - self._queued_s >= EMPTY_S and not self._moved
        if told or t_s - self._begin_s >= max(LONGEST_S, LONGEST_ROUND_TRIPS * base_rtt_s):
            self._begin_s = None
            if not told:
                self.asked, self.bound_bps = True, None
            return told
        return None
