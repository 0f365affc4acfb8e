"""The sources of a copy: those on this host, looked at before ssh connects, and patterns at a far host."""

import os
import stat
import time

from howdah import HowdahError, decoding, interrupt
from howdah.arguments import NotHere
from howdah.remote.endpoints import Route
from howdah.remote.far import TICK_S, ConnectionLost
from howdah.remote.messages import Expanded
from howdah.remote.standby import FarSession
from howdah.text import printable
from howdah.transfer.display import Display
from howdah.transfer.what import is_content


def check(route: Route) -> None:
    """Says at once, before ssh has connected, that no source on this host is there.

    If only some are missing, the others are copied, and the transfer names the missing ones.
    """
    if route.direction == "push" and route.origin is None and not route.pipe:
        _looked_at(route.sources)


def size(route: Route) -> int | None:
    """Bytes to move when that is known without looking far: plain files on this host."""
    if route.direction == "pull" or route.origin is not None or route.pipe:
        return None
    found = _looked_at(route.sources)
    return sum(each.st_size for each in found) if all(stat.S_ISREG(each.st_mode) for each in found) else None


def _looked_at(sources: list[bytes]) -> list[os.stat_result]:
    """Looks at the sources that are there. Raises HowdahError, which names the first one, where none is."""
    found: list[os.stat_result] = []
    problem: HowdahError | None = None
    for source in sources:
        try:
            found.append(os.lstat(source))
        except OSError as error:
            problem = problem or HowdahError(
                f"cannot read {printable(source)}: {error.strerror}; check the name and its permissions"
            )
    if not found and problem is not None:
        raise problem
    return found


_SPECIAL = b"*?[\\"
_SAID_AFTER_S = 2.0


def has_patterns(route: Route) -> bool:
    """Whether a source at a far host may be a pattern."""
    far = route.direction == "pull" or route.origin is not None
    return far and any(byte in source for source in route.sources for byte in _SPECIAL)


def expanded(route: Route, listed: bool, sender: FarSession, display: Display) -> Route:
    """The route with what its sources lead to. Raises HowdahError where that is nothing, or too much.

    ``listed``: the copy is of what a list names below its only source.
    """
    session, far = sender.session, sender.far
    session.expand(route.sources)
    began_s = time.monotonic()
    try:
        while (answer := session.expanded(TICK_S)) is None:
            interrupt.check()
            far.drain()
            if far.exit_status(0.0) is not None:
                raise ConnectionLost("the far end ended before it had listed the matching names")
            if time.monotonic() - began_s > _SAID_AFTER_S:
                display.waiting("the far end looks for names that match")
    finally:
        # What it wrote with its hello may arrive only now, and if nothing matches, nothing else shows it.
        display.far_says(far.new_stderr())
    sources = decoding.from_json(answer, Expanded).paths
    if any(map(is_content, sources)) and not any(map(is_content, route.sources)):
        # No name is one. With --delete, a far end that lies would choose so what is cleaned.
        raise HowdahError(
            "the far end broke the protocol: it lists the content of a folder, and names were asked for"
        )
    if len(sources) > 1 and (route.pipe or listed):
        takes = "a pipe takes one" if route.pipe else "{files_from} takes one source"
        raise NotHere(f"{len(sources):,} files and folders there match, and {takes}; name one")
    is_folder = route.destination_is_folder or len(sources) > 1
    return route._replace(sources=sources, destination_is_folder=is_folder)
