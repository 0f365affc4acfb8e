"""What part of a path we have, by what arrives, how long round trips are and what the path carries. Pure."""

from howdah.probing.series import queues
from howdah.steering.background import NOBODY, Belief
from howdah.steering.carries import Carries
from howdah.steering.course import Way
from howdah.steering.measured import Had, Look, Meter

SQUEEZED, SQUEEZED_S = 0.7, 3.0
"""Of an equal share: with less for so long, behind a queue, somebody does not yield. Dips cost less."""
_LATELY_S, _SOMEBODYS, _OURS = 3.0, 0.85, 0.93
"""Of what the path carries: with less of a full path the rest is somebody's, with more it is nobody's."""


class Part:
    """Of one transfer."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.meter = Meter()
        self.carries = Carries()

    def add(self, look: Look, way: Way) -> None:
        """Takes the next look, at a path that is known so by now."""
        self.way = way
        self.meter.add(look)
        self.carries.add(look)

    def new_path(self) -> None:
        """The route has changed for good: what it carries is not known."""
        self.carries = Carries()

    @property
    def lately(self) -> Had | None:
        """What we had in the last seconds."""
        return self.meter.lately(_LATELY_S)

    @property
    def full(self) -> bool:
        """Whether there is a queue."""
        had = self.lately
        return had is not None and had.rtt_s is not None and queues(had.rtt_s, self.way.base_rtt_s)

    @property
    def emptied(self) -> bool:
        """Whether there is no queue, where there are some: nobody else keeps us from anything then."""
        way = self.way
        return not self.full and queues(way.base_rtt_s * (1 + way.queue_bdp), way.base_rtt_s)

    @property
    def squeezed(self) -> bool:
        """Whether others leave us clearly less than an equal share of a full path."""
        had = self.meter.lately(SQUEEZED_S)
        return self.full and had is not None and had.rate_bps < SQUEEZED * self.carries.share_bps

    def tells(self, verdict: Belief) -> Belief:
        """A verdict, with what our part of a full path says: all is ours, or some of it is somebody's."""
        had, carries_bps = self.lately, self.carries.rate_bps
        if had is None or carries_bps is None:
            return verdict
        if had.rate_bps < _SOMEBODYS * carries_bps and self.full:
            return verdict.without(NOBODY)
        # What is a lower bound only is ours whenever we send so much.
        ours = self.carries.known and had.rate_bps > _OURS * carries_bps
        return Belief({NOBODY: max(_OURS, verdict.known)}) if ours else verdict
