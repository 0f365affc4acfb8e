"""The others that a transfer on a shared path recognised, as its record keeps them."""

from typing import Literal

import msgspec

from howdah.values.reason import Explained, Reason

NOBODY = "nobody"
"""The class of a path that a copy has for itself."""


class HeardThen(msgspec.Struct, frozen=True, kw_only=True):
    """A class that was recognised on a shared path from an instant on."""

    t_s: float
    """The time since the session's start."""
    background: str | None
    """The likeliest class, as ``1 bbr, 1 cubic``; null: something never seen, or not known."""
    probability: float
    """The probability of that class; of null, that it is no class that is known."""


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """The throughput of a choice."""

    rate_bps: float
    rtt_s: float | None = None
    """The RTT of the streams, on average."""
    resent_fraction: float
    """The part of the segments that was sent again, about."""


class SentThen(Explained, frozen=True, kw_only=True):
    """A change that was made for those who were recognised, and what it gave."""

    t_s: float
    congestion_control: str
    streams: int
    pacing_bps: int | None = None
    """The bound of each stream; null: without a bound."""
    held: bool = False
    """Whether the streams were paced to ``pacing_bps`` at least, and to more where others left more."""
    background: str | None = None
    """The class that was recognised; null: the fair default is back for another reason."""
    probability: float | None = None
    before: Throughput | None = None
    """The last 10 s before it; null: not known."""
    after: Throughput | None = None
    """The last 10 s of it, once it had settled; null: it was too short."""
    undone: str | None = None
    """The reason why it was not kept; null: it was."""


class Dip(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of sending less, to measure what the path carries (howdah.steering.capacity_probe)."""

    begin_s: float
    end_s: float
    rate_bps: float
    """The rate before the dip."""
    bound_bps: float
    """The bound of the rate in the dip."""
    rtt_s: float | None = None
    """The least round trip without the dip, by how round trips grew before."""
    least_rtt_s: float | None = None
    capacity_bps: float | None = None
    """The capacity as payload; null: the dip told nothing."""


class RouteMoved(msgspec.Struct, frozen=True, kw_only=True):
    """The base RTT moved for good."""

    t_s: float
    before_s: float
    after_s: float


class Listened(msgspec.Struct, frozen=True, kw_only=True):
    """The others that a transfer on a shared path recognised, and how it sent beside them."""

    by: Literal["icmp", "tcp_info"] | None
    """The source of round trips; null: nothing was listened to."""
    not_by_icmp: str | None = None
    """The reason why round trips were those of its own streams."""
    ended: str | None = None
    """The reason why listening ended before the transfer did; the fair default stayed from then on."""
    fairness: float
    """The knob it chose by: 0, its own rate; 1, fairness."""
    base_rtt_s: float | None = None
    queue_bdp: float | None = None
    """The queue of the bottleneck as it was seen, in bandwidth × delay."""
    capacity_bps: float | None = None
    """The capacity of the path: measured by ``dips``, or the most that arrived in three seconds in a row."""
    counted: int | None = None
    """The CUBIC streams of others by the end, by how the queue grew beside paced streams; null: not known."""
    verdicts: int = 0
    """How often it was asked who is there and something could be said."""
    cannot_tell: str | None = None
    """The reason why others could not be told when it was asked last; null: they could."""
    heard: list[HeardThen] = []
    sent: list[SentThen] = []
    dips: list[Dip] = []
    moved: list[RouteMoved] = []

    @property
    def others(self) -> bool | None:
        """Whether competing traffic was recognised, at the begin or later; null: nothing could be told."""
        before = any(each.reason == Reason.OTHERS_PRESENT.key for each in self.sent)
        if not (self.heard or before):
            return None
        return before or any(each.background != NOBODY for each in self.heard)
