"""One flow from its first segment on, from loss to loss, for many flows at once.

Between two losses the window follows its control's law; only the losses are events. A segment is lost when
the queue overflows, or at random: then the next loss comes after a number of segments drawn from an
exponential distribution. A loss is found a round trip after it was sent, and repaired a round trip after
that, in which the window stays at what the cut left; what is lost meanwhile waits for its own cut.

Left out: timeouts, which matter below some five segments.
"""

from typing import NamedTuple

import numpy as np

from howdah.profiles.models import slow_start
from howdah.profiles.models.by_round import FloatArray, Numbers
from howdah.profiles.models.epoch import Growth, Limits
from howdah.profiles.models.lane import Control, Lane, Memory

MOST_LOSSES = 160
"""After so many the rest of the time goes as under the second half of them."""
MOST_OVERFLOWS = 40
"""The same where none is random, so that one cycle is like the next."""

_LONG_S = 1e6


class Start(NamedTuple):
    """How a flow begins."""

    window: float = slow_start.START_SEGMENTS
    """First window, segments."""
    threshold: float = np.inf
    """Slow start ends here at the latest, segments: W_SS."""
    hystart: bool = False


class Progress(NamedTuple):
    """How far each flow has come."""

    t_s: FloatArray
    sent: FloatArray
    """Segments."""
    window: FloatArray
    """Segments, after the last cut."""
    memory: Memory

    def rate_since(self, earlier: "Progress") -> FloatArray:
        """Segments per second since then; 0 where no time has passed."""
        took_s = self.t_s - earlier.t_s
        rate = np.zeros_like(took_s)
        np.divide(self.sent - earlier.sent, took_s, out=rate, where=took_s > 0)
        return rate


class Flow(NamedTuple):
    """Flows of one congestion control; the arrays have one dimension."""

    control: Control
    lane: Lane
    limits: Limits
    start: Start = Start()
    runs: int | None = None
    """That many neighbours are runs of one flow; run k of each flow loses after the same numbers of
    segments, so that flows compare. None: all are independent."""

    def sent_by(self, span_s: Numbers, rng: np.random.Generator) -> FloatArray:
        """Segments sent from the first one up to ``span_s`` seconds later."""
        span = np.broadcast_to(np.asarray(span_s, float), self.lane.rtt_s.shape)
        halfway, end = self._run(span, rng)
        return end.sent + (span - end.t_s) * end.rate_since(halfway)

    def steady_per_s(self, rng: np.random.Generator) -> FloatArray:
        """Segments per second once the beginning is forgotten."""
        halfway, end = self._run(np.full(self.lane.rtt_s.shape, _LONG_S), rng)
        return end.rate_since(halfway)

    def _run(self, span_s: FloatArray, rng: np.random.Generator) -> tuple[Progress, Progress]:
        """Up to ``span_s`` or the most losses: how far after half of these, and at the end."""
        most = MOST_LOSSES if np.any(self.limits.loss > 0) else MOST_OVERFLOWS
        state = halfway = self._slow_start(span_s, rng)
        for epoch in range(most):
            if np.all(state.t_s >= span_s):
                break
            if epoch == most // 2:
                halfway = state
            state = self._next(state, span_s, self._draw(rng))
        return halfway, state

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        """Segments until the next random loss; infinity where nothing is lost."""
        loss = self.limits.loss
        runs = self.runs or loss.size
        drawn = np.tile(rng.exponential(size=runs), loss.size // runs)
        due = np.full(loss.shape, np.inf)
        np.divide(drawn, loss, out=due, where=loss > 0)
        return due

    def _next(self, state: Progress, span_s: FloatArray, due: FloatArray) -> Progress:
        """Over one loss: the round trip that repairs the last, growth, and the one in which it is found."""
        lane, growth = self.lane, Growth(self.control, self.lane, self.limits, state.window, state.memory)
        left_s = span_s - state.t_s
        repair_s = np.minimum(lane.round_s(state.window), left_s)
        repair = lane.delivered_per_s(np.minimum(state.window, self.limits.cap)) * repair_s
        grown = growth.until_loss(np.maximum(due - repair, 0.0), left_s - repair_s)
        used_s = repair_s + grown.elapsed_s
        found_s = np.where(grown.lost, np.minimum(lane.round_s(grown.window), left_s - used_s), 0.0)
        found = lane.delivered_per_s(grown.window) * found_s
        after, memory = self.control.cut(lane, growth.window(grown.elapsed_s + found_s), state.memory)
        # Whatever was not lost ran out of time.
        t_s = np.where(grown.lost, state.t_s + used_s + found_s, span_s)
        return Progress(t_s, state.sent + repair + grown.sent + found, after, memory)

    def _slow_start(self, span_s: FloatArray, rng: np.random.Generator) -> Progress:
        """Up to a loss, the buffers, or where HyStart ends it."""
        lane, first = self.lane, self.start.window
        quiet = np.minimum(self.limits.cap, self.start.threshold)
        if self.start.hystart:
            quiet = np.minimum(quiet, slow_start.hystart_exit(lane, first))
        # When the window is W, W − w₀ segments were acknowledged and W more are on their way.
        random = (first + self._draw(rng)) / 2
        lossy = np.minimum(slow_start.overflow(lane, first, self.limits.overflow), random)
        by_time = slow_start.window(lane, first, span_s)
        end = np.maximum(np.minimum(np.minimum(quiet, lossy), by_time), first)
        lost = (lossy < quiet) & (lossy < by_time)
        t_s = slow_start.duration_s(lane, first, end)
        found_s = np.where(lost, np.minimum(lane.round_s(end), np.maximum(span_s - t_s, 0.0)), 0.0)
        found = lane.delivered_per_s(end) * found_s
        fresh = Memory.fresh(lane.bdp.shape)
        after, cut = self.control.cut(lane, np.minimum(end + found, self.limits.cap), fresh)
        memory = Memory(*(np.where(lost, new, old) for new, old in zip(cut, fresh, strict=True)))
        return Progress(t_s + found_s, end - first + found, np.where(lost, after, end), memory)
