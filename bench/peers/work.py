"""What is copied: one file that does not compress, and a folder of small ones; in memory where it fits."""

import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108, a file system in memory is the point
_CHUNK_BYTES = 64 * 2**20
_FOLDER_FILES = 500


@dataclasses.dataclass(frozen=True)
class Work:
    kind: str
    """``file`` or ``files``."""
    source: Path
    files: int
    bytes: int


@contextlib.contextmanager
def scratch(room_bytes: int) -> Iterator[Path]:
    """A folder that servers without privilege can write to; in memory if there is twice the room."""
    base = None
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * room_bytes:
        base = _MEMORY
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir=base) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def one_file(source: Path, size_bytes: int) -> Work:
    with source.open("wb") as stream:
        left = size_bytes
        while left:
            left -= stream.write(os.urandom(min(left, _CHUNK_BYTES)))
    return Work("file", source, 1, size_bytes)


def small_files(source: Path, files: int, size_bytes: int) -> Work:
    for number in range(files):
        folder = source / f"{number // _FOLDER_FILES:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06}").write_bytes(os.urandom(size_bytes))
    return Work("files", source, files, files * size_bytes)
