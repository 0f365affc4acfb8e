"""The far end, ``howdah serve``: started by the near end's ssh, speaks on standard input and output.

It carries out what the policy of its own host allows, whatever the near end's host says.
"""

import sys
from _thread import start_new_thread

from howdah import HowdahError, _native
from howdah.site import policy


def main(arguments: list[str]) -> int:
    """Serves one session and returns the exit code."""
    if arguments or sys.stdin.isatty():
        print(
            "howdah: serve is the far end of a copy and is started over ssh; use: howdah cp SRC… HOST:PATH",
            file=sys.stderr,
        )
        return 2
    # The greeting goes out meanwhile, and a job comes a round trip later at the earliest.
    start_new_thread(_load, ())
    try:
        return _native.serve(0, 1, Overseer(), policy.in_force().ports)
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1
    finally:
        # A C extension whose loading is broken off crashes when Python ends.
        _load()


def _load() -> None:
    """Loads what it takes to decide on a job, or waits until it is loaded."""
    from howdah.remote import oversight  # noqa: F401, PLC0415


class Overseer:
    """Decides on the copy of a far end by the policy of its host."""

    def accept(self, job: bytes) -> None:
        """Takes a FarJob (messages.py) before anything is opened. Raises HowdahError to refuse it."""
        from howdah.remote.oversight import Oversight  # noqa: PLC0415

        self._oversight = Oversight(job)

    def moved(self, moved: int, known: int) -> None:
        """Takes each 0.1 s the bytes that have arrived, and all that the copy is known to move.

        Raises HowdahError to end the copy.
        """
        self._oversight.moved(moved, known)

    def ended(self, account: bytes) -> None:
        """Takes the FarAccount (messages.py) of an accepted job, once.

        Raises HowdahError where the outcome must be logged and cannot be.
        """
        self._oversight.ended(account)
