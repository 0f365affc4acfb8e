"""The destinations that any program may resume, from what the archive remembers of paths.

Connections of other programs are not a copy's streams: the first one to a destination sends what all of them
may send at once, and others begin as ever for a while (``hd_resume``).
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from howdah import HowdahError
from howdah.archive.paths import named
from howdah.cc.resume import Destination, Saved
from howdah.probing.far_end import resolved
from howdah.values.memory import LIFETIME_S, PathMemory
from howdah.values.record import lab_link


class Remembered(NamedTuple):
    """What one destination is told to carry."""

    path: str
    destination: Destination
    saved: Saved


def destinations(memories: Iterable[PathMemory], then: str) -> list[Remembered]:
    """Those that this host sends to and whose memory may be used, until it is too old; by path.

    ``then`` is the congestion control that goes on. A host without an address that is known, or can be looked
    up, is left out. In a lab only its own path counts, in its own namespace: labs have the same addresses.
    """
    link = lab_link()
    here = None if link is None else named("", None, link)
    namespace = None if link is None else Path("/proc/self/ns/net").stat().st_ino
    found = []
    for memory in memories:
        mine = memory.path == here if link is not None else not memory.path.startswith("lab ")
        if memory.direction != "push" or not mine or memory.why_not() is not None:
            continue
        address = memory.address or _address(memory.path)
        if address is None or not memory.capacity_bytes:
            continue
        saved = Saved(
            capacity_bytes=memory.capacity_bytes,
            rtt_s=memory.rtt_s,
            valid_s=LIFETIME_S - memory.age_s,
            then=then,
        )
        found.append(Remembered(memory.path, Destination(address, namespace=namespace), saved))
    return found


def _address(host: str) -> str | None:
    try:
        return resolved(host, host)[0]
    except HowdahError:
        return None
