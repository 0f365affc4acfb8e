"""How much streams that are paced may send: all that others leave, and an equal share where they leave less.

Others that yield to loss fill the queue whenever there are any, so an empty queue is room. Where there is
none, streams get more, from what they had when there was a queue last ever faster; where there is one, at
once as much less as empties it by the next bound, and no more than an equal share where it is longer than
our own rise can have made it; but never less than that. So whoever comes finds room while windows still
grow fast, and nobody needs to be recognised for it. A path of our own may carry much more than has arrived,
so until it has had a queue the rise becomes faster still.

Streams that begin beside a queue of others are run by Reno until each has its part. CUBIC's slow start takes
any queue for its own and ends there with few segments (HyStart; tcp_cubic.c, ``hystart_update``), and from
there it takes (W / 0.4)^⅓ seconds to a window of W segments: 8 s at 14 Mb/s and 200 ms. Reno's ends with a
loss only (RFC 5681, section 3.1), or where a stream sends as it is paced, so it cannot overshoot here. The
windows that it has found stay when the plan's control takes over. Pure: times are arguments.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import queues
from howdah.steering.throughput import level_bps
from howdah.steering.tunables import TUNED, lasting


class Path(NamedTuple):
    """The path as it is known by now."""

    base_rtt_s: float
    """The round trip without a queue of others."""
    carries_bps: float
    share_bps: float
    """An equal share."""
    ours: bool = False
    """Whether the path was found to be ours alone."""


class Pace(Struct, frozen=True):
    """The bound of all streams together, from when they are paced; each look returns the next pace."""

    bound_bps: float
    each_bps: float
    """The bound of each stream that is in force."""
    wanted_bps: float
    """The bound of each stream that was asked for last."""
    free_s: float
    queued_s: float
    uneven: float = 1.0
    """Each stream is paced to so many times its equal part of the bound."""
    full_bps: float = math.inf
    met_bps: float = math.inf
    queued: bool = False
    looked_s: float | None = None
    rise: float = TUNED.pace_slow

    @classmethod
    def begin(
        cls, begin_bps: float, had_bps: float, settled_s: float, each_bps: float, uneven: float = 1.0
    ) -> "Pace":
        """A pace of ``begin_bps`` until ``settled_s``; then of what there was before, if that was more.

        Each stream is paced to ``each_bps``, ``uneven`` times its equal part.
        """
        return cls(max(begin_bps, had_bps), each_bps, each_bps, settled_s, settled_s, uneven)

    def look(
        self, t_s: float, rtt_s: float, rates_bps: Sequence[float], path: Path
    ) -> "tuple[Pace, float | None]":
        """The next rate to pace each stream to, where that changes, by recent round trips and rates."""
        if t_s < self.free_s:
            return self, None
        had_bps = sum(rates_bps)
        wait_s = lasting(TUNED.pace_every_s, TUNED.pace_every_round_trips, rtt_s)
        # After a time without looks nobody knows whether there was room all along.
        since_s = min(2 * wait_s, t_s - self.looked_s) if self.looked_s is not None else 0.0
        queued = queues(rtt_s, path.base_rtt_s)
        now = self._less(t_s, rtt_s, wait_s, had_bps, path) if queued else self
        even_bps = TUNED.pace_even * now.bound_bps
        if had_bps < even_bps and now.uneven < (most := now._uneven_most(rates_bps)):
            step = min(TUNED.pace_step, even_bps / max(had_bps, 1.0))
            now = replace(now, uneven=min(most, now.uneven * step))
        elif not queued and had_bps >= TUNED.pace_used * now.bound_bps:
            now = now._more(t_s, since_s, path)
        if had_bps > now.bound_bps:
            now = replace(now, uneven=max(1.0, now.uneven * now.bound_bps / had_bps))
        wanted_bps = now.bound_bps * now.uneven / len(rates_bps)
        now = replace(now, queued=queued, looked_s=t_s, wanted_bps=wanted_bps)
        if abs(wanted_bps - now.each_bps) < TUNED.pace_worth * now.each_bps:
            return now, None
        return replace(now, free_s=t_s + wait_s), wanted_bps

    def _uneven_most(self, rates_bps: Sequence[float]) -> float:
        """The unevenness with which they have the bound, where windows let some have no more than now."""
        limited_bps = TUNED.pace_limited * max(rates_bps)
        most_bps = [math.inf if rate_bps >= limited_bps else rate_bps for rate_bps in rates_bps]
        return level_bps(most_bps, self.bound_bps) * len(rates_bps) / self.bound_bps

    def _less(self, t_s: float, rtt_s: float, wait_s: float, had_bps: float, path: Path) -> "Pace":
        """The same where there is a queue."""
        queue_s = rtt_s - path.base_rtt_s
        met_bps = self.met_bps if self.queued else self.bound_bps
        full_bps, uneven = min(self.bound_bps, had_bps), self.uneven
        if queue_s > max(TUNED.pace_fast, self.rise) * (wait_s + 2 * rtt_s):
            # More than our own rise can have made until it was seen.
            full_bps = path.share_bps
            uneven = 1.0 if self.bound_bps > path.share_bps else uneven
        return replace(
            self,
            bound_bps=max(path.share_bps, full_bps - path.carries_bps * queue_s / wait_s),
            uneven=uneven,
            full_bps=full_bps,
            met_bps=met_bps,
            rise=TUNED.pace_slow,
            queued_s=t_s,
        )

    def _more(self, t_s: float, since_s: float, path: Path) -> "Pace":
        """The same where there is room."""
        # Until a queue was met, what has arrived is less than what the path carries.
        met = not math.isinf(self.met_bps)
        fast_bps = self.bound_bps + TUNED.pace_fast * since_s * path.carries_bps
        near, rise = TUNED.pace_near, self.rise
        resting = path.ours and met and t_s - self.queued_s < TUNED.pace_rest_s
        if resting and self.met_bps >= near * path.carries_bps:
            risen_bps = min(fast_bps, TUNED.pace_rest * self.met_bps)
        elif self.bound_bps < near * self.full_bps:
            risen_bps = fast_bps
        else:
            risen_bps = self.bound_bps + rise * since_s * path.carries_bps
            most = TUNED.pace_alone if path.ours and not met else TUNED.pace_fast
            rise = min(most, rise * 2 ** (since_s / TUNED.pace_doubles_s))
        return replace(self, bound_bps=max(path.share_bps, risen_bps), rise=rise)

    def made(self, refused: str | None) -> "Pace":
        """The same when the bound asked for last is in force, or was refused."""
        return self if refused is not None else replace(self, each_bps=self.wanted_bps)


CONTROL = "reno"


class Start(NamedTuple):
    """The begin of streams that are paced from ``t_s`` on, at round trips of ``rtt_s``."""

    t_s: float
    rtt_s: float

    def over(self, t_s: float, rates_bps: Sequence[float], each_bps: float) -> bool:
        """Whether each stream has its part by now, or will not have it so."""
        return (
            t_s >= self.t_s + TUNED.start_round_trips * self.rtt_s
            or min(rates_bps) >= TUNED.pace_limited * each_bps
        )
