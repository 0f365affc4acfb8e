"""Sources with wildcards at a far host: the far end that has them says what they lead to."""

import time

from howdah import HowdahError, decoding, interrupt
from howdah.arguments import NotHere
from howdah.remote.endpoints import Route
from howdah.remote.far import TICK_S, ConnectionLost
from howdah.remote.messages import Expanded
from howdah.remote.standby import FarSession
from howdah.transfer.display import Display
from howdah.transfer.what import is_content

_SPECIAL = b"*?[\\"
_SAID_AFTER_S = 2.0


def has_any(route: Route) -> bool:
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
