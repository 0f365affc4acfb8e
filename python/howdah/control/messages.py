"""What a controller and the agents of its hosts say to each other, as JSON.

Every message tells a whole state, so any of them may be lost, late, doubled or overtaken: the newest is
enough. Times are spans, never instants: no two clocks are compared. Rates are on the wire.

Where each lies on the bus is in ``running/keys.py``.
"""

from typing import Annotated, TypeVar

import msgspec

from howdah import document
from howdah.control.members import Member
from howdah.control.policy import Alone

SCHEMA = 2

BEATS_PER_LEASE = 4
"""Reports an agent sends in the time of a lease: three may be lost before a share is."""

Natural = Annotated[int, msgspec.Meta(ge=0)]
M = TypeVar("M", "Report", "Grant", "Call", "Places")


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What a flow may send. On the wire a pair, because there are many."""

    rate_bps: Natural
    """While the lease lasts; never below the minimum."""
    minimum_bps: Natural
    """Afterwards."""


class Measured(msgspec.Struct, frozen=True, array_like=True):
    """What a flow really did since its share was made."""

    sent_bytes: Natural
    """On the wire."""
    acked_bytes: Natural
    """Payload."""
    connections: Natural
    """Open now."""
    waiting: Natural = 0
    """Those of them with data that waits for nothing but its turn."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An agent to all controllers, at every beat and when it has done what it was told."""

    schema: int = SCHEMA
    agent: str
    incarnation: Natural
    """Of the agent's process: when it began, in µs of the wall clock. No two of a host have the same."""
    beat: Natural
    """Counts the Reports of this incarnation."""
    epoch: Natural
    """The largest it has heard of, which is the one it follows; 0: none yet."""
    seq: Natural
    """Of the last Grant of that epoch that it has put into force; 0: none yet."""
    left_ns: Natural
    """Until the last of its leases runs out."""
    shares: dict[str, Share]
    """By flow, with the rates in force now."""
    measured: dict[str, Measured] = {}
    idle: frozenset[str] = frozenset()
    """Flows with nothing to send, of those that it was told to watch for that."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A controller to an agent: the shares of all its flows. It replaces every Grant before it."""

    schema: int = SCHEMA
    agent: str
    epoch: Natural
    seq: Natural
    """Counts the Grants of this epoch to this agent, from 1."""
    incarnation: Natural
    beat: Natural
    """With the incarnation, the Report that it answers: the lease begins when that was sent."""
    lease_ns: Natural
    alone: Alone
    shares: dict[str, Share]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A controller to an agent: I lead now; keep what you have, and report to me."""

    schema: int = SCHEMA
    agent: str
    epoch: Natural


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """A controller to an agent: which traffic each of its flows is."""

    schema: int = SCHEMA
    agent: str
    members: dict[str, Member]
    """By flow."""
    lent: frozenset[str] = frozenset()
    """Flows whose shares others have while they are idle."""


def encode(message: Report | Grant | Call | Places) -> bytes:
    """As it lies on the bus."""
    return msgspec.json.encode(message)


def decode(value: bytes, kind: type[M], where: str) -> M:
    """The message under the key ``where``. Raises HowdahError for one of another version, or that is none."""
    return document.decode(
        value, kind, schema=SCHEMA, name="message", where=where, mend="run the same howdah on every host"
    )
