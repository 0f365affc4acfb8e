"""What a controller knows, for people and programs: who has what, what each really sends, who asks for what.

Rates are on the wire unless a payload is meant, in b/s. What is not known is null.
"""

import msgspec

from howdah.control.orders import Terms

SCHEMA = 1


class AskedStatus(msgspec.Struct, frozen=True, kw_only=True, rename={"traffic_class": "class"}):
    """Somebody asks for a class."""

    traffic_class: str
    who: str
    until_unix_s: float | None
    """By the clock of who took the order; null: until it is released."""
    host: str | None = None
    """For whom; null: for every host of the class."""


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A host of the policy, or one that reported."""

    name: str
    heard_s: float | None
    """Ago; null: never, since this controller began."""
    lease_left_s: float | None
    """Until the last of its leases runs out, if it has not been renewed since it was heard."""
    drained: bool


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True, rename={"traffic_class": "class"}):
    """A flow of the policy."""

    flow: str
    traffic_class: str
    host: str
    to: str | None
    """Connections of the host to this prefix, as 10.9.0.0/16 (null: anywhere) …"""
    ports: tuple[int, int]
    """… of which one end has a port from the first to the last of these …"""
    cgroup: str | None = None
    """… and that are of this cgroup or one below it; null: of any."""
    share_bps: int | None
    """In force now, by what its host said last; 0: ordinary congestion control."""
    target_bps: int | None
    """What it is to have; null: this controller does not lead."""
    minimum_bps: int
    """What it falls back to."""
    sent_bps: int | None
    """Really, over the last second, or between the last two reports where they are rarer."""
    acked_bps: int | None
    """Of payload, likewise."""
    connections: int | None
    idle: bool = False
    """It has nothing to send, so that others have what it would have; only of a class that lends it."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All of it at one instant."""

    schema: int = SCHEMA
    unix_s: float
    policy: str
    guarantee_bps: int
    trusted_bps: int
    """What is given away of it."""
    free_bps: int | None
    """What of that nobody can have now; null: this controller does not lead."""
    controller: str
    """Who says all this."""
    leader: str | None
    """Null: nobody is known to lead."""
    epoch: int | None
    """Of the leader's term."""
    revision: int
    """Of the newest order taken in, as the bus counts."""
    settled: bool
    """All that these orders want is in force. Always false where this controller does not lead."""
    askable: list[str]
    """Classes that can be asked for."""
    asked: list[AskedStatus]
    changed: dict[str, Terms]
    """By class, the terms ordered in place of the policy's."""
    hosts: list[HostStatus]
    flows: list[FlowStatus]

    @property
    def leads(self) -> bool:
        """Whether who says this is the leader."""
        return self.leader == self.controller
