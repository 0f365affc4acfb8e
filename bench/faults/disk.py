"""A disk in a file, under the target of a case: it can lose its power, and give back what nobody wrote.

As a program it flips a bit: ``disk.py IMAGE PART``, with PART in hexadecimal. It needs nothing but Python
then, so that the far host can run it in the middle of a copy.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from howdah.lab import Lab

SIZE_BYTES = 256 << 20
_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, ``_IOR('X', 125, __u32)`` (fs/ext4/ext4.h)."""
_WITHOUT_JOURNAL = struct.pack("I", 2)
"""EXT4_GOING_FLAGS_NOLOGFLUSH: what the journal has in memory alone is lost, as in a power cut."""
_BUSY_S = 10.0
_POLL_S = 0.05


class Disk:
    """An ext4 in the new file ``image``, mounted on ``root`` in the mount namespace of this process.

    Raises CalledProcessError where the machine makes or mounts none.
    """

    def __init__(self, image: Path, root: Path) -> None:
        self.image, self.root = image, root
        with image.open("wb") as stream:
            stream.truncate(SIZE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        self._mount()

    def flush(self) -> None:
        """Puts all of it on stable storage."""
        subprocess.run(["sync", "--file-system", self.root], check=True)

    def crash(self) -> None:
        """Cuts its power: each later write and flush fails with EIO, and what was not flushed is lost."""
        root = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(root, _SHUTDOWN, _WITHOUT_JOURNAL)
        finally:
            os.close(root)

    def restart(self, wan: "Lab") -> bool:
        """Mounts it again, here and in the lab, so that its journal is replayed; false if it stays in use."""
        until = time.monotonic() + _BUSY_S
        unmount: list[str | Path] = ["umount", self.root]
        while wan.run("far", unmount, stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
        subprocess.run(unmount, check=True)
        self._mount()
        found: list[str | Path] = ["findmnt", "--noheadings", "--output", "SOURCE", self.root]
        device = subprocess.run(found, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        wan.run("far", ["mount", device, self.root], check=True)
        return True

    def gives(self, file: Path) -> bytes:
        """What the disk gives back for a file, whatever the page cache holds."""
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return stream.read()

    def _mount(self) -> None:
        # A name that comes too early is on the disk within a second.
        subprocess.run(["mount", "--options", "loop,commit=1", self.image, self.root], check=True)


def flip(image: Path, part: bytes) -> bool:
    """Flips the lowest bit of the first byte of ``part`` where the image has it; false if it has it not."""
    with image.open("r+b", buffering=0) as stream:
        for begin, end in _written(stream.fileno()):
            at = os.pread(stream.fileno(), end - begin, begin).find(part)
            if at >= 0:
                os.pwrite(stream.fileno(), bytes([part[0] ^ 1]), begin + at)
                return True
    return False


def _written(file: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes, from where to where."""
    end = 0
    with contextlib.suppress(OSError):  # ENXIO: nothing but a hole is left.
        while True:
            begin = os.lseek(file, end, os.SEEK_DATA)
            end = os.lseek(file, begin, os.SEEK_HOLE)
            yield begin, end


if __name__ == "__main__":
    sys.exit(0 if flip(Path(sys.argv[1]), bytes.fromhex(sys.argv[2])) else 1)
