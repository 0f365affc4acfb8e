"""How much streams that are paced may send: all that others leave, and an equal share where they leave less.

Others that yield to loss fill the queue whenever there are any, so an empty queue is room. Where there is
none, streams get more, from what they had when there was a queue last ever faster; where there is one, at
once as much less as empties it by the next bound, and no more than an equal share where it is longer than
our own rise can have made it; but never less than that. So whoever comes finds room while windows still
grow fast, and nobody needs to be recognised for it.

Streams that begin beside a queue of others are run by Reno until each has its part. CUBIC's slow start takes
any queue for its own and ends there with few segments (HyStart; tcp_cubic.c, ``hystart_update``), and from
there it takes (W / 0.4)^⅓ seconds to a window of W segments: 8 s at 14 Mb/s and 200 ms. Reno's ends with a
loss only (RFC 5681, section 3.1), or where a stream sends as it is paced, so it cannot overshoot here. The
windows that it has found stay when the plan's control takes over. Pure: times are arguments.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from howdah.probing.queue import queues
from howdah.steering.throughput import level_bps
from howdah.steering.tunables import TUNED


class Path(NamedTuple):
    """As it is known by now."""

    base_rtt_s: float
    carries_bps: float
    share_bps: float
    """Ours, if all have as much."""
    ours: bool = False
    """It was found to be ours alone."""


class Pace:
    """The bound of all streams together, from when they are paced."""

    def __init__(
        self, begin_bps: float, had_bps: float, settled_s: float, each_bps: float, uneven: float = 1.0
    ) -> None:
        """Held to ``begin_bps`` until ``settled_s``; then to what there was before, if that was more.

        Each stream is paced to ``each_bps``, ``uneven`` times its equal part.
        """
        self.bound_bps = max(begin_bps, had_bps)
        self.asked = False
        """A bound is on its way to the streams."""
        self.each_bps = self._wanted_bps = each_bps
        """In force."""
        self._uneven = uneven
        """So many times its equal part of the bound each is paced to."""
        self._full_bps = self._met_bps = math.inf
        self._queued = False
        self._looked_s: float | None = None
        self._rise = TUNED.pace_slow
        self._free_s = self._queued_s = settled_s

    def look(self, t_s: float, rtt_s: float, rates_bps: Sequence[float], path: Path) -> float | None:
        """What each stream is to be paced to next, where that changes, by round trips and rates of late."""
        if self.asked or t_s < self._free_s:
            return None
        had_bps = sum(rates_bps)
        queue_s, wait_s = (
            rtt_s - path.base_rtt_s,
            max(TUNED.pace_every_s, TUNED.pace_every_round_trips * rtt_s),
        )
        # After a time without looks nobody knows whether there was room all along.
        since_s = min(2 * wait_s, t_s - self._looked_s) if self._looked_s is not None else 0.0
        self._looked_s = t_s
        if queued := queues(rtt_s, path.base_rtt_s):
            self._met_bps = self._met_bps if self._queued else self.bound_bps
            self._full_bps = min(self.bound_bps, had_bps)
            if queue_s > TUNED.pace_fast * (wait_s + 2 * rtt_s):
                # More than our own rise can have made until it was seen.
                self._full_bps = path.share_bps
                if self.bound_bps > path.share_bps:
                    self._uneven = 1.0
            self.bound_bps = max(path.share_bps, self._full_bps - path.carries_bps * queue_s / wait_s)
            self._rise, self._queued_s = TUNED.pace_slow, t_s
        even_bps = TUNED.pace_even * self.bound_bps
        if had_bps < even_bps and self._uneven < (most := self._uneven_most(rates_bps)):
            step = min(TUNED.pace_step, even_bps / max(had_bps, 1.0))
            self._uneven = min(most, self._uneven * step)
        elif not queued and had_bps >= TUNED.pace_used * self.bound_bps:
            self._more(t_s, since_s, path)
        if had_bps > self.bound_bps:
            self._uneven = max(1.0, self._uneven * self.bound_bps / had_bps)
        self._queued = queued
        self._wanted_bps = self.bound_bps * self._uneven / len(rates_bps)
        if abs(self._wanted_bps - self.each_bps) < TUNED.pace_worth * self.each_bps:
            return None
        self.asked = True
        self._free_s = t_s + wait_s
        return self._wanted_bps

    def _uneven_most(self, rates_bps: Sequence[float]) -> float:
        """With which they have the bound, where who is bounded by its window has no more than now."""
        limited_bps = TUNED.pace_limited * max(rates_bps)
        most_bps = [math.inf if rate_bps >= limited_bps else rate_bps for rate_bps in rates_bps]
        return level_bps(most_bps, self.bound_bps) * len(rates_bps) / self.bound_bps

    def _more(self, t_s: float, since_s: float, path: Path) -> None:
        """There is room."""
        met_bps = path.carries_bps if math.isinf(self._met_bps) else self._met_bps
        if (
            path.ours
            and met_bps >= TUNED.pace_near * path.carries_bps
            and t_s - self._queued_s < TUNED.pace_rest_s
        ):
            risen_bps = min(
                self.bound_bps + TUNED.pace_fast * since_s * path.carries_bps, TUNED.pace_rest * met_bps
            )
        elif self.bound_bps < TUNED.pace_near * self._full_bps:
            risen_bps = self.bound_bps + TUNED.pace_fast * since_s * path.carries_bps
        else:
            risen_bps = self.bound_bps + self._rise * since_s * path.carries_bps
            self._rise = min(TUNED.pace_fast, self._rise * 2 ** (since_s / TUNED.pace_doubles_s))
        self.bound_bps = max(path.share_bps, risen_bps)

    def again(self) -> None:
        """The bound in force is asked for once more."""
        self.asked, self._wanted_bps = True, self.each_bps

    def made(self, refused: str | None) -> None:
        """What came of the bound asked for last."""
        self.asked = False
        if refused is not None:
            self._free_s = math.inf
        else:
            self.each_bps = self._wanted_bps


CONTROL = "reno"


class Start:
    """Of the streams that are paced from ``t_s`` on, at round trips of ``rtt_s``."""

    def __init__(self, t_s: float, rtt_s: float) -> None:
        self._until_s = t_s + TUNED.start_round_trips * rtt_s

    def over(self, t_s: float, rates_bps: Sequence[float], each_bps: float) -> bool:
        """Whether each stream has its part by now, or will not have it so."""
        return t_s >= self._until_s or min(rates_bps) >= TUNED.pace_limited * each_bps
