"""A file that somebody named, written beside its place and renamed, so that it is always whole.

A rename takes the place of whatever has the name. So a symbolic link is followed, and what is no regular file
(a device, a FIFO, a socket, a folder) is refused: as root, /dev/null would become a file.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def check(file: Path) -> None:
    """Raises OSError, with a reason for people, where a file of this name cannot be replaced."""
    try:
        # The kernel follows the link: it refuses one of another user in a folder like /tmp.
        kind = _KINDS.get(stat.S_IFMT(os.stat(file).st_mode))  # noqa: PTH116
    except FileNotFoundError:
        return
    if kind is not None:
        raise OSError(errno.EEXIST, f"it is {kind}, and only a regular file is replaced; give another name")


@contextmanager
def replaced(file: Path) -> Iterator[BinaryIO]:
    """The new content, which has the name once the block has ended well. Raises OSError, as ``check``."""
    check(file)
    place = Path(os.path.realpath(file))
    new = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        # Left by a process of this number that was killed.
        new.unlink(missing_ok=True)
        with new.open("xb") as stream:
            yield stream
        new.replace(place)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)
