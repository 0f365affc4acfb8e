"""Files against a list of digests: ``howdah.verify``, and its halves, of which the command is made."""

import os
from collections.abc import Callable

import msgspec

from howdah.archive import Archive
from howdah.arguments import check_one_of, typed
from howdah.library.ended import Name, log
from howdah.remote.endpoints import Endpoint, parse
from howdah.values.verification import ALGORITHMS, Algorithm, Counts, Finding, Verification
from howdah.verification.check import Listener, check
from howdah.verification.lists import Listed, find


@typed
def verify(
    manifest: Name,
    path: Name,
    *,
    algorithm: Algorithm | None = None,
    extra: bool = False,
    on_progress: Callable[[Counts], None] | None = None,
    on_finding: Callable[[Finding], None] | None = None,
    far_howdah: str | None = None,
    archive: Archive | None = None,
) -> Verification:
    """Checks files against a list of digests, as ``howdah verify`` does; ``agrees`` says whether all do.

    Each file is read from its disk, in parallel, at the host that has it.

    Args:
        manifest: a file as ``b3sum`` or ``sha256sum`` writes it, or the id of a record, or ``last``:
            the newest record that has digests.
        path: the folder that the list's names are relative to; a text may name a host, ``[user@]host:path``.
        algorithm: of the list's digests, where neither its lines nor its name say it.
        extra: files below ``path`` that the list does not name are findings too.
        on_progress: called five times a second in the thread of this call; what it raises ends the check.
        on_finding: called with each file that does not agree; the result names the first thousand.
        far_howdah: the program at the far host where it is not in its PATH.
        archive: where records are looked for; by default the user's.

    Raises:
        HowdahError: when the list or the path cannot be read. A file that does not agree is a finding.

    >>> record = howdah.copy("run42/", "dtn2:archive/")
    >>> result = howdah.verify("last", "dtn2:archive/")
    >>> assert result.agrees and result.counts.files == 3
    """
    listed = listed_in(manifest, algorithm, archive)
    return carry_out(listed, path, _Calls(on_progress, on_finding), extra=extra, far_howdah=far_howdah)


def listed_in(manifest: Name, algorithm: Algorithm | None = None, archive: Archive | None = None) -> Listed:
    """The list that ``verify`` is given, read. Raises HowdahError where it is none."""
    check_one_of("algorithm", algorithm, ALGORITHMS, "an algorithm")
    return find(os.fspath(manifest), algorithm, archive or Archive())


def carry_out(
    listed: Listed,
    path: Name,
    listener: Listener,
    *,
    extra: bool = False,
    far_howdah: str | None = None,
) -> Verification:
    """Checks the files, told to ``listener`` as it goes; returns and raises as ``verify`` does."""
    at = parse(path) if isinstance(path, str) else Endpoint(None, os.fsencode(path))
    result = check(listed, at, listener, extra=extra, far_howdah=far_howdah)
    return msgspec.structs.replace(result, unlisted=listed.lacks)


class _Calls(Listener):
    """Hands progress and findings to the caller, and what the far end writes to the log."""

    def __init__(
        self, on_progress: Callable[[Counts], None] | None, on_finding: Callable[[Finding], None] | None
    ) -> None:
        self._on_progress, self._on_finding = on_progress, on_finding

    def progress(self, now: Counts) -> None:
        if self._on_progress is not None:
            self._on_progress(now)

    def finding(self, found: Finding) -> None:
        if self._on_finding is not None:
            self._on_finding(found)

    def far_says(self, text: str) -> None:
        log(text)
