"""Files and folders for this user alone, whatever the umask: records and digests name every file copied."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def folder(path: Path) -> None:
    """Makes a folder, and those above it that are missing. Raises OSError."""
    if path.is_dir():
        return
    folder(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise


def create(file: Path) -> None:
    """Makes an empty file; one that is there stays as it is. Raises OSError."""
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Has ``is_held`` say, of any process, that the file is in use, where its file system has locks."""
    with file.open("rb") as stream:
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_SH)
        yield


def is_held(file: Path) -> bool:
    """Whether a process holds the file. Raises OSError where it cannot be opened."""
    with file.open("rb+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def opener(file: str, flags: int) -> int:
    """An opener for open() that makes files for this user alone."""
    return os.open(file, flags, 0o600)


def close_to_others(path: Path) -> None:
    """Takes the rights of others from a folder of this user's, which an older howdah may have made."""
    found = path.stat()
    if found.st_uid == os.getuid() and found.st_mode & 0o077:
        path.chmod(found.st_mode & 0o7700)
