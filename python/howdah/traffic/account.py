"""The account of a run of background traffic: the part of its record that other records have not.

Bytes are payload, of UDP with the 28 bytes that each datagram begins with. Times are seconds after the
start of the run.
"""

from typing import Literal

import msgspec

from howdah.traffic.pattern import Pattern
from howdah.values import Count, Seconds


class SourceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a UdpSource (crates/traffic/src/source.rs)."""

    offered: Count
    """Datagrams that the rate and the time asked for."""
    sent: Count
    """Datagrams that left this host."""
    sent_bytes: Count


class SinkCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a UdpSink (crates/traffic/src/sink.rs), in datagrams."""

    received: Count
    """Datagrams that came for the first time."""
    received_bytes: Count
    reordered: Count
    """Received datagrams that came after one that was sent later (RFC 4737)."""
    doubled: Count
    too_late: Count
    """Datagrams a million behind the newest; they may be new or doubled."""
    overflowed: Count
    """Datagrams dropped at the far socket: the far host lost them, and not the path."""
    strange: Count
    """Datagrams of somebody else."""
    knocks: Count


class LoadSample(msgspec.Struct, frozen=True, kw_only=True):
    """A load at one instant."""

    t_s: float
    sent_bytes: int | None = None
    """Bytes that left this host; null for TCP."""
    received_bytes: int


class TcpPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A time that a TCP load was on."""

    begin_s: float
    end_s: float
    """The time when everything sent had arrived."""
    bytes: int
    retransmissions: int | None = None
    """Segments sent again; null when the period was cut off."""
    rtt_min_s: float | None = None


class BlastAccount(msgspec.Struct, frozen=True, kw_only=True):
    """One object of an RBUDP load."""

    begin_s: float
    end_s: float
    rounds: int
    whole: bool
    """Whether the object arrived whole; false: time was over before."""
    digest: str | None = None
    """The sum of its pieces' BLAKE3 (crates/traffic/src/content.rs), equal at both ends; null: not whole."""


class LoadAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of one load."""

    name: str
    kind: Literal["tcp", "udp", "rbudp"]
    congestion_control: str | None = None
    """The congestion control that the socket had; null for UDP and RBUDP."""
    datagram_bytes: Count | None = None
    """Payload of a datagram; null for TCP."""
    offered_bytes: Count | None = None
    """The bytes that its rate and time asked for; null for TCP, which takes what it gets."""
    received_bytes: Count | None
    """Null when the far end was gone before it could tell."""
    source: SourceCounts | None = None
    """The counts of this host; null for TCP."""
    sink: SinkCounts | None = None
    """The counts of the far end; null for TCP, and when the far end was gone before it could tell."""
    periods: list[TcpPeriod] = []
    blasts: list[BlastAccount] = []
    samples: list[LoadSample] = []

    @property
    def lost(self) -> int | None:
        """Datagrams that were sent and did not come, in whatever round of RBUDP; null: not known."""
        if self.source is None or self.sink is None:
            return None
        came = self.sink.received + self.sink.doubled + self.sink.too_late
        return max(0, self.source.sent - came)

    @property
    def sent_bytes(self) -> int | None:
        """Bytes that left this host; null for TCP."""
        return None if self.source is None else self.source.sent_bytes

    @property
    def retransmissions(self) -> int:
        """Segments that TCP sent again."""
        return sum(period.retransmissions or 0 for period in self.periods)


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The field ``traffic`` of a Record of kind traffic."""

    pattern: Pattern
    elapsed_s: Seconds
    """Seconds from the start until both ends had stopped."""
    loads: list[LoadAccount]
