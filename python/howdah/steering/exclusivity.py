"""Whether nobody else fills a path that our streams fill: told by sending a little less for a moment, twice.

Streams that fill a path keep a queue. Held to a little less than they had it ends, where all of the path is
theirs; where others fill it as well it stays, for their windows do, and what we leave makes their round trips
only a little shorter (Little's law). But it ends as well where others lose something just then. So what was
left is taken again: where the path is ours the queue comes back at once, for our windows are what they were,
and where others have cut theirs it does not. Only when it has come back, and has ended once more, is nobody
else there. What arrived while ours filled it is what it carries. Pure.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from howdah.probing.queue import queues
from howdah.steering.throughput import Bound, level_bps
from howdah.steering.tunables import TUNED, lasting


class Answer(NamedTuple):
    """To a look."""

    told: bool | None
    """Whether nobody else is there; None: not known yet."""
    bound: Bound | None
    """To be set now."""


_NOTHING = Answer(None, None)


class ExclusivityProbe:
    """Finds it out, whenever it is asked to."""

    def __init__(self) -> None:
        self.asked = False
        """A bound, or its end, is on its way to the streams."""
        self._phase: Literal["less", "back", "again", "end"] | None = None
        self._less_bps = 0.0
        """To end the queue."""
        self._most_bps: list[float] = []
        """What each stream has a window for."""
        self._less = 0.0
        self._eased = 0
        self._queue_s = 0.0
        """Before."""
        self._since_s = self._queued_s = 0.0
        self._not_back = 0
        self._moved = False

    @property
    def finding(self) -> bool:
        """Whether less is sent for it, or has just been."""
        return self._phase is not None

    def new_path(self) -> None:
        """The route has changed for good: what is found now is nothing."""
        self._moved = self.finding

    def each_bps(self, bound_bps: float) -> float:
        """What each stream is to be paced to, so that together they have that bound."""
        return level_bps(self._most_bps, bound_bps) * (1 - self._less) ** self._eased

    def begin(self, rtt_s: float, base_rtt_s: float, rates_bps: Sequence[float]) -> Bound:
        """Streams that have had so much each are to be bounded: to how much."""
        self._moved, self._queue_s, self._eased = False, rtt_s - base_rtt_s, 0
        less = max(TUNED.exclusivity_less, self._queue_s / TUNED.exclusivity_ends_s)
        self._less = min(TUNED.exclusivity_most_less, less)
        # Without the queue a window is sent in a shorter time.
        self._most_bps = [rate_bps * rtt_s / base_rtt_s for rate_bps in rates_bps]
        self._less_bps = sum(rates_bps) * (1 - self._less)
        return self._ask("less", self.each_bps(self._less_bps))

    def made(self, t_s: float, refused: str | None) -> None:
        """What came of what was asked."""
        self.asked = False
        if refused is not None or self._phase == "end":
            self._phase = None
        self._since_s = self._queued_s = t_s

    def look(self, t_s: float, rtt_s: float | None, base_rtt_s: float) -> Answer:
        """What is known by the latest round trip. A bound in force goes on where nobody else is there."""
        if self.asked or self._phase is None:
            return _NOTHING
        if self._phase == "back":
            return self._back(t_s, rtt_s, base_rtt_s)
        if rtt_s is None or queues(rtt_s, base_rtt_s):
            self._queued_s = t_s
        if t_s - self._queued_s >= TUNED.exclusivity_empty_s and not self._moved:
            return self._told(True) if self._phase == "again" else Answer(None, self._ask("back", None))
        return self._waits(t_s, base_rtt_s)

    def _waits(self, t_s: float, base_rtt_s: float) -> Answer:
        """For the queue to end."""
        waited_s = t_s - self._since_s
        if self._phase == "again" and self._eased < TUNED.exclusivity_eases:
            if t_s > self._queued_s or waited_s < lasting(
                TUNED.exclusivity_ease_s, TUNED.exclusivity_back_round_trips, base_rtt_s
            ):
                return _NOTHING
            self._eased += 1
            return Answer(None, self._ask("again", self.each_bps(self._less_bps)))
        if waited_s >= max(TUNED.exclusivity_longest_s, TUNED.exclusivity_longest_round_trips * base_rtt_s):
            return self._told(False)._replace(bound=self._ask("end", None))
        return _NOTHING

    def _back(self, t_s: float, rtt_s: float | None, base_rtt_s: float) -> Answer:
        """Whether the queue is there again."""
        if rtt_s is not None and rtt_s - base_rtt_s >= TUNED.exclusivity_back * self._queue_s:
            return Answer(None, self._ask("again", self.each_bps(self._less_bps)))
        back_s = lasting(TUNED.exclusivity_back_s, TUNED.exclusivity_back_round_trips, base_rtt_s)
        if t_s - self._since_s < back_s:
            return _NOTHING
        self._not_back += 1
        if self._not_back >= TUNED.exclusivity_tries or self._moved:
            return self._told(False)
        self._phase = None
        return _NOTHING

    def _told(self, alone: bool) -> Answer:
        self._phase, self._not_back = None, 0
        return Answer(alone, None)

    def _ask(self, phase: Literal["less", "back", "again", "end"], each_bps: float | None) -> Bound:
        self.asked, self._phase = True, phase
        return Bound(each_bps)
