"""The messages between a controller and the agents of its hosts, as JSON, and their keys on the bus.

Every message tells a whole state, so any of them may be lost, late, doubled or overtaken: the newest is
enough. Times are spans, never instants: no two clocks are compared. Rates are on the wire.

An agent watches the keys of messages to itself alone, so that fifty of them do not each read all messages.
"""

from typing import Annotated, TypeVar

import msgspec

from howdah import HowdahError, document
from howdah.control.policy import Alone
from howdah.control.policy.members import Member

SCHEMA = 2
BEATS_PER_LEASE = 4
"""Reports an agent sends in the time of a lease: three may be lost before a share is."""

REPORTS = "report."
AGENTS = "agent."
LEADING = "leading."
LEADER = f"{LEADING}controller"

Natural = Annotated[int, msgspec.Meta(ge=0)]


class FlowShare(msgspec.Struct, frozen=True, array_like=True):
    """The rates that a flow may send at. On the wire it is a pair, because there are many."""

    rate_bps: Natural
    """The rate while the lease lasts; never below the minimum."""
    minimum_bps: Natural
    """The rate after the lease."""


class Measured(msgspec.Struct, frozen=True, array_like=True):
    """The bytes that a flow really sent since its share was made, and its connections."""

    sent_bytes: Natural
    """Bytes on the wire."""
    acked_bytes: Natural
    """Bytes of payload."""
    connections: Natural
    """Connections that are open now."""
    waiting: Natural = 0
    """Connections with data that waits for nothing but its turn."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """An agent to all controllers, at every beat and when it has done what it was told."""

    schema: int = SCHEMA
    agent: str
    incarnation: Natural
    """The start of the agent's process, in µs of the wall clock. No two of a host have the same."""
    beat: Natural
    """Counts the Reports of this incarnation."""
    epoch: Natural
    """The largest that reached it, which is the one it follows; 0: none yet."""
    seq: Natural
    """The last Grant of that epoch that it has put into force; 0: none yet."""
    left_ns: Natural
    """The time until the last of its leases runs out."""
    shares: dict[str, FlowShare]
    """The shares by flow, with the rates in force now."""
    measured: dict[str, Measured] = {}
    idle: frozenset[str] = frozenset()
    """Flows with nothing to send, of those that it was told to watch for that."""
    placed: frozenset[str] | None = None
    """Flows whose rule is in force, or waits for nothing but its cgroup; null: an agent that does not say."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A controller to an agent: the shares of all its flows. It replaces every Grant before it."""

    schema: int = SCHEMA
    agent: str
    epoch: Natural
    seq: Natural
    """Counts the Grants of this epoch to this agent, from 1."""
    incarnation: Natural
    beat: Natural
    """The beat of the Report that it answers: the lease begins when that was sent."""
    lease_ns: Natural
    alone: Alone
    shares: dict[str, FlowShare]


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
    """The members by flow."""
    lent: frozenset[str] = frozenset()
    """Flows whose shares others have while they are idle."""


class Leading(msgspec.Struct, frozen=True):
    """The leader, for people and for other controllers; it decides nothing about shares."""

    controller: str
    epoch: int
    policy: str | None = None
    """The name of its policy; null: an earlier howdah does not say."""
    digest: str | None = None
    """The digest of what that policy says."""


Message = Report | Grant | Call | Places
M = TypeVar("M", Report, Grant, Call, Places)


def agent_keys(agent: str) -> str:
    """The beginning of the keys of all messages to an agent."""
    return f"{AGENTS}{agent}."


def key_of(message: Message) -> str:
    """The key under which the message lies."""
    if isinstance(message, Report):
        return f"{REPORTS}{message.agent}"
    return f"{agent_keys(message.agent)}{type(message).__name__.lower()}"


def keys_about(agent: str) -> list[str]:
    """The keys of all messages from and to an agent."""
    return [REPORTS + agent, *(agent_keys(agent) + kind for kind in ("grant", "call", "places"))]


def encode(message: Message) -> bytes:
    """The message as it lies on the bus."""
    return msgspec.json.encode(message)


def decode(value: bytes, kind: type[M], key: str) -> M:
    """The message under a key.

    Raises HowdahError for a value that is none, for one of another version, and for one under the key of
    another agent.
    """
    message = document.decode(
        value, kind, schema=SCHEMA, name="message", where=key, mend="run the same howdah on every host"
    )
    if key_of(message) != key:
        raise HowdahError(f"{key} on the bus is about {message.agent}; give each host a name of its own")
    return message
