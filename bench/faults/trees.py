"""The trees of ``bench.faults``: made by seed, changed on purpose, and compared byte for byte."""

import contextlib
import hashlib
import os
import random
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.faults.cases import KEPT, Fault, Shape

BIG_BYTES = 40_000_000
"""The one file; a tree holds about as much."""
STAYS = "stays"
"""A file beside a mirror."""
_SMALL_FILES = 250
_MIDDLE_FILES = 16
OLD = 10**9
"""Seconds since 1970 of the files of a source, so that a change shows in its time."""
OLDER = OLD - 60
"""The time of the target's older files. A file of the same size and time is skipped, whatever it holds."""
_NAMED_FILES, _NAMES_EACH = 8, 250
"""Files with many names, in a tree of which all is kept."""
_KEPT_FOLDERS = 250
_EXTRANEOUS_FOLDERS, _EXTRANEOUS_EACH = 8, 300
_MAX_ID = 60_000


class Node(NamedTuple):
    """What a name stands for: its kind, mode and time, and the digest of its content."""

    kind: str
    mode: int
    mtime_ns: int
    digest: str
    kept: tuple[object, ...] = ()
    """Where all is kept: owner, group, device, attributes, and the first of the names of the same file."""

    def is_there(self, found: "Node | None") -> bool:
        """Whether that has the same content."""
        return found is not None and (found.kind, found.digest) == (self.kind, self.digest)


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
    if shape in KEPT:
        _add_what_is_kept(source, drawn)


def _add_what_is_kept(source: Path, drawn: random.Random) -> None:
    """Owners, attributes, access lists, special files, holes, other names, and folders with their own."""
    for path in sorted(source.rglob("*")):
        os.chown(path, drawn.randrange(1, _MAX_ID), drawn.randrange(1, _MAX_ID), follow_symlinks=False)
        if _is_file(path) and drawn.random() < 0.3:
            os.setxattr(path, "user.origin", drawn.randbytes(20))
            os.setxattr(path, "trusted.told", drawn.randbytes(20))
    for name, mode in (("middle 2", 0o4755), ("middle 3", 0o2711), ("middle 4", 0o400)):
        (source / name).chmod(mode)
    os.setxattr(source / "middle 5", "system.posix_acl_access", _access_list(4711))
    os.setxattr(source / "folder 1", "system.posix_acl_default", _access_list(4712))
    os.mkfifo(source / "fifo", 0o622)
    os.mknod(source / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with (source / "holes").open("wb") as holes:
        holes.truncate(1_000_000)
        holes.write(drawn.randbytes(5_000))
    for number in range(_NAMED_FILES):
        (source / f"names {number}").mkdir()
    for number in range(_NAMED_FILES):
        first = source / f"names {number}" / "0"
        _write(first, drawn, drawn.randrange(20_000))
        for other in range(1, _NAMES_EACH):
            os.link(first, source / f"names {(number + other) % _NAMED_FILES}" / f"{number} {other}")
    for number in range(_KEPT_FOLDERS):
        folder = source / "folders" / str(number)
        folder.mkdir(parents=True)
        os.chown(folder, drawn.randrange(1, _MAX_ID), drawn.randrange(1, _MAX_ID))
        folder.chmod(drawn.choice((0o755, 0o700, 0o2775, 0o555)))
    for name in (*(f"folders/{number}" for number in range(_KEPT_FOLDERS)), "fifo", "null", "holes"):
        os.utime(source / name, (OLD, OLD))
    for path in [source, *source.iterdir()]:
        if path.is_dir() and not path.is_symlink():
            os.utime(path, (OLD, OLD))


def _access_list(user: int) -> bytes:
    """What ``setfacl -m u:USER:rwx`` makes of mode 750 (linux/posix_acl_xattr.h)."""
    none = 0xFFFFFFFF
    entries = [(0x01, 7, none), (0x02, 7, user), (0x04, 5, none), (0x10, 7, none), (0x20, 0, none)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def make_older(source: Path, target: Path, seed: int) -> None:
    """What an earlier copy left at the target: half of the files, with other bytes, and few of many names."""
    drawn = random.Random(~seed)  # noqa: S311, no secret
    for path in sorted(source.rglob("*")):
        if _is_file(path) and drawn.random() < (0.02 if path.lstat().st_nlink > 1 else 0.5):
            _write(target / path.relative_to(source), drawn, drawn.randrange(50_000), OLDER)


def make_extraneous(target: Path, beside: str) -> None:
    """What a mirror has to remove at the target, and a folder beside it that stays: a link leads there."""
    for number in range(_EXTRANEOUS_FOLDERS):
        folder = target / f"gone {number}" / "deep"
        folder.mkdir(parents=True)
        for name in range(_EXTRANEOUS_EACH):
            (folder / str(name)).touch()
    (target.parent / beside).mkdir()
    (target.parent / beside / STAYS).write_text("this stays")
    (target / "gone 0" / "link").symlink_to(f"../../{beside}")
    # What has the name of a file of the source below a folder that the source has not.
    (target / "gone 0" / "middle 1").write_text("not of the source")


def some_extraneous(target: Path) -> list[Path]:
    """Some of what a mirror has to remove, of each folder the same."""
    every = _EXTRANEOUS_EACH // 10
    return [
        target / f"gone {number}" / "deep" / str(name)
        for number in range(_EXTRANEOUS_FOLDERS)
        for name in range(0, _EXTRANEOUS_EACH, every)
    ]


def some_other_names(target: Path) -> list[Path]:
    """Some names of files that have many."""
    every = _NAMES_EACH // 10
    return [
        target / f"names {(number + name) % _NAMED_FILES}" / f"{number} {name}"
        for number in range(_NAMED_FILES)
        for name in range(every, _NAMES_EACH, every)
    ]


def some_kept_folders(target: Path) -> list[Path]:
    """Some folders of which all is kept."""
    return [target / "folders" / str(number) for number in range(0, _KEPT_FOLDERS, 5)]


def is_linked(path: Path) -> bool:
    """Whether it is a file of several names."""
    with contextlib.suppress(OSError):
        return path.lstat().st_nlink > 1
    return False


def is_given_its_time(path: Path) -> bool:
    """Whether it has the time of the source's."""
    with contextlib.suppress(OSError):
        return path.lstat().st_mtime == OLD
    return False


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
    """The bytes of all files of a source; of a file with several names once."""
    found = (path.stat() for path in [source, *source.rglob("*")] if _is_file(path))
    return sum({(status.st_dev, status.st_ino): status.st_size for status in found}.values())


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def tree(root: Path, *, kept: bool = False) -> Tree:
    """Everything below ``root``, and itself if it is a file; empty where there is nothing.

    With ``kept`` each has what ``-aHAXS`` keeps, and a folder its time.
    """
    firsts: dict[tuple[int, int], tuple[str, str]] = {}
    return {name: _node(path, name, firsts, kept=kept) for name, path in _below(root)}


def _below(root: Path) -> Iterator[tuple[str, str]]:
    """Names below a root, in their order, and the paths of them."""
    if not root.exists():
        return
    if root.is_file():
        yield "", str(root)
        return
    for folder, folders, files in os.walk(root):
        folders.sort()
        inside = os.path.relpath(folder, root)
        for name in sorted([*folders, *files]):
            yield name if inside == "." else f"{inside}/{name}", f"{folder}/{name}"


def _node(path: str, name: str, firsts: dict[tuple[int, int], tuple[str, str]], *, kept: bool) -> Node:
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    also = _kept(path, status) if kept else ()
    if stat.S_ISLNK(status.st_mode):
        return Node("link", 0, status.st_mtime_ns, str(Path(path).readlink()), also)
    if stat.S_ISDIR(status.st_mode):
        return Node("folder", mode, status.st_mtime_ns if kept else 0, "", also)
    if not stat.S_ISREG(status.st_mode):
        return Node("special", mode, status.st_mtime_ns, "", also)
    inode = (status.st_dev, status.st_ino)
    if inode not in firsts:
        firsts[inode] = name, hashlib.blake2b(Path(path).read_bytes()).hexdigest()
    first, digest = firsts[inode]
    return Node("file", mode, status.st_mtime_ns, digest, (*also, first) if kept else ())


def _kept(path: str, status: os.stat_result) -> tuple[object, ...]:
    owner = (status.st_uid, status.st_gid, stat.S_IFMT(status.st_mode), status.st_rdev)
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        names = sorted(os.listxattr(path, follow_symlinks=False))
        return (*owner, tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names))
    return owner


def _write(path: Path, drawn: random.Random, size: int, time_s: int = OLD) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawn.randbytes(size))
    os.utime(path, (time_s, time_s))
