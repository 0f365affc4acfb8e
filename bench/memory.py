"""File systems in memory for what is copied, seen by this process and its children alone.

The kernel takes them back when the last of these processes ends, in whatever way.
"""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Literal

from howdah import HowdahError
from howdah._native import unshare

Pages = Literal["never", "within_size", "always"]


def own_mounts() -> None:
    """What this process mounts from here on is its own. Needs root."""
    unshare(user=False, pid=False, mount=True)
    _mount("--make-rprivate", "/")


def mount(folder: Path, size_bytes: int, pages: Pages) -> None:
    """Mounts one of at most ``size_bytes`` on ``folder``.

    Huge pages (``pages`` is tmpfs(5)'s ``huge``) are what XFS and ext4 give to long writes; with small ones
    the page allocator is most of what a copy at 10 Gb/s does. Kernels without huge pages give small ones.
    """
    options = f"size={size_bytes},mode=0755"
    try:
        _mount("--types", "tmpfs", "--options", f"{options},huge={pages}", "howdah", str(folder))
    except HowdahError:
        _mount("--types", "tmpfs", "--options", options, "howdah", str(folder))


def touch(folder: Path, size_bytes: int) -> None:
    """Has a file of ``size_bytes`` in ``folder`` for a moment.

    In some virtual machines the first use of a page is slow. It lasts while a lab is up
    (howdah.lab.settings.PAGE_REPORTING).
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _fill(file, size_bytes)


@contextlib.contextmanager
def touching(folder: Path, size_bytes: int) -> Iterator[None]:
    """The same beside what the block makes: at its end both are there."""
    # A thread: writing waits for the kernel, not for the interpreter.
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file, ThreadPoolExecutor(1) as pool:
        filled = pool.submit(_fill, file, size_bytes)
        yield
        filled.result()


def _fill(file: FileIO, size_bytes: int) -> None:
    chunk = bytes(2**23)
    while size_bytes > 0:
        size_bytes -= file.write(chunk[:size_bytes])


def _mount(*arguments: str) -> None:
    result = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise HowdahError(f"cannot mount a file system in memory: {result.stderr.strip()}")
