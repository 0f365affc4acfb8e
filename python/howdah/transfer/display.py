"""What watches a transfer; the displays for people are in ``howdah.words``."""

import sys
from typing import Protocol, TextIO

from howdah.remote.messages import FarHello, Progress
from howdah.values.plan import Plan


class Display(Protocol):
    """Where a person watches."""

    def planned(self, decided: Plan, far: FarHello) -> None:
        """The far end has answered and the plan is made."""

    def progress(self, now: Progress) -> None:
        """Called every TICK_S while the transfer runs."""

    def far_says(self, text: str) -> None:
        """Lines ssh or the far end wrote to standard error."""

    def close(self) -> None:
        """Nothing more will come."""


class Quiet:
    """Shows nothing but what the far end says."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Shows nothing."""

    def progress(self, now: Progress) -> None:
        """Shows nothing."""

    def far_says(self, text: str) -> None:
        """Passes it on."""
        self._stream.write(text)

    def close(self) -> None:
        """Nothing is open."""
