"""What is copied: one file that does not compress, and a folder of small ones; in memory."""

import contextlib
import dataclasses
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import memory

LARGE = "large"
"""The folder for large files below the scratch folder: a file system of its own, with huge pages."""
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
def scratch(file_bytes: int, files_bytes: int) -> Iterator[Path]:
    """A folder in memory that servers without privilege can write to. Needs root; raises HowdahError."""
    with tempfile.TemporaryDirectory(prefix="howdah-bench-") as name:
        folder = Path(name)
        memory.own_mounts()
        memory.mount(folder, files_bytes, "never")
        (folder / LARGE).mkdir()
        memory.mount(folder / LARGE, file_bytes, "always")
        try:
            yield folder
        finally:
            for mounted in (folder / LARGE, folder):
                subprocess.run(["umount", "--lazy", mounted], check=False)


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
