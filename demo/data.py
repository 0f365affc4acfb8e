"""What the demo copies, and where: in memory when there is room, in a folder of its own either way."""

import contextlib
import dataclasses
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench import memory
from howdah import HowdahError
from howdah._native import format_bytes

BIG_BYTES = 4 * 2**30
LIBRARY_BYTES = 600 * 2**20
"""Room for a large standard library."""
_OTHERS_BYTES = 3 * 2**30
"""Left for the emulated link, which holds more than one BDP, and for everything else."""
_WORDS = 2**20
_MEMORY = Path("/dev/shm")  # noqa: S108, a file system in memory is the point


@dataclasses.dataclass(frozen=True)
class Place:
    """Where both sides lie."""

    folder: Path
    what: str
    """For people: ``memory`` or ``disk``, and where."""


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """A folder with room for both sides, in memory if it fits; needs a single thread.

    For root that is a file system only this process and its children can see, which the kernel takes
    back whatever ends them. Other folders outlive ``kill -9``. Raises HowdahError when there is no room.
    """
    needed = 2 * (BIG_BYTES + LIBRARY_BYTES)
    in_memory = _MEMORY.is_dir() and memory.host_bytes("MemAvailable") > needed + _OTHERS_BYTES
    if in_memory and os.geteuid() == 0:
        memory.own_mounts()
        memory.mount(_MEMORY, needed, "within_size")
        yield Place(_MEMORY, "memory")
        return
    in_memory = in_memory and shutil.disk_usage(_MEMORY).free > needed
    with tempfile.TemporaryDirectory(prefix="howdah-demo-", dir=_MEMORY if in_memory else None) as name:
        free = shutil.disk_usage(name).free
        if free < needed:
            raise HowdahError(
                f"the demo needs {format_bytes(needed)} for both sides and {name} has {format_bytes(free)}; "
                "set TMPDIR to a folder with more room"
            )
        yield Place(Path(name), "memory" if in_memory else f"{name}, on disk")


def copy_library(folder: Path) -> Path:
    """Copies the Python standard library into ``folder``; returns where it is there."""
    library = Path(sysconfig.get_path("stdlib"))
    others = shutil.ignore_patterns("site-packages", "dist-packages")
    return Path(shutil.copytree(library, folder / library.name, symlinks=True, ignore=others))


def make(tree: Path, far: Path) -> int:
    """A copy of the Python standard library, one file that does not compress, a link; returns the files.

    Memory for the same once more is touched in ``far``.
    """
    numbers = np.random.PCG64(1)
    with memory.touching(far, BIG_BYTES + LIBRARY_BYTES):
        library = copy_library(tree)
        with (tree / "big").open("wb") as stream:
            for _ in range(BIG_BYTES // (8 * _WORDS)):
                numbers.random_raw(_WORDS).tofile(stream)
    (tree / "library").symlink_to(library.name)
    return sum(len(files) for _, _, files in os.walk(tree))
