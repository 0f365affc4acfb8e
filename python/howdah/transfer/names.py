"""The list of names of a copy: a file, or what came by standard input or a pipe, kept while the copy runs."""

import os
import shutil
import stat
import sys
import weakref
from pathlib import Path
from typing import IO, NamedTuple

from howdah import HowdahError
from howdah.text import printable


class Kept:
    """A file without a name, open as long as this is there."""

    def __init__(self, source: IO[bytes]) -> None:
        import tempfile  # noqa: PLC0415, slow to load, and few copies need it

        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(source, file)
            file.flush()
            self._fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._fd)

    @property
    def path(self) -> bytes:
        """A path that leads to it in this process."""
        return b"/proc/self/fd/%d" % self._fd


class NamesList(NamedTuple):
    """A list of names below the source."""

    path: bytes
    nul_separated: bool
    kept: Kept | None = None
    """The file that ``path`` leads to, where it has no name."""


def listed(name: str | os.PathLike[str], *, nul_separated: bool) -> NamesList:
    """The list of that name; ``-`` is standard input. Raises HowdahError when it cannot be read."""
    path = os.fsencode(name)
    try:
        if path == b"-":
            return _kept(sys.stdin.buffer, nul_separated)
        with Path(name).open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _kept(file, nul_separated)
    except OSError as error:
        raise HowdahError(
            f"cannot read the list of names {printable(path)}: {error.strerror}; check the name"
        ) from None
    return NamesList(path, nul_separated)


def _kept(source: IO[bytes], nul_separated: bool) -> NamesList:
    """Keeps what can be read once: a copy that is begun again reads it again."""
    kept = Kept(source)
    return NamesList(kept.path, nul_separated, kept)
