"""What shows a transfer; the displays for people are in ``howdah.words``."""

import sys
from typing import TextIO

from howdah.remote.messages import FarHello, Progress
from howdah.values.plan import Plan
from howdah.values.verification import Counts


class Display:
    """The calls that a transfer makes, in its own thread, to be shown. This one shows nothing."""

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Shows the plan, once the far end has answered."""

    def progress(self, now: Progress) -> None:
        """Shows how far the transfer is; called every 0.1 s while it runs."""

    def rereading(self, files: int, now: Counts) -> None:
        """Shows how far it is with reading ``files`` files again, some five times a second."""

    def far_says(self, text: str) -> None:
        """Shows lines: what ssh or the far end wrote to standard error, and which way the data takes."""

    def waiting(self, text: str) -> None:
        """Shows what the transfer waits for; called every 0.1 s while the far host does not answer."""

    def close(self) -> None:
        """Ends the display; nothing more will come."""


class Quiet(Display):
    """Shows only what the far end writes to standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def far_says(self, text: str) -> None:
        """Writes it to the stream."""
        self._stream.write(text)
