"""Where the time of a copy went, as its record keeps it (howdah.values.attribution finds it out).

Streams that rest are those open streams that a change has not sending, as with fewer streams than the plan's.
A stream that rests takes no block. Its sender books that it waits for one, and its receiver that it waits for
the network (crates/transfer, tree/queue.rs). Neither waits for anything that could come sooner. Streams with
the lowest indices send.
"""

from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import msgspec

from howdah.values.outcome import Doing, Outcome, Spent, StreamOutcome


class _Time(NamedTuple):
    """A part of the session, in which so many streams send."""

    from_s: float
    to_s: float
    streams: int


def without_rests(outcome: Outcome) -> Outcome:
    """The outcome without the times at which streams rested, in their samples too."""
    times = _times(outcome)
    if all(each.streams >= len(outcome.streams) for each in times):
        return outcome
    return msgspec.structs.replace(
        outcome,
        streams=[_worked(stream, _rested_s(index, times)) for index, stream in enumerate(outcome.streams)],
        samples=[each for each in outcome.samples if not _rests(each.stream, each.t_s, times)],
    )


def _times(outcome: Outcome) -> list[_Time]:
    """The time from the first byte on, by how many streams send."""
    begin_s = outcome.setup_s or 0.0
    made = [change for change in outcome.changes if change.refused is None]
    starts = [(begin_s, len(outcome.streams)), *((max(begin_s, each.t_s), each.streams) for each in made)]
    ends = [*starts, (outcome.elapsed_s, 0)]
    return [_Time(from_s, to_s, streams) for (from_s, streams), (to_s, _) in pairwise(ends)]


def _rests(stream: int, at_s: float, times: list[_Time]) -> bool:
    return any(each.from_s <= at_s < each.to_s and stream >= each.streams for each in times)


def _rested_s(stream: int, times: list[_Time]) -> float:
    return sum(max(0.0, each.to_s - each.from_s) for each in times if stream >= each.streams)


def _worked(stream: StreamOutcome, rested_s: float) -> StreamOutcome:
    waited_s = min(rested_s, stream.sender.wall_s.get("waiting", 0.0))
    if not waited_s:
        return stream
    return msgspec.structs.replace(
        stream,
        sender=_less(stream.sender, "waiting", waited_s),
        receiver=None if stream.receiver is None else _less(stream.receiver, "socket", waited_s),
    )


def _less(spent: Spent, doing: Doing, time_s: float) -> Spent:
    left_s = max(0.0, spent.wall_s.get(doing, 0.0) - time_s)
    return msgspec.structs.replace(spent, wall_s={**spent.wall_s, doing: left_s})


MOST = 0.5
"""The part of the time from which on a cause is called the bottleneck."""
WORTH = 0.10
"""A cause is worth a line where the copy would be faster by this part without it."""
WORTH_S = 1.0
"""The seconds that this must save, too."""


class Cause(StrEnum):
    """What time can be spent on. The members are stored in records."""

    SOURCE_DISK = "source-disk"
    SOURCE_CPU = "source-cpu"
    SEALING = "sealing"
    WINDOW = "window"
    PACING = "pacing"
    PATH = "path"
    OUTAGE = "outage"
    RECEIVER_CPU = "receiver-cpu"
    RECEIVER_DISK = "receiver-disk"
    SMALL_FILES = "small-files"
    START = "start"
    END = "end"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What one cause took."""

    cause: Cause
    share: float
    """The part of the whole time, 0 to 1."""
    evidence: str
    """What shows it."""


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a copy went."""

    total_s: float
    """The time that is shared out: from the start of the command to the end."""
    shares: list[Share]
    """The largest first; together 1."""
    rate_bps: float | None = None
    """What moved while the streams were at work; null: nothing did."""
    known_bps: float | None = None
    """The most that an earlier copy had over this path, or this one had beside others; null: not known."""
    capacity_bps: float | None = None
    """What the path carries, where the copy measured that; null: it did not."""
    share_most_bps: float | None = None
    """The most that a share can become that bounded the copy; null: none did, or nobody knows."""
    by_share: bool = False
    """Whether what bounded the streams was a share of a guaranteed path."""
    faster: float = 1.0
    """How many times as fast the copy would be without its largest cause, at the most."""

    @property
    def main(self) -> Share | None:
        """The largest share, where it took most of the time."""
        return self.shares[0] if self.shares and self.shares[0].share >= MOST else None

    @property
    def is_worth_a_line(self) -> bool:
        """Whether one cause took most of the time, and to mend it would help.

        An outage is told of elsewhere, and no other copy mends it. Nor does a larger one where no byte moved.
        """
        if self.main is None or self.main.cause is Cause.OUTAGE:
            return False
        if self.rate_bps is None and self.main.cause in {Cause.START, Cause.END}:
            return False
        saves_s = self.total_s * (1 - 1 / self.faster)
        return self.faster >= 1 + WORTH and saves_s >= WORTH_S
