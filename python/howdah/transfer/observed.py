"""One display of several."""

from collections.abc import Sequence

from howdah.remote.messages import FarHello, Progress
from howdah.transfer.display import Display
from howdah.values.plan import Plan
from howdah.values.verification import Counts


class Observed:
    """Shows a copy by each of several displays, in their order."""

    def __init__(self, displays: Sequence[Display]) -> None:
        self._each = displays

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Has each show the plan."""
        for each in self._each:
            each.planned(decided, far)

    def progress(self, now: Progress) -> None:
        """Has each show how far the transfer is."""
        for each in self._each:
            each.progress(now)

    def rereading(self, files: int, now: Counts) -> None:
        """Has each show how far the reading again is."""
        for each in self._each:
            each.rereading(files, now)

    def far_says(self, text: str) -> None:
        """Has each show lines."""
        for each in self._each:
            each.far_says(text)

    def waiting(self, text: str) -> None:
        """Has each show what is waited for."""
        for each in self._each:
            each.waiting(text)

    def close(self) -> None:
        """Ends each."""
        for each in self._each:
            each.close()
