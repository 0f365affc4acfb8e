"""File systems in memory for what is copied, seen by this process and its children alone.

The kernel takes them back when the last of these processes ends, in whatever way.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


@contextlib.contextmanager
def touching(folder: Path, size_bytes: int) -> Iterator[None]:
    """Has a file of ``size_bytes`` in ``folder`` at the end of the block, made beside it, and takes it away.

    In some virtual machines the first use of a page is slow. It lasts while a lab is up
    (howdah.lab.settings.PAGE_REPORTING).
    """
    path = folder / "touch"
    # Threads: writing waits for the kernel, not for the interpreter.
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(_fill, path, size_bytes)
        try:
            yield
            written.result()
        finally:
            pool.shutdown()
            path.unlink(missing_ok=True)


def _fill(path: Path, size_bytes: int) -> None:
    chunk = bytes(2**23)
    with path.open("wb", buffering=0) as stream:
        while size_bytes > 0:
            size_bytes -= stream.write(chunk[:size_bytes])


def _mount(*arguments: str) -> None:
    result = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise HowdahError(f"cannot mount a file system in memory: {result.stderr.strip()}")
