"""What came of checking files against a list of digests."""

from typing import Literal, get_args

import msgspec

from howdah.values import Count, Seconds

Algorithm = Literal["blake3", "sha256", "md5", "crc32c", "adler32"]
"""What makes digests; crates/digest names the source of each."""

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

FINDINGS_MAX = 1000
"""The most findings that a result names; there may be millions."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A file that does not agree with the list."""

    name: str
    """The printable name, relative to the path that was checked."""
    what: Literal["differs", "missing", "unreadable", "extra"]
    why: str | None = None
    """Why it could not be read; null otherwise."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a check is, or what came of it (crates/digest has the same in serde)."""

    files: Count = 0
    """Files of the list that were looked at, whatever came of them."""
    bytes: Count = 0
    """Bytes that were read and hashed."""
    direct: Count = 0
    """Files that were read past the page cache (``O_DIRECT``); of the others the cache was dropped before."""
    differs: Count = 0
    missing: Count = 0
    unreadable: Count = 0
    """Files that are there and cannot be read, and folders where extra files were looked for."""
    extra: Count = 0
    """Files that the list does not name; zero where they were not looked for."""

    @property
    def disagreeing(self) -> int:
        """How many do not agree, for whichever reason."""
        return self.differs + self.missing + self.unreadable + self.extra


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a path checked against a list of digests."""

    manifest: str
    """The list: the printable name of a file, or the id of a record."""
    algorithm: Algorithm
    host: str | None = None
    """The far host; null for this one."""
    path: str
    """The printable path that names are relative to."""
    elapsed_s: Seconds
    counts: Counts
    findings: list[Finding] = []
    """The first that do not agree, in the order in which they were found."""
    findings_more: Count = 0
    """How many more do not."""
    skipped: Count = 0
    """Files that the copy skipped, which were not read again; zero for a check that belongs to no copy."""
    unlisted: Count = 0
    """Files that the list of a record lacks, of those that its copy moved: they were not checked."""

    @property
    def agrees(self) -> bool:
        """Whether each file of a whole list is there with its digest, and no other was found.

        It says nothing of what was skipped.
        """
        return self.counts.disagreeing == 0 and not self.unlisted
