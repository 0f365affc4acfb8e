"""The status of a controller, for people and programs: who has what, what each sends, who asks for what.

Rates are on the wire unless a payload is meant, in b/s. What is not known is null.
"""

import msgspec

from howdah.control.policy.orders import TermsTable

SCHEMA = 1


class AskedStatus(msgspec.Struct, frozen=True, kw_only=True, rename={"traffic_class": "class"}):
    """A request for a class."""

    traffic_class: str
    who: str
    until_unix_s: float | None
    """The end by the clock of the controller that took the order; null: its release."""
    host: str | None = None
    """The host that the share is for; null: every host of the class."""


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A host of the policy, or one that reported."""

    name: str
    heard_s: float | None
    """The age of its last report; null: there is none since this controller began."""
    lease_left_s: float | None
    """The time until the last of its leases runs out, unless it was renewed since that report."""
    drained: bool
    leased: bool = True
    """Whether it had any lease when it reported last."""


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True, rename={"traffic_class": "class"}):
    """A flow of the policy."""

    flow: str
    traffic_class: str
    host: str
    to: str | None
    """The flow is connections of the host to this prefix, as 10.9.0.0/16; null: anywhere."""
    ports: tuple[int, int]
    """One end has a port from the first to the last of these."""
    cgroup: str | None = None
    """The connections are of this cgroup or one below it; null: of any."""
    share_bps: int | None
    """The rate in force now by the last report of its host; 0: ordinary congestion control."""
    target_bps: int | None
    """The share that it is to have; null: this controller does not lead."""
    minimum_bps: int
    """The rate that it falls back to."""
    sent_bps: int | None
    """The rate really sent over the last second, or between the last two reports where they are rarer."""
    acked_bps: int | None
    """The rate of acknowledged payload over the same time."""
    connections: int | None
    idle: bool = False
    """Whether it has nothing to send, so that others have its share; only of a class that lends it."""
    placed: bool | None = None
    """Whether a rule gives it the share, or waits only for its cgroup; null: its agent says nothing."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole status at one instant."""

    schema: int = SCHEMA
    unix_s: float
    policy: str
    guarantee_bps: int
    trusted_bps: int
    """The part of it that is given away."""
    free_bps: int | None
    """The part of that which nobody can have now; null: this controller does not lead."""
    controller: str
    """The controller that this is the status of."""
    leader: str | None
    """The controller that leads; null: none is known to."""
    epoch: int | None
    """The number of the leader's term."""
    revision: int
    """The revision of the newest order taken in, as the bus counts."""
    settled: bool
    """Whether all that is ordered is in force. Always false where this controller does not lead."""
    askable: list[str]
    """Classes that can be asked for."""
    asked: list[AskedStatus]
    changed: dict[str, TermsTable]
    """The terms ordered in place of the policy's, by class."""
    hosts: list[HostStatus]
    flows: list[FlowStatus]
    trouble: str | None = None
    """The reason why the bus does not answer this controller; null: it does."""
    differs: bool = False
    """Whether the leader's policy, of the same name, says something else than this controller's."""

    @property
    def leads(self) -> bool:
        """Whether this controller is the leader."""
        return self.leader == self.controller

    @property
    def unplaced(self) -> list[FlowStatus]:
        """The flows that have no rule, by the word of their agents."""
        return [flow for flow in self.flows if flow.placed is False]
