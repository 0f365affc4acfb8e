"""The end that has the files: threads of this process, or ``howdah reread`` at the far host, over ssh.

Both have the same two pipes: a job and a list go in, lines of JSON come out (crates/digest/src/serve.rs).
When the second one is closed here, either ends within a fraction of a second.
"""

import contextlib
import os
import sys
import threading
from typing import Protocol

from howdah import HowdahError, _native
from howdah.remote import process, ssh
from howdah.remote.answers import ended
from howdah.remote.far import CANCEL_S


class End(Protocol):
    """What reads files and hashes them."""

    read_fd: int
    """Where its lines come from."""
    write_fd: int
    """Where the job and the list go to. Whoever writes there closes it."""

    def drain(self) -> str:
        """The new lines that it wrote to standard error."""

    def why(self) -> HowdahError:
        """Why it has ended before its last line."""

    def close(self, *, finished: bool) -> None:
        """Ends it, by force unless it has ``finished``."""


class Here:
    """Threads of this process."""

    def __init__(self) -> None:
        job, self.write_fd = os.pipe()
        self.read_fd, lines = os.pipe()
        self._thread = threading.Thread(
            target=_native.check_digests, args=(job, lines), name="howdah-check", daemon=True
        )
        self._thread.start()

    def drain(self) -> str:
        """Threads write nothing there."""
        return ""

    def why(self) -> HowdahError:
        """Threads say why they end."""
        return HowdahError("the check was cut short; run it again")

    def close(self, *, finished: bool) -> None:
        """Closes its lines, which ends it."""
        os.close(self.read_fd)
        self._thread.join(CANCEL_S)


class There:
    """A running ``ssh HOST howdah reread``."""

    def __init__(self, host: str, far_howdah: str | None, *, asks: bool = True) -> None:
        """Starts ssh and returns at once; ``asks``: it may ask the user.

        Raises HowdahError when it cannot be started.
        """
        login = ssh.Login(host)
        self._host = host
        self._far = process.FarProcess(login, login.start(far_howdah, role="reread", asks=asks))
        self.read_fd, self.write_fd = self._far.read_fd, self._far.write_fd
        self._last = ""
        """The last line that was told: it may be the cause of the end."""

    def drain(self) -> str:
        """The new lines, each marked as the far end's."""
        new = self._far.new_stderr()
        if new:
            self._last = new.splitlines()[-1].removeprefix(f"{self._far.mark}: ")
        return new

    def why(self) -> HowdahError:
        """The cause that ssh gives, if it does."""
        status, stderr = self._far.exit_status(CANCEL_S), self._far.stderr() or self._last
        if "No such command" in stderr:
            return HowdahError(
                f"howdah on {self._host} is older and cannot verify; install the same version on both hosts"
            )
        if status:
            return HowdahError(ended(self._host, status, stderr))
        return HowdahError(f"{self._host}: the far end ended before the check was complete; run it again")

    def refusal(self) -> HowdahError | None:
        """Why the far host has ended it before its last line; None: it was ssh that could not reach it."""
        return None if self._far.exit_status(CANCEL_S) in {None, process.LOST} else self.why()

    def close(self, *, finished: bool) -> None:
        """Closes its lines, which ends it and then ssh; ends ssh by force where that takes long."""
        os.close(self.read_fd)
        if not finished or self._far.exit_status(CANCEL_S) is None:
            self._far.end()
        self._far.close()


def reread(words: list[str]) -> int:
    """Runs ``howdah reread`` and returns its exit code."""
    if words or sys.stdin.isatty():
        print(
            "howdah: reread is the far end of a check and is started over ssh; "
            "use: howdah verify MANIFEST HOST:PATH",
            file=sys.stderr,
        )
        return 2
    with contextlib.suppress(HowdahError):
        return _native.check_digests(0, 1)
    return 1
