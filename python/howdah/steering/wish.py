"""What a transfer that listens is to do, and what it may."""

from typing import TYPE_CHECKING, NamedTuple

from howdah.values.plan import Plan

if TYPE_CHECKING:
    from howdah.steering.policy import Policy


class Wish(NamedTuple):
    """What was asked for, and what can be had."""

    plan: Plan
    fairness: float
    control_default: str
    """The sender's."""
    controls: tuple[str, ...]
    """That the sender may use."""
    streams_fixed: bool
    stream_most_bps: float
    """What the window of one stream carries at most."""
    rtt_s: float | None
    addresses: list[str]
    """Where the data goes, the likeliest first."""
    for_s: float | None = None
    """How long it is to send; null: until all is there."""
    policy: "Policy | None" = None
    """Null: the one that weighs by ``fairness``."""
