"""Throughput of a transfer over any span of the last minute, and recent rates of each of its streams."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import queues
from howdah.steering.tunables import TUNED
from howdah.values.listened import Throughput

SEGMENT_BYTES = 1448
_ROUNDED = 1e-9
_BURST_SEGMENTS = 2
"""The least that a paced stream sends at once (Linux 6.1, ``net.ipv4.tcp_min_tso_segs``)."""


class Look(NamedTuple):
    """A transfer at one instant; counts are since its begin."""

    t_s: float
    bytes_done: int
    retransmissions: int
    rtt_s: float | None = None
    """The RTT of the streams now."""
    left_s: float | None = None
    """The time until its end at the rate it has; None: not known."""
    acked: tuple[float, int] | None = None
    """The bytes that the far kernel had acknowledged at a time on the sender's clock; None: not known."""


class Meter(Struct, frozen=True):
    """Looks of the last minute."""

    looks: tuple[Look, ...] = ()
    times: tuple[float, ...] = ()

    def add(self, look: Look) -> "Meter":
        """The same with the next look; one from before the last is left out."""
        if self.times and look.t_s <= self.times[-1]:
            return self
        looks, times = (*self.looks, look), (*self.times, look.t_s)
        if look.t_s - times[0] > 2 * TUNED.looks_kept_s:
            kept = bisect_left(times, look.t_s - TUNED.looks_kept_s)
            looks, times = looks[kept:], times[kept:]
        return Meter(looks, times)

    def over(self, begin_s: float, end_s: float) -> Throughput | None:
        """The throughput between these times; None where the span is too short, or nothing is known of it."""
        times = self.times
        first, last = bisect_left(times, begin_s - _ROUNDED), bisect_right(times, end_s + _ROUNDED) - 1
        if last <= first or times[last] - times[first] < TUNED.span_least_s:
            return None
        one, two = self.looks[first], self.looks[last]
        moved = max(0, two.bytes_done - one.bytes_done)
        again = max(0, two.retransmissions - one.retransmissions)
        rtts = [look.rtt_s for look in self.looks[first : last + 1] if look.rtt_s is not None]
        segments = moved / SEGMENT_BYTES + again
        return Throughput(
            rate_bps=moved * 8 / (two.t_s - one.t_s),
            rtt_s=sum(rtts) / len(rtts) if rtts else None,
            resent_fraction=again / segments if segments else 0.0,
        )

    def lately(self, span_s: float) -> Throughput | None:
        """The throughput of the last seconds; None where that is not known."""
        return self.over(self.times[-1] - span_s, self.times[-1]) if self.times else None

    def longest_rtt_s(self, begin_s: float, end_s: float) -> float | None:
        """The longest round trip between these; None where looks do not reach back so far, or have none."""
        times = self.times
        if not times or times[0] > begin_s + _ROUNDED:
            return None
        first, last = bisect_left(times, begin_s - _ROUNDED), bisect_right(times, end_s + _ROUNDED)
        rtts = [look.rtt_s for look in self.looks[first:last] if look.rtt_s is not None]
        return max(rtts, default=None)


NO_LOOKS = Meter()


class Peak(Struct, frozen=True):
    """The most that arrived, for long enough.

    Looks are to be of what was acknowledged: what is verified comes by blocks, which streams that rest for a
    while leave half done.
    """

    meter: Meter = NO_LOOKS
    rate_bps: float | None = None

    def add(self, look: Look) -> "Peak":
        """The same with the next look."""
        peak = Peak(self.meter.add(look), self.rate_bps)
        return replace(peak, rate_bps=max(self.rate_bps or 0.0, peak._arrives(look)) or None)

    def _arrives(self, look: Look) -> float:
        """The rate of arrival, without what a hole held back before; 0 where that is not known."""
        # Only over a whole span: of a shorter one the begin of a burst may be missing.
        known_s, clean_s = look.t_s - self.meter.times[0], TUNED.peaks * TUNED.peak_s + TUNED.hole_s
        if known_s >= clean_s and self._resent(look.t_s - clean_s) == 0:
            ends_s = [look.t_s - TUNED.peak_s * each for each in range(TUNED.peaks)]
            seconds = [
                had.rate_bps for end_s in ends_s if (had := self.meter.over(end_s - TUNED.peak_s, end_s))
            ]
            return min(seconds, default=0.0)
        had = self.meter.over(look.t_s - TUNED.long_s, look.t_s) if known_s >= TUNED.long_s else None
        return had.rate_bps if had else 0.0

    def _resent(self, since_s: float) -> int:
        first = max(0, bisect_right(self.meter.times, since_s + _ROUNDED) - 1)
        return self.meter.looks[-1].retransmissions - self.meter.looks[first].retransmissions


NO_PEAK = Peak()


class Bound(NamedTuple):
    """The rate that each stream may have."""

    each_bps: float | None
    """The bound of each stream; None: no bound."""


class Rates:
    """The rates of one transfer's streams, by what the far kernel has acknowledged."""

    def __init__(self) -> None:
        self._acked: deque[tuple[float, tuple[int, ...]]] = deque()

    def add(self, t_s: float, acked_bytes: Sequence[int]) -> None:
        """Takes the bytes acknowledged of each stream by then, on a clock of its own."""
        if not self._acked or t_s > self._acked[-1][0]:
            self._acked.append((t_s, tuple(acked_bytes)))
        while self._acked[-1][0] - self._acked[0][0] > TUNED.rates_kept_s:
            self._acked.popleft()

    def each_bps(self, span_s: float) -> list[float] | None:
        """The rate of each stream over so many seconds or a little more; None where that is not known."""
        newest_s, newest = self._acked[-1] if self._acked else (0.0, ())
        oldest = next((each for each in reversed(self._acked) if newest_s - each[0] >= span_s), None)
        if oldest is None or not newest or len(oldest[1]) != len(newest):
            return None
        return [
            (after - before) * 8 / (newest_s - oldest[0])
            for before, after in zip(oldest[1], newest, strict=True)
        ]

    def all_bps(self, rtt_s: float) -> float | None:
        """The rate of all streams together now; None where that is not known."""
        each = self.each_bps(lately_s(rtt_s))
        return None if each is None else sum(each)


def lately_s(rtt_s: float) -> float:
    """A span that is long enough to tell a rate, and not longer."""
    return max(TUNED.rates_s, TUNED.rates_round_trips * rtt_s)


def own_queue_s(streams: int, carries_bps: float, base_rtt_s: float) -> float:
    """The longest queue in seconds that paced streams make for one another: a burst of each at the same time.

    0 where it is too short to count as a queue.
    """
    queue_s = streams * _BURST_SEGMENTS * SEGMENT_BYTES * 8 / carries_bps
    return queue_s if queues(base_rtt_s + queue_s, base_rtt_s) else 0.0


def level_bps(most_bps: Iterable[float], bound_bps: float, uneven_most: float = TUNED.uneven_most) -> float:
    """The rate that each stream may have, so that all have ``bound_bps`` where windows allow each so much.

    That is an equal part at least. Where the streams cannot have the bound so, it is what the fastest may
    have, and ``uneven_most`` times an equal part at most.
    """
    left_bps, ordered = bound_bps, sorted(most_bps)
    highest_bps = uneven_most * bound_bps / len(ordered)
    for place, most in enumerate(ordered):
        each_bps = left_bps / (len(ordered) - place)
        if most >= each_bps:
            return min(each_bps, highest_bps)
        left_bps -= most
    return min(max(ordered[-1], bound_bps / len(ordered)), highest_bps)
