"""Lists that name a file more than once: with one digest it counts once, with two the list is wrong.

The lines are those that crates/digest/src/manifest.rs has read and found valid.
"""

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

from howdah import HowdahError
from howdah.text import printable

_HEX = re.compile(rb"[0-9a-fA-F]+")
_ESCAPED = re.compile(rb"\\(.)")
_MEANT = {b"n": b"\n", b"r": b"\r"}


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
