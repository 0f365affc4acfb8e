"""What the steering is told of the path, what it wants of the streams, and what became of that."""

from typing import NamedTuple

from howdah.steering.measured import Had
from howdah.steering.share import Choice


class Way(NamedTuple):
    """The path, as it is known by now."""

    base_rtt_s: float
    queue_bdp: float
    """How much queue the bottleneck has been seen to hold, in bandwidth × delay."""
    finely: bool = True
    """Whether round trips are those of probes, and not what streams say of themselves."""


class Wanted(NamedTuple):
    """A change to be made."""

    choice: Choice
    why: str
    begin_bps: float | None = None
    """Of all streams, what held ones begin with; None: their share."""


class Period(NamedTuple):
    """How it was sent from one instant on, and what that gave."""

    t_s: float
    choice: Choice
    why: str
    background: str | None
    """Who was heard, when a change was made for that."""
    probability: float | None
    before: Had | None
    after: Had | None
    """Null: it had no time to settle."""
    undone: str | None
    """Why it was not kept."""
    held: bool = False
    """To that bound at least (``hold``)."""
