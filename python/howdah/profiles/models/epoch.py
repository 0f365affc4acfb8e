"""The time between two losses: growth by the control's law until a segment is lost."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah.profiles.models.by_round import FloatArray
from howdah.profiles.models.lane import Control, Lane, Memory

_GRID = np.linspace(0.0, 1.0, 33)[:, None]
"""Points of an epoch at which its rate is taken; it is monotone and smooth between two losses."""
_BISECTIONS = 40


class Limits(NamedTuple):
    """What ends growth; arrays like those of the lane."""

    overflow: FloatArray
    """Segments in flight at which the queue overflows."""
    cap: FloatArray
    """Most segments in flight that the buffers allow."""
    loss: FloatArray
    """Share of segments lost at random."""


class Epoch(NamedTuple):
    """How it went."""

    elapsed_s: FloatArray
    sent: FloatArray
    """Segments."""
    window: FloatArray
    """At its end, segments."""
    lost: npt.NDArray[np.bool_]
    """Whether a loss ended it, not the time that was given."""


class Growth(NamedTuple):
    """A control on its way: the window as a function of time."""

    control: Control
    lane: Lane
    limits: Limits
    start: FloatArray
    """Window when the last losses were repaired, segments."""
    memory: Memory

    def window(self, t_s: FloatArray) -> FloatArray:
        """Segments in flight ``t_s`` later, as buffers allow."""
        return np.minimum(self.control.window(self.lane, self.start, self.memory, t_s), self.limits.cap)

    def until_loss(self, due: FloatArray, most_s: FloatArray) -> Epoch:
        """Until ``due`` segments were sent, or the queue overflows, or ``most_s`` passed."""
        # The window never shrinks here, so by then so many have been sent.
        due_s = due / self.lane.delivered_per_s(np.minimum(self.start, self.limits.cap))
        within_s = np.minimum(most_s, due_s)
        overflow_s = self._first(self.limits.overflow, within_s)
        horizon_s = np.minimum(within_s, overflow_s)
        step_s = horizon_s / (len(_GRID) - 1)
        rate = self.lane.delivered_per_s(self.window(_GRID * horizon_s))
        sent = np.zeros_like(rate)
        np.cumsum((rate[1:] + rate[:-1]) / 2 * step_s, axis=0, out=sent[1:])
        elapsed_s, count = _reach(sent, due, step_s)
        lost = (due <= sent[-1] * (1 + 1e-9)) | (overflow_s <= within_s)
        return Epoch(elapsed_s, count, self.window(elapsed_s), lost)

    def _first(self, window: FloatArray, most_s: FloatArray) -> FloatArray:
        """When it reaches ``window``; infinity where not within ``most_s``."""
        reached = self.window(most_s) >= window
        if not reached.any():
            return np.full_like(most_s, np.inf)
        low, high = np.zeros_like(most_s), most_s
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            over = self.window(middle) >= window
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        return np.where(reached, high, np.inf)


def _reach(sent: FloatArray, due: FloatArray, step_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """When ``due`` were sent, and how many were by then; the end of the grid where that is later."""
    row = np.clip(np.sum(sent < due, axis=0), 1, len(sent) - 1)
    column = np.arange(row.size)
    before, after = sent[row - 1, column], sent[row, column]
    count = np.minimum(due, after)
    gained = after - before
    part = np.divide(count - before, gained, out=np.zeros_like(gained), where=gained > 0)
    return (row - 1 + part) * step_s, count
