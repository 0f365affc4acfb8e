"""Path: everything a decider may look at."""

from typing import Any

import msgspec

from howdah.values.memory import PathMemory
from howdah.values.plan import PathKind
from howdah.values.record import HostLimits

ASSUMED_RTT_S = 0.1
"""The RTT where nothing could measure it: a long path, for a large window costs memory, a small one rate."""


MOST_IT_CAN_BECOME = "most it can become"
"""The name of a share's most among the evidence of a plan."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The share that a controller has given the sender of a guaranteed path; rates are on the wire."""

    flow: str
    """The flow whose share it is, as the status of the controller calls it."""
    rate_bps: int | None
    """The rate in force now; null: the controller does not know."""
    most_bps: int
    """The most that the share can become: all that there is to give away."""
    policy: str
    """The policy that gives it."""


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
    streams: int | None = None
    """The number of streams that the user gave; null: the decider chooses."""
    host: str | None = None
    """The far host, as the user names it; null when it does not matter."""
    link: dict[str, Any] | None = None
    """The LinkSpec of the lab this is in; null outside a lab."""
    share: Share | None = None
    """The share of a guaranteed path; null: nobody has given one."""
    memory: PathMemory | None = None
    """What the archive remembers of it; null: nothing."""
    programs_loadable: bool = False
    """Howdah may load its congestion controls into the sender's kernel: it is this host, and we are root."""


def round_trip_in_words(path: Path) -> str:
    """A sentence: the round trip the plan is made for, and how it is known."""
    rtt = f"{(path.rtt_s or ASSUMED_RTT_S) * 1e3:.3g} ms"
    if path.rtt_s:
        return f"The round trip is {rtt} ({path.rtt_source})."
    return f"The round trip could not be measured; the plan is made for {rtt}."
