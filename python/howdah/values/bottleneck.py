"""Where the time of a copy went, as its record keeps it (howdah.values.attribution finds it out)."""

from enum import StrEnum

import msgspec

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
    """Of the whole time, 0 to 1."""
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
