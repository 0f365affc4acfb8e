"""The trees of ``bench.faults``: made by seed, changed on purpose, and compared byte for byte."""

import hashlib
import os
import random
from pathlib import Path
from typing import NamedTuple

from bench.faults.cases import Fault, Shape

BIG_BYTES = 40_000_000
"""The one file; a tree holds about as much."""
_SMALL_FILES = 250
_MIDDLE_FILES = 16
_OLD = 10**9
"""Seconds since 1970 of the files of a source, so that a change shows in its time."""


class Node(NamedTuple):
    """What a name stands for: its kind, mode and time, and the digest of its content."""

    kind: str
    mode: int
    mtime_ns: int
    digest: str


Tree = dict[str, Node]


def make(root: Path, shape: Shape, seed: int) -> None:
    """A source: ``root/source`` is a file or a folder."""
    drawn = random.Random(seed)  # noqa: S311, no secret
    source = root / "source"
    if shape == "one file":
        _write(source, drawn, BIG_BYTES)
        return
    for number in range(_SMALL_FILES):
        _write(source / f"folder {number % 7}" / f"small {number}", drawn, drawn.randrange(30_000))
    for number in range(_MIDDLE_FILES):
        _write(source / f"middle {number}", drawn, drawn.randrange(200_000, 4_000_000))
    (source / "link").symlink_to("middle 1")


def make_older(source: Path, target: Path, seed: int) -> None:
    """What an earlier copy left at the target: each second file, with other bytes."""
    drawn = random.Random(~seed)  # noqa: S311, no secret
    for path in sorted(source.rglob("*")):
        if _is_file(path) and drawn.random() < 0.5:
            _write(target / path.relative_to(source), drawn, drawn.randrange(50_000))


def change(source: Path, fault: Fault) -> None:
    """Does to the biggest file of a source what the fault says."""
    biggest = biggest_file(source)
    size = biggest.stat().st_size
    match fault:
        case "source grows":
            with biggest.open("ab") as file:
                file.write(os.urandom(100_000))
        case "source overwritten in place":
            with biggest.open("r+b") as file:
                for offset in range(0, size, 1 << 20):
                    file.seek(offset)
                    file.write(os.urandom(64))
        case "source shortened":
            os.truncate(biggest, size // 2)
        case "source removed":
            biggest.unlink()
        case "source replaced":
            # Outside of the source: what has its name for a moment only is no file of it.
            other = source.with_name("other")
            other.write_bytes(os.urandom(size // 2))
            other.rename(biggest)
        case _:
            raise AssertionError(fault)


def biggest_file(source: Path) -> Path:
    """The file of a source that has the most bytes; the first of them by name."""
    files = [source] if source.is_file() else sorted(path for path in source.rglob("*") if _is_file(path))
    return max(files, key=lambda path: path.stat().st_size)


def size_bytes(source: Path) -> int:
    """The bytes of all files of a source."""
    return sum(path.stat().st_size for path in [source, *source.rglob("*")] if _is_file(path))


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def tree(root: Path) -> Tree:
    """Everything below ``root``, and itself if it is a file; empty where there is nothing."""
    if not root.exists():
        return {}
    if root.is_file():
        return {"": _node(root)}
    return {str(path.relative_to(root)): _node(path) for path in root.rglob("*")}


def _node(path: Path) -> Node:
    status = path.lstat()
    if path.is_symlink():
        return Node("link", 0, status.st_mtime_ns, str(path.readlink()))
    if path.is_dir():
        return Node("folder", status.st_mode & 0o7777, 0, "")
    digest = hashlib.blake2b(path.read_bytes()).hexdigest()
    return Node("file", status.st_mode & 0o7777, status.st_mtime_ns, digest)


def _write(path: Path, drawn: random.Random, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawn.randbytes(size))
    os.utime(path, (_OLD, _OLD))
