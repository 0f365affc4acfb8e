"""Whether two trees are the same: names, kinds, permissions, times, link targets, and every byte."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_CHUNK_BYTES = 4 * 2**20


def differences(one: Path, other: Path) -> Iterator[str]:
    """One line for each thing that is not the same on both sides."""
    first, second = one.lstat(), other.lstat()
    if stat.S_IFMT(first.st_mode) != stat.S_IFMT(second.st_mode):
        yield f"{other} is of another kind than {one}"
        return
    if stat.S_ISLNK(first.st_mode):
        if one.readlink() != other.readlink():
            yield f"{other} points elsewhere than {one}"
        return
    if first.st_mode != second.st_mode:
        yield f"{other} has permissions {stat.filemode(second.st_mode)}, not {stat.filemode(first.st_mode)}"
    if first.st_mtime_ns != second.st_mtime_ns:
        yield f"{other} was modified at {second.st_mtime_ns} ns, not {first.st_mtime_ns}"
    if stat.S_ISDIR(first.st_mode):
        names, others = set(os.listdir(one)), set(os.listdir(other))  # noqa: PTH208, names are wanted
        yield from (f"{one / name} is missing at the other side" for name in sorted(names - others))
        yield from (f"{other / name} is at that side only" for name in sorted(others - names))
        for name in sorted(names & others):
            yield from differences(one / name, other / name)
    elif not _same_bytes(one, other):
        yield f"{other} holds other bytes than {one}"


def _same_bytes(one: Path, other: Path) -> bool:
    with one.open("rb") as first, other.open("rb") as second:
        while chunk := first.read(_CHUNK_BYTES):
            if second.read(_CHUNK_BYTES) != chunk:
                return False
        return not second.read(1)
