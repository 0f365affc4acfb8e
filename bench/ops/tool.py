"""What the bench asks of a tool: servers on the right, programs on the left that send until ended."""

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.peers.tool import Command
from howdah.lab import Lab

TCP_HEADERS_BYTES = 14 + 20 + 32
"""Of Ethernet, IPv4 and TCP with time stamps, as Linux counts a packet of any size on a device."""
UDP_HEADERS_BYTES = 14 + 20 + 8


@dataclasses.dataclass(frozen=True)
class Stage:
    """Where tools play: the lab, a folder in memory that all its hosts see, and how long they will send."""

    lab: Lab
    scratch: Path
    bdp_bytes: int
    """Of the bottleneck."""
    queue_bytes: int
    send_s: float
    """At least; they are ended then."""


class Sender(NamedTuple):
    """A program on the left host of a pair."""

    pair: int
    command: Command


class Tool(Protocol):
    """A way to send from left hosts to the right ones, at the same place of their sides."""

    @property
    def headers_bytes(self) -> int:
        """Of a packet, as the kernel counts them on a device; the rest is payload."""

    def serving(self, stage: Stage, pairs: Sequence[int]) -> AbstractContextManager[None]:
        """Its servers on the right hosts of ``pairs``, up for as long as the context lasts."""

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        """What to start on their left hosts."""


def address(stage: Stage, pair: int) -> str:
    """Of the right host of a pair."""
    return stage.lab.addresses[right(pair)]


def left(pair: int) -> str:
    return f"left{pair}"


def right(pair: int) -> str:
    return f"right{pair}"
