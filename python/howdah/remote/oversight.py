"""One copy at its far end, under the policy of that host: whether it may begin, go on, and what is logged."""

import os
import time

import msgspec

from howdah import HowdahError
from howdah.remote.messages import FarAccount, FarJob
from howdah.site import policy
from howdah.site.audit import Copy, Result
from howdah.site.quota import Quota


class Oversight:
    """A job that the policy of this host allows."""

    def __init__(self, job: bytes) -> None:
        """Raises HowdahError for a job that it refuses, which is logged."""
        asked = msgspec.json.decode(job, type=FarJob)
        self._began_s = time.monotonic()
        self._refusal: str | None = None
        self._copy = Copy(
            "far",
            os.environ.get("SSH_CONNECTION", "").partition(" ")[0] or None,
            sends=asked.direction == "pull",
            sources=asked.sources,
            destination=asked.destination,
            encrypted=asked.encrypt,
            dry_run=asked.dry_run,
        )
        # Read anew: a far end that was kept ready may be older than the file.
        self._policy: policy.Policy | None = None
        try:
            self._policy = policy.in_force()
            self._policy.check_plaintext(encrypt=asked.encrypt)
            receives = asked.direction == "push"
            self._policy.check_delete(delete=receives and asked.delete and not asked.dry_run)
            self._quota = Quota(self._policy)
            if not asked.dry_run:
                self._quota.begin(asked.memory_bytes)
            self._copy.begin(self._policy)
        except HowdahError as error:
            self._end("refused", str(error), FarAccount(bytes=0, files=0, cancelled=False))
            raise

    def moved(self, moved: int, known: int) -> None:
        """Counts bytes. Raises HowdahError where the copy has to end."""
        try:
            self._quota.moved(moved, known)
        except HowdahError as error:
            self._refusal = str(error)
            raise

    def ended(self, account: bytes) -> None:
        """Counts the last bytes and logs the outcome. Raises HowdahError where that cannot be, and must."""
        done = msgspec.json.decode(account, type=FarAccount)
        if self._refusal is not None:
            outcome: Result = "refused"
        elif done.cancelled:
            outcome = "interrupted"
        else:
            outcome = "complete" if done.error is None else "failed"
        try:
            self._quota.count(done.bytes)
        finally:
            self._end(outcome, self._refusal or done.error, done)

    def _end(self, outcome: Result, error: str | None, done: FarAccount) -> None:
        elapsed_s = time.monotonic() - self._began_s
        self._copy.end(
            self._policy,
            outcome,
            error,
            bytes_moved=done.bytes,
            files=done.files,
            removed=done.removed,
            elapsed_s=elapsed_s,
            digest_sum=done.digest_sum,
        )
