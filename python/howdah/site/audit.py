"""The line that each copy leaves in the log of this host, at either end: who, where, what, and the outcome.

A line is JSON without control characters and fits a message of rsyslog (8 KiB by default), however many and
long the names are. Where no log takes it, a copy goes on unless the policy requires one. Then a first line
before the copy shows that the log takes it, and is what remains of a process that is killed.
"""

import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from howdah import document
from howdah.site import log
from howdah.site.policy import Policy, Refused
from howdah.text import printable

SCHEMA = 1
_NAMED = 6
_NAME_BYTES_MAX = 300
_NOTICE, _INFO = 5, 6

Result = Literal["begun", "complete", "incomplete", "refused", "failed", "interrupted"]


class CopyLine(msgspec.Struct, frozen=True, kw_only=True):
    """One copy in the log; docs/policy.md describes it. Missing is null."""

    schema: int = SCHEMA
    end: Literal["near", "far"]
    """The end of the copy that this host is."""
    outcome: Result
    error: str | None = None
    uid: int
    user: str | None
    peer: str | None
    """The other end: the host as ssh was told, or at the far end the address of the ssh client."""
    sends: bool
    """Whether this host sends."""
    sources: list[str]
    """The first names at the sender."""
    sources_more: int = 0
    destination: str | None
    """The name at the receiver; null: from memory to memory."""
    encrypted: bool
    dry_run: bool = False
    bytes: int = 0
    """The payload that arrived."""
    files: int = 0
    removed: int = 0
    """Files, folders and links that were removed at the receiver."""
    elapsed_s: float | None = None
    digest_sum: str | None = None
    """The sum of the digests of all files of the session; the line of the other end has the same."""
    digests_sha256: str | None = None
    """Of the file of digests that the record names, as sha256sum prints it; only the near end has one."""
    record: str | None = None
    """The id of the record; only the near end has one."""


class Copy:
    """What is said of one copy, from its begin to its outcome."""

    def __init__(
        self,
        end: Literal["near", "far"],
        peer: str | None,
        *,
        sends: bool,
        sources: Sequence[bytes],
        destination: bytes,
        encrypted: bool,
        dry_run: bool = False,
        record: str | None = None,
    ) -> None:
        self._line = CopyLine(
            end=end,
            outcome="begun",
            uid=os.getuid(),
            user=_user(os.getuid()),
            peer=None if peer is None else _short(peer.encode(errors="surrogateescape")),
            sends=sends,
            sources=[_short(name) for name in sources[:_NAMED]],
            sources_more=max(0, len(sources) - _NAMED),
            destination=_short(destination) if destination else None,
            encrypted=encrypted,
            dry_run=dry_run,
            record=record,
        )

    def begin(self, policy: Policy) -> None:
        """Shows that the log takes lines, where the policy requires it. Raises Refused where it does not."""
        if policy.audit == "required":
            try:
                _write(self._line)
            except OSError as error:
                raise _unlogged(policy, error, "nothing is copied") from None

    def end(
        self,
        policy: Policy | None,
        outcome: Result,
        error: str | None,
        *,
        bytes_moved: int,
        files: int,
        elapsed_s: float,
        removed: int = 0,
        digest_sum: str | None = None,
        digests: Path | None = None,
    ) -> None:
        """Logs the outcome. Raises Refused where the policy requires that and no log takes it.

        ``digests`` is the file of digests; ``policy`` is null where it could not be read.
        """
        line = msgspec.structs.replace(
            self._line,
            outcome=outcome,
            error=None if error is None else _short(error.encode(errors="surrogateescape")),
            bytes=bytes_moved,
            files=files,
            removed=removed,
            elapsed_s=round(elapsed_s, 3),
            digest_sum=digest_sum,
            digests_sha256=None if digests is None else _sha256(digests),
        )
        try:
            _write(line)
        except OSError as problem:
            if policy is not None and policy.audit == "required":
                raise _unlogged(policy, problem, "what was copied is there") from None


def _unlogged(policy: Policy, error: OSError, then: str) -> Refused:
    return Refused(
        f"no log of this host takes a line ({error.strerror or error}), which {policy.by('audit')} requires; "
        f"{then}; start journald or a syslog service"
    )


def _write(line: CopyLine) -> None:
    fields = {
        "HOWDAH_OUTCOME": line.outcome,
        "HOWDAH_USER": line.user or str(line.uid),
        "HOWDAH_PEER": line.peer or "",
        "HOWDAH_BYTES": str(line.bytes),
        "HOWDAH_RECORD": line.record or "",
    }
    good = line.outcome in {"begun", "complete"}
    words = f"copy {document.line(line).decode().rstrip()}"
    log.write(words, _INFO if good else _NOTICE, {key: value for key, value in fields.items() if value})


def _short(name: bytes) -> str:
    return printable(name, _NAME_BYTES_MAX)


def _user(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _sha256(file: Path) -> str | None:
    # Only a copy that has moved files needs it.
    import hashlib  # noqa: PLC0415

    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return None
