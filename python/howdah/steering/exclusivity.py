"""Finds whether nobody else fills a path that our streams fill, by sending a little less for a moment, twice.

Streams that fill a path keep a queue. When they are paced to a little less than they had, the queue ends if
all of the path is theirs. If others fill the path as well it stays, for their windows do, and what we leave
makes their round trips only a little shorter (Little's law). The queue also ends if others lose something
just then. So what was left is taken again. Where the path is ours the queue comes back at once, for our
windows are what they were; where others have cut theirs it does not. Nobody else is there only when the queue
has come back, and has ended once more. What arrived while ours filled the path is what it carries. Pure.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from howdah.probing.series import queues
from howdah.steering.throughput import Bound, level_bps
from howdah.steering.tunables import TUNED, lasting


class Answer(NamedTuple):
    """The answer to a look."""

    told: bool | None
    """Whether nobody else is there; None: not known yet."""
    bound: Bound | None
    """The bound to be set now; None: none."""


_NOTHING = Answer(None, None)


Step = Literal["less", "back", "again", "end"]


class ExclusivityProbe(Struct, frozen=True):
    """Probes whether a path is ours alone; each method that changes something returns the next probe."""

    step: Step | None = None
    less_bps: float = 0.0
    """The bound that ends the queue."""
    most_bps: tuple[float, ...] = ()
    """The rate that the window of each stream allows."""
    less: float = 0.0
    eased: int = 0
    queue_s: float = 0.0
    """The queue before."""
    own_s: float = 0.0
    """The queue that paced streams make for one another, so that it does not end."""
    since_s: float = 0.0
    queued_s: float = 0.0
    not_back: int = 0
    moved: bool = False

    @property
    def finding(self) -> bool:
        """Whether less is sent for it, or has just been."""
        return self.step is not None

    def on_new_route(self) -> "ExclusivityProbe":
        """The same after the route has changed for good: what is found now is nothing."""
        return replace(self, moved=self.finding)

    def given_up(self) -> "ExclusivityProbe":
        """The same where nothing is found now."""
        return replace(self, step=None)

    def each_bps(self, bound_bps: float) -> float:
        """The rate that each stream is to be paced to, so that together they have that bound."""
        return level_bps(self.most_bps, bound_bps) * (1 - self.less) ** self.eased

    @property
    def filled_bps(self) -> float:
        """The rate of all streams together while they filled the path."""
        return self.less_bps / (1 - self.less)

    def begin(
        self, rtt_s: float, base_rtt_s: float, rates_bps: Sequence[float], own_s: float = 0.0
    ) -> "tuple[ExclusivityProbe, Bound]":
        """Streams that have had so much each are to be bounded: to how much.

        ``own_s`` is the queue that they make for one another at most when they are paced.
        """
        queue_s = rtt_s - base_rtt_s
        less = max(TUNED.exclusivity_less, queue_s / TUNED.exclusivity_ends_s)
        less = min(TUNED.exclusivity_most_less, less)
        begun = replace(
            self,
            step="less",
            less_bps=sum(rates_bps) * (1 - less),
            # Without the queue a window is sent in a shorter time.
            most_bps=tuple(rate_bps * rtt_s / base_rtt_s for rate_bps in rates_bps),
            less=less,
            eased=0,
            queue_s=queue_s,
            # A queue of which half is left may be of others.
            own_s=min(own_s, TUNED.exclusivity_back * queue_s),
            moved=False,
        )
        return begun, Bound(begun.each_bps(begun.less_bps))

    def made(self, t_s: float, refused: str | None) -> "ExclusivityProbe":
        """The same when what was asked is in force, or was refused."""
        over = refused is not None or self.step == "end"
        return replace(self, step=None if over else self.step, since_s=t_s, queued_s=t_s)

    def look(self, t_s: float, rtt_s: float | None, base_rtt_s: float) -> "tuple[ExclusivityProbe, Answer]":
        """Judges by the latest round trip. A bound in force goes on where nobody else is there."""
        if self.step is None:
            return self, _NOTHING
        if self.moved:
            return self._ends()
        if self.step == "back":
            return self._back(t_s, rtt_s, base_rtt_s)
        probe = self
        if rtt_s is None or queues(rtt_s, base_rtt_s + self.own_s):
            probe = replace(self, queued_s=t_s)
        if t_s - probe.queued_s >= TUNED.exclusivity_empty_s:
            return probe._told(True) if probe.step == "again" else probe._ask("back", None)
        return probe._waits(t_s, base_rtt_s)

    def _waits(self, t_s: float, base_rtt_s: float) -> "tuple[ExclusivityProbe, Answer]":
        """The queue is to end."""
        waited_s = t_s - self.since_s
        if self.step == "again" and self.eased < TUNED.exclusivity_eases:
            ease_s = lasting(TUNED.exclusivity_ease_s, TUNED.exclusivity_back_round_trips, base_rtt_s)
            if t_s > self.queued_s or waited_s < ease_s:
                return self, _NOTHING
            return replace(self, eased=self.eased + 1)._bound_again()
        if waited_s >= lasting(
            TUNED.exclusivity_longest_s, TUNED.exclusivity_longest_round_trips, base_rtt_s
        ):
            return self._ends()
        return self, _NOTHING

    def _ends(self) -> "tuple[ExclusivityProbe, Answer]":
        """What was bounded is free again, and nobody is taken to be away."""
        probe, answer = replace(self, not_back=0)._ask("end", None)
        return probe, answer._replace(told=False)

    def _back(self, t_s: float, rtt_s: float | None, base_rtt_s: float) -> "tuple[ExclusivityProbe, Answer]":
        """The queue is to come back."""
        if rtt_s is not None and rtt_s - base_rtt_s >= TUNED.exclusivity_back * self.queue_s:
            return self._bound_again()
        back_s = lasting(TUNED.exclusivity_back_s, TUNED.exclusivity_back_round_trips, base_rtt_s)
        if t_s - self.since_s < back_s:
            return self, _NOTHING
        probe = replace(self, step=None, not_back=self.not_back + 1)
        asked_enough = probe.not_back >= TUNED.exclusivity_tries
        return probe._told(False) if asked_enough else (probe, _NOTHING)

    def _bound_again(self) -> "tuple[ExclusivityProbe, Answer]":
        return self._ask("again", self.each_bps(self.less_bps))

    def _told(self, told: bool) -> "tuple[ExclusivityProbe, Answer]":
        return replace(self, step=None, not_back=0), Answer(told, None)

    def _ask(self, step: Step, each_bps: float | None) -> "tuple[ExclusivityProbe, Answer]":
        return replace(self, step=step), Answer(None, Bound(each_bps))


NOT_FINDING = ExclusivityProbe()
