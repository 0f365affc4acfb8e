"""How much streams that are held may send: all that others leave, and an equal share where they leave less.

Others that yield to loss fill the queue whenever there are any, so an empty queue is room. Where there is
none, streams get more, from what they had when there was a queue last ever faster; where there is one, at
once as much less as empties it by the next bound, and no more than an equal share where it is longer than
our own rise can have made it; but never less than that. So whoever comes finds room while windows still
grow fast, and nobody needs to be recognised for it. Pure: times are arguments.
"""

import math
from typing import NamedTuple

from howdah.paths.shared.choose.measured import queues

EVERY_S, EVERY_ROUND_TRIPS = 0.5, 2.0
"""Between two bounds: what the last one did is known."""
FAST, SLOW, DOUBLES_S = 0.05, 0.005, 3.0
"""Of what the path carries, so much more in a second; from slow to fast it doubles in so long."""
NEAR = 0.95
"""Of what it was when there was a queue last; below that it rises fast."""
USED = 0.8
"""Of the bound; who does not use it gets no more."""
EVEN, STEP_MOST, UNEVEN_MOST = 0.95, 1.25, 2.0
"""With less than this of a bound streams have unequal windows: each gets a greater part of it, in steps of so
much, and so many times its part at most."""
_WORTH = 0.01
"""Smaller changes are not made."""


class Path(NamedTuple):
    """As it is known by now."""

    base_rtt_s: float
    carries_bps: float
    share_bps: float
    """Ours, if all have as much."""


class Hold:
    """The bound of all streams together, from when they are held."""

    def __init__(self, begin_bps: float, had_bps: float, settled_s: float) -> None:
        """Held to ``begin_bps`` until ``settled_s``; then to what there was before, if that was more."""
        self.bound_bps = max(begin_bps, had_bps)
        self.asked = False
        """A bound is on its way to the streams."""
        self._in_force_bps = begin_bps
        self._uneven = 1.0
        self._full_bps = math.inf
        self._looked_s: float | None = None
        self._rise = SLOW
        self._free_s = settled_s

    @property
    def pacing_bps(self) -> float:
        """What all streams are to be paced to, so that together they have the bound."""
        return self.bound_bps * self._uneven

    def look(self, t_s: float, rtt_s: float, rate_bps: float, path: Path) -> float | None:
        """What all are to be paced to next, where that is to change: round trips of late, and what we had."""
        if self.asked or t_s < self._free_s:
            return None
        had = rate_bps / self._in_force_bps * self._uneven
        queue_s, wait_s = rtt_s - path.base_rtt_s, max(EVERY_S, EVERY_ROUND_TRIPS * rtt_s)
        # After a time without looks nobody knows whether there was room all along.
        since_s = min(2 * wait_s, t_s - self._looked_s) if self._looked_s is not None else 0.0
        self._looked_s = t_s
        if queues(rtt_s, path.base_rtt_s):
            self._full_bps = min(self.bound_bps, rate_bps)
            if queue_s > FAST * (wait_s + 2 * rtt_s):
                # More than our own rise can have made until it was seen.
                self._full_bps = path.share_bps
                self._uneven = 1.0
            self.bound_bps = max(path.share_bps, self._full_bps - path.carries_bps * queue_s / wait_s)
            self._rise = SLOW
        elif had < EVEN and self._uneven < UNEVEN_MOST:
            self._uneven = min(UNEVEN_MOST, self._uneven * min(STEP_MOST, EVEN / max(had, EVEN / STEP_MOST)))
        elif had >= USED:
            rise = FAST if self.bound_bps < NEAR * self._full_bps else self._rise
            self.bound_bps = max(path.share_bps, self.bound_bps + rise * since_s * path.carries_bps)
            self._rise = (
                min(FAST, self._rise * 2 ** (since_s / DOUBLES_S)) if rise == self._rise else self._rise
            )
        if had > 1:
            self._uneven = max(1.0, self._uneven / had)
        if abs(self.pacing_bps - self._in_force_bps) < _WORTH * self._in_force_bps:
            return None
        self.asked = True
        self._free_s = t_s + wait_s
        return self.pacing_bps

    def made(self, refused: str | None) -> None:
        """What came of the bound asked for last."""
        self.asked = False
        if refused is not None:
            self._free_s = math.inf
        else:
            self._in_force_bps = self.pacing_bps
