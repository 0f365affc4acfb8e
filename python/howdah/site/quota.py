"""Quotas: the bytes that one copy, and the copies of a user in a day, may move at this end.

What counts is payload that has arrived at the receiver; what is skipped counts for nothing. A day is one of
UTC. The bytes of a day are kept in a file of the user's, so they bind whoever cannot write to it otherwise: a
login with a forced command. For others they are a guard against mistakes; a file system's quota binds them.
"""

import fcntl
import os
import pwd
import re
import time
from collections.abc import Callable
from pathlib import Path

from howdah import HowdahError, private
from howdah._native import format_bytes
from howdah.site.policy import Policy, Refused

_LINE = re.compile(rb"(\d{4}-\d\d-\d\d) (\d{20})\n")


def day_file() -> Path:
    """The file of this user's bytes of a day on this host; home folders may be shared between hosts.

    Raises HowdahError for a process whose user this host does not name.
    """
    # Not by HOME, which a user sets for one command.
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        raise HowdahError(
            f"cannot count bytes for the policy of this host: it has no user of number {os.geteuid()}; "
            "add the user, or have the key quota.day left out"
        ) from None
    return Path(home, ".local/state/howdah/quota", os.uname().nodename)


class Quota:
    """Counts what one copy moves. Each method raises HowdahError where the policy ends the copy."""

    def __init__(
        self, policy: Policy, file: Path | None = None, today: Callable[[], str] | None = None
    ) -> None:
        self._policy = policy
        self._file = file
        self._today = today or (lambda: time.strftime("%Y-%m-%d", time.gmtime()))
        self._counted = 0

    def begin(self, known: int | None) -> None:
        """Takes the bytes of the copy, where they are known before anything moves."""
        # What needs a single byte is refused when none is left.
        self.moved(0, 1 if known is None else known)

    def count(self, moved: int) -> int:
        """Counts the ``moved`` bytes of the copy so far; returns those of the day, where they are counted."""
        if self._policy.day_bytes is None:
            return 0
        used = self._of_day(max(0, moved - self._counted))
        self._counted = max(self._counted, moved)
        return used

    def moved(self, moved: int, known: int) -> None:
        """Counts the ``moved`` bytes of the copy so far; it is known to move ``known`` bytes."""
        most, day = self._policy.copy_bytes, self._policy.day_bytes
        if day is not None and self.count(moved) + max(0, known - moved) > day:
            raise self._day_is_used(day)
        if most is not None and known > most:
            by = self._policy.by("quota.copy")
            raise Refused(
                f"this copy moves more than {format_bytes(most)}, the most that is allowed by {by}; "
                "copy less at once"
            )

    def _day_is_used(self, day: int) -> Refused:
        by = self._policy.by("quota.day")
        return Refused(
            f"this copy moves more than is left of {format_bytes(day)}, the most that is allowed in a day by "
            f"{by}; copy less, or go on after midnight UTC"
        )

    def _of_day(self, more: int) -> int:
        """Adds to the bytes of this day, and returns them."""
        path = self._file or day_file()
        try:
            private.folder(path.parent)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                # A copy of the same user may count at this moment.
                fcntl.flock(file, fcntl.LOCK_EX)
                return self._added(path, file, more)
            finally:
                os.close(file)
        except OSError as error:
            raise HowdahError(
                f"cannot count bytes for the policy of this host in {path}: {error.strerror}; "
                "make that place yours to write"
            ) from None

    def _added(self, path: Path, file: int, more: int) -> int:
        text, today = os.pread(file, 64, 0), self._today()
        found = _LINE.fullmatch(text)
        if text and found is None:
            raise HowdahError(
                f"{path} does not say how many bytes were copied today; remove it if you may, or ask this "
                "host's administrator"
            )
        before = int(found[2]) if found is not None and found[1].decode() == today else 0
        if more or text[:10] != today.encode():
            os.pwrite(file, f"{today} {before + more:020d}\n".encode(), 0)
        return before + more
