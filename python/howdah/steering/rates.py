"""What each stream has had of late, and to what each is to be paced so that all have a bound. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LATELY_S = 0.4
LATELY_ROUND_TRIPS = 2.0
"""Or so many, if that is longer."""
UNEVEN_MOST = 2.0
"""Windows of others may have grown meanwhile: then all would have more than the bound."""
_KEPT_S = 5.0


class Bound(NamedTuple):
    """What each stream may have."""

    each_bps: float | None
    """None: no bound."""


class Rates:
    """Of the streams of one transfer, by what the far kernel has acknowledged."""

    def __init__(self) -> None:
        self._acked: deque[tuple[float, tuple[int, ...]]] = deque()

    def add(self, t_s: float, acked_bytes: Sequence[int]) -> None:
        """What each stream had had acknowledged by then, on a clock of its own."""
        if not self._acked or t_s > self._acked[-1][0]:
            self._acked.append((t_s, tuple(acked_bytes)))
        while self._acked[-1][0] - self._acked[0][0] > _KEPT_S:
            self._acked.popleft()

    def each_bps(self, span_s: float) -> list[float] | None:
        """What each has had in so many seconds or a little more; None where that is not known."""
        newest_s, newest = self._acked[-1] if self._acked else (0.0, ())
        oldest = next((each for each in reversed(self._acked) if newest_s - each[0] >= span_s), None)
        if oldest is None or not newest or len(oldest[1]) != len(newest):
            return None
        return [
            (after - before) * 8 / (newest_s - oldest[0])
            for before, after in zip(oldest[1], newest, strict=True)
        ]

    def all_bps(self, rtt_s: float) -> float | None:
        """What they have together now; None where that is not known."""
        each = self.each_bps(lately_s(rtt_s))
        return None if each is None else sum(each)


def lately_s(rtt_s: float) -> float:
    """A span that is long enough to tell a rate, and not longer."""
    return max(LATELY_S, LATELY_ROUND_TRIPS * rtt_s)


def level_bps(most_bps: Iterable[float], bound_bps: float, uneven_most: float = UNEVEN_MOST) -> float:
    """What each stream may have, so that all have ``bound_bps`` where windows let each have so much at most.

    An equal part at least; where they cannot have it what the fastest may, and ``uneven_most`` times an equal
    part at most.
    """
    left_bps, ordered = bound_bps, sorted(most_bps)
    highest_bps = uneven_most * bound_bps / len(ordered)
    for place, most in enumerate(ordered):
        each_bps = left_bps / (len(ordered) - place)
        if most >= each_bps:
            return min(each_bps, highest_bps)
        left_bps -= most
    return min(max(ordered[-1], bound_bps / len(ordered)), highest_bps)
