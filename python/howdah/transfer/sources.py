"""The sources of a copy that are on this host, looked at before ssh has connected."""

import os
import stat

from howdah import HowdahError
from howdah.remote.endpoints import Route
from howdah.text import printable


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
