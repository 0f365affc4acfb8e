"""Memory for what is copied: file systems seen by this process and its children alone, and warm pages.

The kernel takes them back when the last of these processes ends, in whatever way.
"""

import contextlib
import mmap
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Literal

from howdah import HowdahError, lab
from howdah._native import unshare

Pages = Literal["never", "within_size", "always"]

_MADV_POPULATE_WRITE = 23
"""linux/mman.h; Python's mmap does not name it."""
_SPARED_BYTES = 2**30
"""Left to whatever else runs."""


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
def warm() -> Iterator[None]:
    """Has every free page touched, and none given back to a hypervisor while the block lasts. Needs root.

    In some virtual machines the first use of a page costs more than to copy it; which copy meets such pages
    would be chance. A lab keeps them (howdah.lab.settings.PAGE_REPORTING); this one is for nothing else.
    """
    with lab.started(lab.symmetric(1_000_000, 0)):
        with mmap.mmap(-1, host_bytes("MemFree") - _SPARED_BYTES) as pages:
            pages.madvise(mmap.MADV_HUGEPAGE)
            pages.madvise(_MADV_POPULATE_WRITE)
        yield


@contextlib.contextmanager
def touching(folder: Path, size_bytes: int) -> Iterator[None]:
    """Has a file of ``size_bytes`` in ``folder`` beside what the block makes: at its end both are there.

    So the pages of both have been used, which ``warm`` tells why; it lasts while a lab is up.
    """
    # A thread: writing waits for the kernel, not for the interpreter.
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file, ThreadPoolExecutor(1) as pool:
        filled = pool.submit(_fill, file, size_bytes)
        yield
        filled.result()


def _fill(file: FileIO, size_bytes: int) -> None:
    chunk = bytes(2**23)
    while size_bytes > 0:
        size_bytes -= file.write(chunk[:size_bytes])


def host_bytes(what: str) -> int:
    """A size that /proc/meminfo calls ``what``. Raises HowdahError where it has none of that name."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == what:
            return int(value.removesuffix("kB")) * 1024
    raise HowdahError(f"no {what} in /proc/meminfo; is /proc mounted?")


def _mount(*arguments: str) -> None:
    result = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise HowdahError(f"cannot mount a file system in memory: {result.stderr.strip()}")
