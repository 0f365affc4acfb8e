"""A tree of many small files by seed: twenty levels, names of any bytes but NUL and slash, long ones too."""

import dataclasses
import os
import random
from collections.abc import Iterator
from pathlib import Path

LEVELS = 20
SEED = 20
_FILES_A_FOLDER = 40
_IN_ONE_FOLDER = 20
"""One folder has one file of so many."""
_LONGEST_FOLDER_BYTES = 2800
"""The longest path of a folder below the root: PATH_MAX without the longest name in it and the path above."""
_ANY = bytes(byte for byte in range(1, 256) if byte != ord("/"))
_PLAIN = b"abcdefghijklmnopqrstuvwxyz0123456789_-. "
_NAME_BYTES, _LONG_NAME_BYTES = (8, 28), (120, 255)
_CONTENT = random.Random(SEED).randbytes(1 << 16)  # noqa: S311, a tree and no secret


@dataclasses.dataclass(frozen=True)
class Made:
    """What is in a tree."""

    files: int
    folders: int
    bytes: int
    name_bytes: int
    """The bytes of the paths of all files below the root."""


def make(root: Path, files: int) -> Made:
    """Fills ``root``, which is empty; the same number of files makes the same tree each time."""
    draw = random.Random(f"{SEED} {files}")  # noqa: S311
    folders = list(_folders(draw, max(LEVELS, files // _FILES_A_FOLDER)))
    big = draw.randrange(len(folders))
    weights = [draw.expovariate(1.0) for _ in folders]
    into = draw.choices(range(len(folders)), weights, k=files)
    counts = [0] * len(folders)
    for number, folder in enumerate(into):
        counts[folder if number % _IN_ONE_FOLDER else big] += 1
    all_bytes = name_bytes = 0
    for path, count in zip(folders, counts, strict=True):
        whole = os.path.join(os.fsencode(root), path)  # noqa: PTH118, bytes
        if path:
            os.mkdir(whole)  # noqa: PTH102, bytes
        descriptor = os.open(whole, os.O_RDONLY | os.O_DIRECTORY)
        for name in _names(draw, count):
            size = _size(draw)
            write(descriptor, name, size)
            all_bytes += size
            name_bytes += len(path) + 1 + len(name)
        os.close(descriptor)
    return Made(files, len(folders), all_bytes, name_bytes)


def write(folder: int, name: bytes, size: int) -> None:
    """Makes one file in an open folder."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
    if size:
        os.write(file, _CONTENT[-size:])
    os.close(file)


def folders_of(root: Path) -> list[bytes]:
    """Every folder of a tree, below its root and in one order."""
    whole = os.fsencode(root)
    return sorted(os.path.relpath(folder, whole) for folder, _, _ in os.walk(whole))


def _folders(draw: random.Random, count: int) -> Iterator[bytes]:
    """Paths below the root, which is the first, each behind the one that it is in, as deep as ``LEVELS``."""
    made = [(b"", 0)]
    taken = {b""}
    yield b""
    while len(made) < count:
        if len(made) < LEVELS:
            above, depth = made[-1]
        else:
            # Of two the deeper one, so that many are deep.
            above, depth = max(draw.choices(made, k=2), key=lambda folder: folder[1])
        [name] = _names(draw, 1)
        path = above + b"/" + name if above else name
        if depth >= LEVELS - 1 or path in taken or len(path) > _LONGEST_FOLDER_BYTES:
            continue
        taken.add(path)
        made.append((path, depth + 1))
        yield path


def _names(draw: random.Random, count: int) -> Iterator[bytes]:
    """So many names that differ, which no part of a copy has."""
    taken: set[bytes] = set()
    while len(taken) < count:
        long = draw.random() < 0.02
        length = draw.randint(*(_LONG_NAME_BYTES if long else _NAME_BYTES))
        name = bytes(draw.choices(_PLAIN if draw.random() < 0.7 else _ANY, k=length))
        if name not in taken and not name.startswith(b"."):
            taken.add(name)
            yield name


def _size(draw: random.Random) -> int:
    kind = draw.random()
    if kind < 0.1:
        return 0
    return min(1 + int(draw.expovariate(1 / (800 if kind < 0.9 else 4000))), 1 << 16)
