"""Who tells who is there: what it is asked, and what it answers."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from howdah.probing.series import Floats


@runtime_checkable
class Verdict(Protocol):
    """On the end of a series."""

    @property
    def classes(self) -> dict[str, float]:
        """Probability of each, as ``1 bbr, 1 cubic``."""

    @property
    def new(self) -> bool:
        """It is like nothing trained on, and the classes are no more than what is nearest."""

    @property
    def heard_s(self) -> float:
        """How much of the series was judged."""


class CannotTell(Protocol):
    """Nothing can be said."""

    @property
    def why(self) -> str:
        """In words that end no sentence."""


Recogniser = Callable[[Floats, Floats, float, Mapping[str, int]], Verdict | CannotTell]
"""Called with the times and RTTs of the last samples (NaN: no answer), the base RTT, and our own streams by
congestion control. Raises HowdahError when what it has learnt from is damaged."""
