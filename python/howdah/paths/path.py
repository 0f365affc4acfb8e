"""Path: everything a decider may look at."""

import msgspec

from howdah.plan import PathKind
from howdah.record import HostLimits


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """A path from a sender to a receiver as it is known before the transfer."""

    sender: HostLimits
    receiver: HostLimits
    rtt_s: float | None = None
    """Base round-trip time; null when nothing could measure it."""
    rtt_source: str = "unknown"
    kind: PathKind = "shared"
    bytes_total: int | None = None
    """Payload; null when it is not known before the sender has looked."""
    encrypt: bool = True
