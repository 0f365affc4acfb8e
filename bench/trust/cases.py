"""The paths and the kills of ``make bench-trust``: what is drawn by seed, and what is counted on the wire."""

import random
from typing import Literal, NamedTuple, get_args

from howdah import lab
from howdah.values.link import DirectionStats, LinkSpec

Killed = Literal["near", "far", "both"]
KILLED: tuple[Killed, ...] = get_args(Killed)

HEADERS_BYTES = 20 + 32
"""The headers of a segment: IPv4, and TCP with time stamps."""
SPARED_BYTES = 3 * 2**30
"""Memory left to a lab, both ends and whatever else runs."""


class Path(NamedTuple):
    """A path between two hosts, alike both ways."""

    rate_bps: int | None
    """null: as fast as the machine carries."""
    rtt_ms: float

    @property
    def name(self) -> str:
        rate = "as fast as two cores carry" if self.rate_bps is None else f"{self.rate_bps / 1e9:g} Gb/s"
        return f"{rate}, {self.rtt_ms:g} ms"

    @property
    def link(self) -> LinkSpec:
        return lab.symmetric(self.rate_bps, round(self.rtt_ms * 1e6))


class Kill(NamedTuple):
    """Who is killed with -9, in which direction of a copy, and when."""

    seed: int
    push: bool
    killed: Killed
    at: float
    """The part of what one whole copy puts on the wire."""


def kill(seed: int) -> Kill:
    """The kill of a seed: directions and ends in turn, the point drawn."""
    drawn = random.Random(seed)  # noqa: S311, no secret
    return Kill(seed, seed % 2 == 0, KILLED[seed % len(KILLED)], drawn.uniform(0.01, 0.99))


def payload_bytes(way: DirectionStats) -> int:
    """What TCP segments that a direction delivered carried; those that the link dropped do not count."""
    return way.ip_bytes - way.segments * HEADERS_BYTES


def in_memory(available_bytes: int, size_bytes: int) -> tuple[bool, bool]:
    """Whether source and target fit into memory beside SPARED_BYTES; the target comes first."""
    free_bytes = available_bytes - SPARED_BYTES
    return free_bytes >= 2 * size_bytes, free_bytes >= size_bytes
