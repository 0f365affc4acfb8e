"""Measures what a path carries that others fill as well, by sending a little less for a moment.

While a bottleneck has a queue, a round trip is what all have on its way, over what the path carries (Little's
law). Others keep what they have there, but for their growth, which is known from the moment before. So where
ours is ``freed`` bits less, round trips are shorter by freed / capacity. Ours is its rate × RTT: of what it
had before, and of the bound that it is paced to.

No more is freed than most of the queue, by what part of the path may be ours, and for no longer than it
takes to show. Where the queue is what limits it, it waits until that is a good part of what it is at most.
Others that lose something meanwhile spoil a dip: round trips stay short after it, and it tells nothing. Two
must agree. More follow, for the more of the path is ours the clearer they are. The first does not count: a
stream that has once been bounded is paced from then on (``sk_setsockopt``, net/core/sock.c), and its
bursts, which were part of the queue, are no more. Pure: times and round trips are arguments.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import Floats
from howdah.steering.throughput import Bound, level_bps
from howdah.steering.tunables import TUNED, lasting
from howdah.values.listened import Dip


class CapacityProbe(Struct, frozen=True):
    """Measures one path; each method that changes something returns the next probe."""

    dips: tuple[Dip, ...] = ()
    first: int = 0
    """The dips before this one were of another path."""
    again_from: int = 0
    """The dips before this one were made with less of the path."""
    rate_bps: float = 0.0
    bound_bps: float = 0.0
    base_rtt_s: float = 0.0
    emptied: int = 0
    begin_s: float | None = None
    end_s: float | None = None
    lasts_s: float = 0.0
    free_s: float = 0.0

    @property
    def capacity_bps(self) -> float | None:
        """The capacity of the path in bits of payload a second; None as long as that is not known."""
        told = sorted(self._told_clearly(self.first))
        if len(told) < 2 and self._used_up:
            # One clear dip and some that are small: nothing better will come.
            told = sorted(self._told_at_all(self.first))
        if len(told) >= TUNED.dip_median_from:
            return _median(told)
        # Two that are both spoilt differ.
        pairs = [(high / low, (low + high) / 2) for (low, _), (high, _) in pairwise(told)]
        ratio, mean_bps = min(pairs, default=(math.inf, 0.0))
        return mean_bps if ratio <= 1 + TUNED.dip_agree else None

    @property
    def done(self) -> bool:
        """Whether another dip would tell no more."""
        return self._used_up or len(self._told_clearly(self.again_from)) >= TUNED.dips_most

    @property
    def dipping(self) -> bool:
        """Whether less is sent, or the round trips of that are not all known yet."""
        return self.begin_s is not None

    def on_new_route(self) -> "CapacityProbe":
        """The same after the route has changed for good; a dip that there is ends as it would."""
        return replace(self, first=len(self.dips), again_from=len(self.dips))

    def given_up(self) -> "CapacityProbe":
        """The same without the dip that there is, which tells nothing."""
        return replace(self, begin_s=None, end_s=None)

    def again(self, t_s: float) -> "CapacityProbe":
        """The same where more of the path is ours from now on: dips tell it better than those before."""
        return replace(self, again_from=len(self.dips), free_s=max(self.free_s, t_s + TUNED.dip_again_s))

    def wants(
        self,
        t_s: float,
        rtt_s: float,
        base_rtt_s: float,
        rates_bps: Sequence[float],
        *,
        capacity_bps: float | None = None,
        most_queue_s: float = 0.0,
    ) -> "tuple[CapacityProbe, Bound | None]":
        """The next dip, where each stream has so much and the path carries ``capacity_bps`` at least."""
        queue_s, rate_bps = rtt_s - base_rtt_s, sum(rates_bps)
        if self.done or self.dipping or t_s < self.free_s or queue_s < TUNED.dip_queue_s or not rate_bps:
            return self, None
        known_bps = self.capacity_bps and max(self.capacity_bps, capacity_bps or 0.0)
        assumed = 1 - (1 - TUNED.dip_assumed_ours) / 2**self.emptied
        ours = min(TUNED.dip_most_ours, rate_bps / known_bps if known_bps else assumed)
        # With the round trip what a bound has on its way gets less too: the drop is more than what is freed.
        drop_s = TUNED.dip_queue_freed * queue_s
        most_freed = drop_s * (1 - ours) / (ours * (rtt_s - drop_s))
        if most_freed < TUNED.dip_freed and queue_s < TUNED.dip_queue * most_queue_s:
            return self, None
        freed = min(TUNED.dip_freed, most_freed)
        # A window that is not bounded is sent in a shorter time.
        most_bps = [each_bps * rtt_s / (rtt_s - drop_s) for each_bps in rates_bps]
        bound_bps = level_bps(most_bps, (1 - freed) * rate_bps, math.inf)
        begun = replace(
            self,
            rate_bps=rate_bps,
            bound_bps=sum(min(bound_bps, most) for most in most_bps),
            base_rtt_s=base_rtt_s,
            lasts_s=lasting(TUNED.dip_least_s, TUNED.dip_round_trips, rtt_s),
        )
        return begun, Bound(bound_bps)

    def made(self, t_s: float, refused: str | None) -> "CapacityProbe":
        """The same when a bound that was asked for is in force, or was refused."""
        if refused is not None:
            return replace(self, begin_s=None, end_s=None, free_s=math.inf)
        return replace(self, begin_s=t_s) if self.begin_s is None else replace(self, end_s=t_s)

    def look(self, t_s: float, times_s: Floats, rtt_s: Floats) -> "tuple[CapacityProbe, Bound | None]":
        """The end of a dip when it is due, by the round trips known so far, each with when it was sent."""
        if self.begin_s is None:
            return self, None
        if self.end_s is None:
            return self, Bound(None) if t_s - self.begin_s >= self.lasts_s else None
        trip_s = self.lasts_s / TUNED.dip_round_trips
        if t_s - self.end_s < TUNED.dip_back_round_trips * trip_s + TUNED.dip_late_s:
            return self, None
        dip, emptied = self._told(self.begin_s, self.end_s, times_s, rtt_s)
        over = replace(
            self,
            dips=(*self.dips, dip),
            emptied=self.emptied + emptied,
            begin_s=None,
            end_s=None,
            free_s=t_s + lasting(TUNED.dip_apart_s, TUNED.dip_apart_round_trips, trip_s),
        )
        return over, None

    @property
    def _used_up(self) -> bool:
        return len(self.dips) - self.again_from >= 2 * TUNED.dips_most

    def _told_clearly(self, first: int) -> list[tuple[float, float]]:
        """The capacities whose drop was not much smaller than the largest."""
        told = self._told_at_all(first)
        most_s = max((drop_s for _, drop_s in told), default=0.0)
        return [each for each in told if each[1] >= TUNED.dip_clear * most_s]

    def _told_at_all(self, first: int) -> list[tuple[float, float]]:
        """The capacities that dips from that one on have told, and by what drop."""
        return [
            (dip.capacity_bps, dip.rtt_s - dip.least_rtt_s)
            for dip in self.dips[max(1, first) :]
            if dip.capacity_bps is not None and dip.rtt_s is not None and dip.least_rtt_s is not None
        ]

    def _told(self, begin_s: float, end_s: float, times_s: Floats, rtt_s: Floats) -> tuple[Dip, bool]:
        """A dip that is over, and whether it has emptied the queue."""
        none = Dip(begin_s=begin_s, end_s=end_s, rate_bps=self.rate_bps, bound_bps=self.bound_bps)
        answered = np.isfinite(rtt_s)
        times_s, rtt_s = times_s[answered], rtt_s[answered]
        trip_s = self.lasts_s / TUNED.dip_round_trips
        growth_s = lasting(TUNED.dip_before_s, TUNED.dip_before_round_trips, trip_s)
        before = (times_s >= begin_s - growth_s) & (times_s < begin_s)
        during = (times_s >= begin_s) & (times_s <= end_s + trip_s)
        if min(before.sum(), during.sum()) < TUNED.dip_answers:
            return none, False
        at_s = times_s - begin_s
        slope, level_s = np.polyfit(at_s[before], rtt_s[before], 1)
        noise_s = float(np.median(np.abs(rtt_s[before] - level_s - slope * at_s[before])))
        # The least of single round trips would be that of their noise.
        plateau = TUNED.dip_plateau * trip_s * during.sum() / (end_s + trip_s - begin_s)
        median_of = max(TUNED.dip_median_of, round(plateau))
        windows = np.lib.stride_tricks.sliding_window_view(rtt_s[during], median_of)
        smooth_s = np.median(windows, axis=1)
        place = int(np.argmin(smooth_s))
        least_s = float(smooth_s[place])
        expected_s = float(level_s + slope * at_s[during][place + median_of // 2])
        drop_s = expected_s - least_s
        moved_s = abs(expected_s - float(level_s))
        # Where the queue was empty, what was freed does not all show.
        empty_s = self.base_rtt_s + TUNED.dip_empty * (expected_s - self.base_rtt_s)
        emptied = least_s <= empty_s
        none = msgspec.structs.replace(none, rtt_s=expected_s, least_rtt_s=least_s)
        least_drop_s = max(TUNED.dip_drop_s, TUNED.dip_noises * noise_s, TUNED.dip_moved * moved_s)
        if emptied or drop_s < least_drop_s:
            return none, emptied
        back_s = rtt_s[times_s >= end_s + (TUNED.dip_back_round_trips - 1) * trip_s]
        if not back_s.size or np.quantile(back_s, TUNED.dip_high) < level_s - (1 - TUNED.dip_back) * drop_s:
            # Others have less on their way than before.
            return none, emptied
        freed_bits = self.rate_bps * float(level_s) - self.bound_bps * least_s
        return msgspec.structs.replace(none, capacity_bps=freed_bits / drop_s), emptied


NO_DIPS = CapacityProbe()


def _median(told: list[tuple[float, float]]) -> float:
    """The median of capacities, weighted by their drops: a large one is less spoilt."""
    half, sums = sum(drop_s for _, drop_s in told) / 2, accumulate(drop_s for _, drop_s in told)
    return next(told[place][0] for place, upto in enumerate(sums) if upto >= half)
