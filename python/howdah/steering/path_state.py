"""The state of the path as it is known: round trips, capacity, and the part of it that we have. Pure."""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import queues
from howdah.steering.policy import sure_kind
from howdah.steering.shares import Belief, Choice, background
from howdah.steering.throughput import NO_LOOKS, NO_PEAK, Look, Meter, Peak
from howdah.steering.tunables import TUNED
from howdah.values.listened import NOBODY, Throughput


class PathState(NamedTuple):
    """The round trips of a path."""

    base_rtt_s: float
    queue_bdp: float
    """The most queue that the bottleneck was seen to have, in bandwidth × delay."""
    finely: bool = True
    """Whether round trips are those of probes, and not what streams say of themselves."""


class PathCapacity(Struct, frozen=True):
    """The capacity of one path."""

    peak: Peak = NO_PEAK
    sharers: int = 2
    """This transfer, and as many streams as were told when the path was measured."""
    probed_bps: float | None = None
    """The capacity measured beside others (``capacity_probe``)."""
    counted: int = 0
    """The CUBIC streams of others that were counted (``counting``); 0: none were."""
    exclusive: bool = False
    """Whether nobody else filled the path (``exclusivity``): then what had arrived is what it carries."""

    @property
    def known(self) -> bool:
        """Whether it is no mere lower bound."""
        return self.probed_bps is not None or self.exclusive

    @property
    def rate_bps(self) -> float | None:
        """The least that the path carries, bits per second; None where nothing is known."""
        return max(self.peak.rate_bps or 0.0, self.probed_bps or 0.0) or None

    @property
    def share_bps(self) -> float:
        """An equal share of it; who was told when the path was measured stays in it."""
        return (self.rate_bps or 0.0) / max(self.sharers, 1 + self.counted)

    def add(self, look: Look) -> "PathCapacity":
        """The same with what has arrived by the next look."""
        acked_s, acked = look.acked or (look.t_s, look.bytes_done)
        return replace(self, peak=self.peak.add(look._replace(t_s=acked_s, bytes_done=acked)))

    def probed(self, rate_bps: float, belief: Belief) -> "PathCapacity":
        """The same where so much was measured beside those of ``belief``."""
        if self.probed_bps is not None:
            return replace(self, probed_bps=rate_bps)
        kind = sure_kind(belief)
        told = background(belief.likeliest[0]) if kind and kind[0] == "loss" else None
        return replace(self, probed_bps=rate_bps, sharers=1 + (told.streams if told else 1))

    def shared_by(self, plan: Choice) -> Choice:
        """The streams of that plan, paced to an equal share."""
        return plan.paced(self.share_bps / plan.streams, plan.pacing_bps)


UNKNOWN = PathCapacity()


class PathShare(Struct, frozen=True):
    """The part of a path that one transfer has."""

    path: PathState
    meter: Meter = NO_LOOKS
    capacity: PathCapacity = UNKNOWN

    def add(self, look: Look, path: PathState) -> "PathShare":
        """The same with the next look, at a path that is known so by now."""
        return PathShare(path, self.meter.add(look), self.capacity.add(look))

    @property
    def lately(self) -> Throughput | None:
        """Our throughput in the last seconds."""
        return self.meter.lately(TUNED.path_lately_s)

    @property
    def full(self) -> bool:
        """Whether there is a queue."""
        had = self.lately
        return had is not None and had.rtt_s is not None and queues(had.rtt_s, self.path.base_rtt_s)

    @property
    def emptied(self) -> bool:
        """Whether there is no queue, where there are some: nobody else keeps us from anything then."""
        path = self.path
        return not self.full and queues(path.base_rtt_s * (1 + path.queue_bdp), path.base_rtt_s)

    @property
    def squeezed(self) -> bool:
        """Whether others leave us clearly less than an equal share of a full path."""
        had = self.meter.lately(TUNED.squeezed_s)
        return self.full and had is not None and had.rate_bps < TUNED.squeezed * self.capacity.share_bps

    def tells(self, verdict: Belief) -> Belief:
        """A verdict, with what our part of a full path says: all is ours, or some of it is somebody's."""
        had, carries_bps = self.lately, self.capacity.rate_bps
        if had is None or carries_bps is None:
            return verdict
        if had.rate_bps < TUNED.part_of_others * carries_bps and self.full:
            return verdict.without(NOBODY)
        # What is a lower bound only is ours whenever we send so much.
        ours = self.capacity.known and had.rate_bps > TUNED.part_ours * carries_bps
        return Belief({NOBODY: max(TUNED.part_ours, verdict.known)}) if ours else verdict
