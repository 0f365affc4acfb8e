"""The sources of a copy that are on this host, looked at before ssh has connected."""

import os
import stat

from howdah import HowdahError
from howdah.remote.endpoints import Route
from howdah.text import printable


def check(route: Route) -> None:
    """Says at once, before ssh has connected, that a source on this host is not there."""
    if route.direction == "push" and route.origin is None and not route.pipe:
        for source in route.sources:
            _looked_at(source)


def size(route: Route) -> int | None:
    """Bytes to move when that is known without looking far: plain files on this host."""
    if route.direction == "pull" or route.origin is not None or route.pipe:
        return None
    found = [_looked_at(source) for source in route.sources]
    return sum(each.st_size for each in found) if all(stat.S_ISREG(each.st_mode) for each in found) else None


def _looked_at(source: bytes) -> os.stat_result:
    try:
        return os.lstat(source)
    except OSError as error:
        raise HowdahError(
            f"cannot read {printable(source)}: {error.strerror}; check the name and its permissions"
        ) from None
