"""Lists of digests: files as b3sum(1), sha256sum(1) and md5sum(1) write them, and those of the archive.

The lines are those that crates/digest/src/manifest.rs has read and found valid. A file that is named more
than once with one digest counts once; with two the list is wrong.
"""

import contextlib
import os
import re
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, cast

from howdah import HowdahError, _native
from howdah.archive import Archive
from howdah.arguments import BadArgument, NotHere, literal
from howdah.text import printable
from howdah.values.record import Record, is_id
from howdah.values.verification import ALGORITHMS, Algorithm

_HEX = re.compile(rb"[0-9a-fA-F]+")
_ESCAPED = re.compile(rb"\\(.)")
_MEANT = {b"n": b"\n", b"r": b"\r"}
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_PIECE_BYTES = 1 << 20


def repeats(file: Path) -> frozenset[int]:
    """The numbers of the lines that name a file again, from 1. Raises HowdahError for two digests of one."""
    again = _hashes_met_again(file)
    if not again:
        return frozenset()
    first: dict[bytes, tuple[int, bytes]] = {}
    found = set()
    for number, name, digest in _entries(file):
        if hash(name) not in again:
            continue
        line, before = first.setdefault(name, (number, digest))
        if digest != before:
            raise HowdahError(
                f"it has two digests of {printable(name)}, in lines {line} and {number}; "
                "take the wrong one out"
            )
        if line != number:
            found.add(number)
    return frozenset(found)


def _hashes_met_again(file: Path) -> set[int]:
    """The hashes of names that occur more than once. A list of millions takes 8 bytes for each name."""
    import numpy as np  # noqa: PLC0415, no other check needs arrays

    hashes = np.frombuffer(array("q", (hash(name) for _, name, _ in _entries(file))), np.int64)
    hashes.sort()
    return {int(each) for each in hashes[1:][hashes[1:] == hashes[:-1]]}


def _entries(file: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """The number, the name and the digest of each line that has them."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            if not text or text.startswith(b"#"):
                continue
            digest, _, name = text.removeprefix(b"\\").partition(b" ")
            if _HEX.fullmatch(digest):
                name = name[1:] if name[:1] in {b" ", b"*"} else name
            else:
                # SHA256 (NAME) = DIGEST
                name, _, digest = name[1:].rpartition(b") = ")
            if text.startswith(b"\\"):
                name = _ESCAPED.sub(lambda escape: _MEANT.get(escape[1], escape[1]), name)
            parts = [part for part in name.split(b"/") if part not in {b"", b"."}]
            yield number, b"/".join(parts), digest.lower()


_ENDINGS = ".b3sum, .sha256, .md5, .crc32c or .adler32"


class Listed(NamedTuple):
    """A list that has been read once, to its end."""

    name: str
    """What people call it: the printable name of its file, or the id of its record."""
    file: Path
    algorithm: Algorithm
    files: int
    """How many files it names."""
    repeats: frozenset[int] = frozenset()
    """The numbers of the lines that name one of them again."""
    lacks: int = 0
    """How many files, beyond those, the copy has moved whose list it is."""
    lines: IO[bytes] | None = None
    """What ``file`` is the name of, if that is a file without a name of its own."""


def find(manifest: str, algorithm: Algorithm | None, archive: Archive) -> Listed:
    """The list in this file; where there is none of that name, the one that this record keeps.

    ``last`` is the newest record that has digests. Raises HowdahError where there is neither, for a line that
    is none, and where nothing says the algorithm.
    """
    file = Path(manifest)
    # A name that is too long is that of no file.
    if os.path.isfile(file):  # noqa: PTH113
        return _in_file(file, algorithm)
    if os.path.exists(file) and not file.is_dir():  # noqa: PTH110
        raise HowdahError(
            f"{printable(manifest)} is no regular file, and a list is read more than once; "
            "write it to a file first"
        )
    if "/" in manifest or not (manifest == "last" or is_id(manifest) or manifest[:1].isdigit()):
        raise HowdahError(
            f"there is no file {printable(manifest)}; give a list of digests, as sha256sum writes it, "
            "or the id of a record (howdah archive ls)"
        )
    if manifest == "last":
        newest = archive.newest_with_digests()
        if newest is None:
            raise HowdahError(
                f"no record has digests yet in {archive.root}: no copy has moved a file, or they were removed"
            )
        manifest = newest
    record = archive.load(manifest)
    kept = archive.inbox.digests(record.id)
    if not kept.is_file():
        raise HowdahError(f"record {record.id} has no digests: it moved no file, or they were removed")
    return _of_record(listed(record.id, kept, algorithm), record)


def _of_record(found: Listed, record: Record) -> Listed:
    """The same list, with how many files the copy moved that it lacks. Raises HowdahError for one cut short.

    After a copy whose far end was started again it may lack some: nobody was left to tell their digests.
    """
    with found.file.open("rb") as lines:
        lines.seek(-1, os.SEEK_END)
        if lines.read() != b"\n":
            raise HowdahError(
                f"the list of record {record.id} is incomplete: its last line is cut; "
                f"to check what it names, give its file: {printable(os.fsencode(found.file))}"
            )
    moved = 0 if record.outcome is None else record.outcome.files
    return found._replace(lacks=max(0, moved - found.files))


def listed(name: str, file: Path, algorithm: Algorithm | None, *, called: str | None = None) -> Listed:
    """The list in a file, which is ``called`` so, checked line by line. Raises HowdahError."""
    try:
        called_so = os.fsencode(called or file.name)
        found, files = _native.examine_digests(os.fsencode(file), algorithm, called_so)
    except HowdahError as error:
        raise HowdahError(f"{name} is not a list of digests: {error}") from None
    return Listed(name, file, cast("Algorithm", found), files)


def _in_file(file: Path, algorithm: Algorithm | None) -> Listed:
    """The list in this file, also where its entries end in NUL bytes. Raises HowdahError."""
    name = printable(os.fsencode(file))
    try:
        lines = _in_lines(file)
    except OSError as error:
        raise HowdahError(f"{name} is not a list of digests: {error.strerror}") from None
    if lines is None:
        return _each_once(listed(name, file, algorithm))
    made = Path(f"/proc/self/fd/{lines.fileno()}")
    return _each_once(listed(name, made, algorithm, called=file.name)._replace(lines=lines))


def _in_lines(file: Path) -> IO[bytes] | None:
    """The entries as lines, where they end in NUL bytes, as ``sha256sum -z`` writes them."""
    with file.open("rb") as entries:
        if b"\0" not in entries.read(_PIECE_BYTES):
            return None
        entries.seek(0)
        # It is closed with the list.
        lines, rest = tempfile.NamedTemporaryFile(delete=False), b""  # noqa: SIM115
        Path(lines.name).unlink()
        # An entry of such a length is none, as will be said of it.
        while len(rest) < _PIECE_BYTES and (piece := entries.read(_PIECE_BYTES)):
            *whole, rest = (rest + piece).split(b"\0")
            lines.writelines(map(_line, whole))
        lines.write(_line(rest))
        lines.flush()
        return lines


def _line(entry: bytes) -> bytes:
    escaped = re.sub(rb"[\\\n\r]", lambda found: _ESCAPES[found[0]], entry)
    return (b"" if escaped == entry else b"\\") + escaped + b"\n"


def _each_once(found: Listed) -> Listed:
    """The same list, of which a file that is named more than once counts once. Raises HowdahError."""
    try:
        again = repeats(found.file)
    except HowdahError as error:
        raise HowdahError(f"{found.name} is not a list of digests: {error}") from None
    except OSError as error:
        raise HowdahError(f"{found.name} is not a list of digests: {error.strerror}") from None
    return found._replace(files=found.files - len(again), repeats=again)


def algorithm_of(file: Path) -> Algorithm:
    """The algorithm that the name of a list to be written ends in. Raises HowdahError for none."""
    found = _native.algorithm_of_list(os.fsencode(file.name))
    for each in ALGORITHMS:
        if each == found:
            return each
    raise BadArgument(
        f"{{manifest}} {literal(printable(os.fsencode(file)))} does not say which digests to write; "
        f"give it a name that ends in {_ENDINGS}"
    )


def check_new(file: Path) -> None:
    """Raises HowdahError where no list can be written: a copy that skips files would replace a whole one."""
    shown = f"{{manifest}} {literal(printable(os.fsencode(file)))}"
    if os.path.lexists(file):
        raise NotHere(f"{shown} exists already; give another name, or move it away")
    if not file.parent.is_dir():
        raise NotHere(f"{shown}: there is no folder {literal(printable(os.fsencode(file.parent)))}")


class NewList:
    """A list being written, which appears whole when the block ends well, and else not at all.

    Nor does one that names no file, which would be no list.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._names_any = False
        self._temporary = file.with_name(f".{file.name}.{os.getpid()}")

    def __enter__(self) -> "NewList":
        try:
            self._stream = self._temporary.open("xb")
        except OSError as error:
            raise self._failed(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._names_any:
                self._stream.flush()
                os.fsync(self._stream.fileno())
                # Not a rename, which would replace what has come there meanwhile.
                os.link(self._temporary, self.file)
        except OSError as problem:
            raise self._failed(problem) from None
        finally:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._temporary.unlink(missing_ok=True)

    def add(self, name: bytes, digest: str) -> None:
        """Adds a file. Raises HowdahError."""
        self._write(_native.digest_line(digest, name))

    def add_all(self, lines: Path) -> None:
        """Adds the lines of another list. Raises HowdahError."""
        with lines.open("rb") as stream:
            while piece := stream.read(1 << 20):
                self._write(piece)

    def _write(self, text: bytes) -> None:
        try:
            self._stream.write(text)
            self._names_any = True
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> HowdahError:
        return HowdahError(
            f"cannot write {printable(os.fsencode(self.file))}: {error.strerror}; all files were copied"
        )
