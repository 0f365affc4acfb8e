"""What is known of the path by now: round trips, what it carries, and what part of it we have."""

from typing import NamedTuple

from howdah.probing.queue import queues
from howdah.steering.policy import sure_kind
from howdah.steering.shares import NOBODY, Belief, Choice, background
from howdah.steering.throughput import Look, Meter, Peak, Throughput
from howdah.steering.tunables import TUNED


class PathCapacity:
    """Of one path."""

    def __init__(self) -> None:
        self._peak = Peak()
        self._sharers = 2
        """This transfer, and as many streams as were told when the path was measured."""
        self.probed_bps: float | None = None
        """Measured beside others (``capacity_probe``)."""
        self.exclusive = False
        """Nobody else filled it (``exclusivity``): what had arrived is what it carries."""

    @property
    def known(self) -> bool:
        """Whether it is no mere lower bound."""
        return self.probed_bps is not None or self.exclusive

    @property
    def rate_bps(self) -> float | None:
        """At least."""
        return max(self._peak.rate_bps or 0.0, self.probed_bps or 0.0) or None

    @property
    def share_bps(self) -> float:
        """An equal share of it."""
        return (self.rate_bps or 0.0) / self._sharers

    def add(self, look: Look) -> None:
        """Takes what has arrived by the next look."""
        acked_s, acked = look.acked or (look.t_s, look.bytes_done)
        self._peak.add(look._replace(t_s=acked_s, bytes_done=acked))

    def capacity_probed(self, rate_bps: float, belief: Belief) -> None:
        """It has been measured beside those."""
        if self.probed_bps is None:
            kind = sure_kind(belief)
            told = background(belief.likeliest[0]) if kind and kind[0] == "loss" else None
            self._sharers = 1 + (told.streams if told else 1)
        self.probed_bps = rate_bps

    def shared_by(self, plan: Choice) -> Choice:
        """The streams of that plan, paced to an equal share."""
        return plan.paced(self.share_bps / plan.streams, plan.pacing_bps)


class PathState(NamedTuple):
    """The path, as it is known by now."""

    base_rtt_s: float
    queue_bdp: float
    """How much queue the bottleneck has been seen to hold, in bandwidth × delay."""
    finely: bool = True
    """Whether round trips are those of probes, and not what streams say of themselves."""


class PathShare:
    """Of one transfer."""

    def __init__(self, path: PathState) -> None:
        self.path = path
        self.meter = Meter()
        self.carries = PathCapacity()

    def add(self, look: Look, path: PathState) -> None:
        """Takes the next look, at a path that is known so by now."""
        self.path = path
        self.meter.add(look)
        self.carries.add(look)

    def new_path(self) -> None:
        """The route has changed for good: what it carries is not known."""
        self.carries = PathCapacity()

    @property
    def lately(self) -> Throughput | None:
        """What we had in the last seconds."""
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
        return self.full and had is not None and had.rate_bps < TUNED.squeezed * self.carries.share_bps

    def tells(self, verdict: Belief) -> Belief:
        """A verdict, with what our part of a full path says: all is ours, or some of it is somebody's."""
        had, carries_bps = self.lately, self.carries.rate_bps
        if had is None or carries_bps is None:
            return verdict
        if had.rate_bps < TUNED.part_of_others * carries_bps and self.full:
            return verdict.without(NOBODY)
        # What is a lower bound only is ours whenever we send so much.
        ours = self.carries.known and had.rate_bps > TUNED.part_ours * carries_bps
        return Belief({NOBODY: max(TUNED.part_ours, verdict.known)}) if ours else verdict
