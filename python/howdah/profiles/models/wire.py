"""What a segment carries, and what it takes on the wire."""

from typing import NamedTuple

IP_TCP_BYTES = 52
"""IPv4 20, TCP 20, and the timestamps that Linux always sends, 12."""
ETHERNET_BYTES = 38
"""Preamble 8, header 14, checksum 4, gap 12."""


class Segment(NamedTuple):
    """Of a path's MTU."""

    mtu_bytes: int

    @property
    def payload_bits(self) -> float:
        """1448 bytes of 1500."""
        return 8.0 * (self.mtu_bytes - IP_TCP_BYTES)

    @property
    def wire_bits(self) -> float:
        """1538 bytes for 1500."""
        return 8.0 * (self.mtu_bytes + ETHERNET_BYTES)
