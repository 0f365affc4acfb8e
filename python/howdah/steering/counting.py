"""Counts the CUBIC streams that fill the rest of a path, by how a queue grows beside paced streams of ours.

Paced streams do not answer to a queue. So the others have the rest of the path, and a round trip is what they
have on its way, over that rest (Little's law). Between two cuts the window of a CUBIC stream is
C (t - K)³ + W, with C = 0.4 segments/s³ (RFC 9438, section 4.2). Of n streams, whenever each was cut, the
term of third degree is n C t³. It is fitted by least squares to each stretch of time between two cuts. A
stretch that does not show it clearly counts nothing, and several must. A window that grows as Reno's does, in
a straight line (RFC 9438, section 4.3), shows nothing. Where one grows so for a part of a stretch, and
because windows follow the law a round trip late, a little less than n shows (``count_shows``). Pure: times
are arguments.
"""

import math
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import queues
from howdah.steering.throughput import SEGMENT_BYTES
from howdah.steering.tunables import TUNED, lasting

_C = 0.4
"""Segments/s³."""


class Longest(NamedTuple):
    """The longest round trip of a moment."""

    begin_s: float
    rtt_s: float


class Stretch(NamedTuple):
    """What one stretch has shown."""

    end_s: float
    streams: float


class Count(Struct, frozen=True):
    """The count of one path's CUBIC streams; each look returns the next."""

    rest_bps: float = 0.0
    """What our own leave of the path."""
    trips: tuple[Longest, ...] = ()
    """The longest round trips since the last cut, as a late sender leaves the queue short for a moment."""
    stretches: tuple[Stretch, ...] = ()

    @property
    def streams(self) -> int | None:
        """The CUBIC streams of others; None: not known."""
        shown = sorted(each.streams for each in self.stretches)
        if len(shown) < TUNED.count_stretches_least:
            return None
        # Of two, the smaller one: too many cost ourselves.
        return min(TUNED.count_most, max(1, round(shown[(len(shown) - 1) // 2] / TUNED.count_shows)))

    def look(self, t_s: float, rtt_s: float, base_rtt_s: float, rest_bps: float) -> "Count":
        """The next count, while our streams are paced so that they leave ``rest_bps``."""
        count = self
        if abs(rest_bps - self.rest_bps) > TUNED.pace_worth * self.rest_bps:
            count = replace(self.broken(t_s), rest_bps=rest_bps)
        if not queues(rtt_s, base_rtt_s):
            return count.broken(t_s)
        if count.trips and t_s - (begun_s := count.trips[-1].begin_s) < TUNED.count_step_s:
            longest = Longest(begun_s, max(rtt_s, count.trips[-1].rtt_s))
            return replace(count, trips=(*count.trips[:-1], longest))
        count = count._cut(t_s)
        return replace(count, trips=(*count.trips, Longest(t_s, rtt_s)))

    def _cut(self, t_s: float) -> "Count":
        """The same where the last of the trips shows a cut: a stretch begins with it."""
        if not self.trips:
            return self
        *earlier, last = self.trips
        before_s = last.begin_s - lasting(TUNED.count_cut_s, TUNED.count_cut_round_trips, last.rtt_s)
        longest_s = max((each.rtt_s for each in earlier if each.begin_s >= before_s), default=0.0)
        long = t_s - self.trips[0].begin_s > TUNED.count_longest_s
        if not long and last.rtt_s >= (1 - TUNED.count_cut) * longest_s:
            return self
        return replace(replace(self, trips=tuple(earlier)).broken(t_s), trips=(last,))

    def broken(self, t_s: float) -> "Count":
        """The same where no stretch goes on: one ends with its last trip; what is long ago counts no more."""
        kept = [*self.lately(t_s).stretches]
        if self.trips and (streams := self._shown()) is not None:
            kept.append(Stretch(self.trips[-1].begin_s, streams))
        return replace(self, trips=(), stretches=tuple(kept[-TUNED.count_stretches_most :]))

    def lately(self, t_s: float) -> "Count":
        """The same without what was shown long ago."""
        kept = tuple(each for each in self.stretches if t_s - each.end_s < TUNED.count_kept_s)
        return self if len(kept) == len(self.stretches) else replace(self, stretches=kept)

    def _shown(self) -> float | None:
        """The streams that this stretch shows; None where it shows them not clearly."""
        first = self.trips[0]
        begin_s = first.begin_s + 2 * TUNED.count_cut_round_trips * first.rtt_s
        kept = np.array([each for each in self.trips if each.begin_s >= begin_s]).reshape(-1, 2)
        if len(kept) < TUNED.count_steps:
            return None
        segments = self.rest_bps / 8 / SEGMENT_BYTES * kept[:, 1]
        law, spread = np.polyfit(kept[:, 0] - kept[:, 0].mean(), segments, 3, cov=True)
        streams, error = float(law[0]) / _C, math.sqrt(float(spread[0, 0])) / _C
        return streams if streams >= TUNED.count_least and error <= TUNED.count_error * streams else None


NO_COUNT = Count()
