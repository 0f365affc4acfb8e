"""One flow from its first segment on, from loss to loss, for many flows at once.

Slow start: the window doubles each round trip, and once the path is full grows at its rate. A window that
began with w₀ and is W now has sent W − w₀ segments in full rounds: w₀ (1 + 2 + 4 + …). Sources: RFC 5681
§3.1, with Linux's counting of what is acknowledged, so that delayed ACKs change nothing; S. Ha, I. Rhee,
Computer Networks 55(9), 2011 (HyStart), as Linux has it in ``tcp_cubic.c``.

Between two losses the window follows its control's law; only the losses are events. A segment is lost when
the queue overflows, or at random: then the next loss comes after a number of segments drawn from an
exponential distribution. A loss is found a round trip after it was sent, and repaired a round trip after
that, in which the window stays at what the cut left; what is lost meanwhile waits for its own cut.

Left out: timeouts, which matter below some five segments.

At the end are the published response functions, in closed form: the mean window in segments of one stream at
a share ``loss`` of segments lost, without a capacity. H-TCP has none: its growth in time and its back-off
depend on each other. Sources: M. Mathis et al., CCR 27(3), 1997; J. Padhye et al., ToN 8(2), 2000, eq. 30;
RFC 9438 §5.1; T. Kelly, CCR 33(2), 2003; RFC 3649 §5.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah.profiles.theory.controls import (
    BETA,
    FRIENDLY_SEGMENTS,
    SCALABLE_BETA,
    SCALABLE_PER,
    SCALE,
    ControlModel,
    ControlState,
    FloatArray,
    FlowPath,
    Numbers,
)

START_SEGMENTS = 10.0
"""The initial window of RFC 6928."""

_TRAIN_CUSHION_S = 0.001
_RISE_SHARE = 1 / 8
_RISE_S = (0.004, 0.016)


def duration_s(path: FlowPath, start: Numbers, end: Numbers) -> FloatArray:
    """The time from window ``start`` to ``end``, segments: τ log₂ up to the BDP, then one segment each
    1/C."""
    clear = np.maximum(np.minimum(end, path.bdp), start)
    beyond = np.maximum(np.subtract(end, np.maximum(path.bdp, start)), 0.0)
    return path.rtt_s * np.log2(clear / start) + beyond / path.rate_per_s


def window(path: FlowPath, start: Numbers, t_s: Numbers) -> FloatArray:
    """The window after ``t_s`` seconds, in segments."""
    clear_s = duration_s(path, start, np.maximum(path.bdp, start))
    doubled = start * np.exp2(np.minimum(t_s, clear_s) / path.rtt_s)
    return doubled + np.maximum(np.subtract(t_s, clear_s), 0.0) * path.rate_per_s


def overflow(path: FlowPath, start: float, limit: Numbers) -> FloatArray:
    """The window at which a queue overflows that overflows at ``limit`` when it stays full.

    Each ACK lets two segments go at once, so a round that began with w leaves up to w of them in the queue,
    though the path is not full yet: the first round with more than the queue holds overflows it.
    """
    queue = np.maximum(limit - path.bdp, 0.0)
    rounds = np.ceil(np.maximum(np.log2(np.maximum(queue / start, 1.0)), 0.0))
    return np.minimum(start * np.exp2(rounds) + queue, limit)


def hystart_exit(path: FlowPath, start: float) -> FloatArray:
    """The window at which HyStart ends slow start: by the train of ACKs, or the RTT, whichever is sooner.

    A round that begins with at least half of a full path gives a train of ACKs half a round trip long; in
    that time the window gains as much again. The RTT counts when a whole round had it an eighth longer.
    """
    train = path.rate_per_s * (path.rtt_s + _TRAIN_CUSHION_S) / 2
    rounds = np.ceil(np.maximum(np.log2(train / start), 0.0))
    by_train = start * np.exp2(rounds) + train
    rise_s = np.clip(_RISE_SHARE * path.rtt_s, *_RISE_S)
    return np.minimum(by_train, path.bdp + path.rate_per_s * rise_s)


_GRID = np.linspace(0.0, 1.0, 33)[:, None]
"""The rate of an epoch is taken at these points of it; it is monotone and smooth between two losses."""
_BISECTIONS = 40


class FlowLimits(NamedTuple):
    """The limits that end growth; arrays like those of the path."""

    overflow: FloatArray
    """The segments in flight at which the queue overflows."""
    cap: FloatArray
    """The most segments in flight that the buffers allow."""
    loss: FloatArray
    """The share of segments lost at random."""


class CongestionEpoch(NamedTuple):
    """The time between two losses."""

    elapsed_s: FloatArray
    sent: FloatArray
    """The segments sent."""
    window: FloatArray
    """The window at its end, in segments."""
    lost: npt.NDArray[np.bool_]
    """True where a loss ended it, and not the time that was given."""


class WindowGrowth(NamedTuple):
    """Growth by a control's law: the window as a function of time."""

    control: ControlModel
    path: FlowPath
    limits: FlowLimits
    start: FloatArray
    """The window when the last losses were repaired, in segments."""
    memory: ControlState

    def window(self, t_s: FloatArray) -> FloatArray:
        """The segments in flight ``t_s`` later, as buffers allow."""
        return np.minimum(self.control.window(self.path, self.start, self.memory, t_s), self.limits.cap)

    def until_loss(self, due: FloatArray, most_s: FloatArray) -> CongestionEpoch:
        """Grows until ``due`` segments were sent, or the queue overflows, or ``most_s`` passed."""
        # The window never shrinks here, so by then so many have been sent.
        due_s = due / self.path.delivered_per_s(np.minimum(self.start, self.limits.cap))
        within_s = np.minimum(most_s, due_s)
        overflow_s = self._first(self.limits.overflow, within_s)
        horizon_s = np.minimum(within_s, overflow_s)
        step_s = horizon_s / (len(_GRID) - 1)
        rate = self.path.delivered_per_s(self.window(_GRID * horizon_s))
        sent = np.zeros_like(rate)
        np.cumsum((rate[1:] + rate[:-1]) / 2 * step_s, axis=0, out=sent[1:])
        elapsed_s, count = _reach(sent, due, step_s)
        lost = (due <= sent[-1] * (1 + 1e-9)) | (overflow_s <= within_s)
        return CongestionEpoch(elapsed_s, count, self.window(elapsed_s), lost)

    def _first(self, window: FloatArray, most_s: FloatArray) -> FloatArray:
        """The time when it reaches ``window``; infinity where not within ``most_s``."""
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
    """The time when ``due`` were sent and the number sent by then; the end of the grid where that is
    later."""
    row = np.clip(np.sum(sent < due, axis=0), 1, len(sent) - 1)
    column = np.arange(row.size)
    before, after = sent[row - 1, column], sent[row, column]
    count = np.minimum(due, after)
    gained = after - before
    part = np.divide(count - before, gained, out=np.zeros_like(gained), where=gained > 0)
    return (row - 1 + part) * step_s, count


MOST_LOSSES = 160
"""The rest of the time goes as under the second half of so many losses."""
MOST_OVERFLOWS = 40
"""The same limit where no loss is random, so that one cycle is like the next."""

_LONG_S = 1e6


class SlowStart(NamedTuple):
    """The beginning of a flow."""

    window: float = START_SEGMENTS
    """The first window, in segments."""
    threshold: float = np.inf
    """Slow start ends at this window at the latest, in segments: W_SS."""
    hystart: bool = False


class FlowProgress(NamedTuple):
    """The state of each flow after some time."""

    t_s: FloatArray
    sent: FloatArray
    """The segments sent."""
    window: FloatArray
    """The window after the last cut, in segments."""
    memory: ControlState

    def rate_since(self, earlier: "FlowProgress") -> FloatArray:
        """The segments per second since ``earlier``; 0 where no time has passed."""
        took_s = self.t_s - earlier.t_s
        rate = np.zeros_like(took_s)
        np.divide(self.sent - earlier.sent, took_s, out=rate, where=took_s > 0)
        return rate


class Flow(NamedTuple):
    """Flows of one congestion control; the arrays have one dimension."""

    control: ControlModel
    path: FlowPath
    limits: FlowLimits
    start: SlowStart = SlowStart()
    runs: int | None = None
    """The number of neighbours that are runs of one flow. Run k of each flow loses after the same numbers
    of segments, so that flows compare. None: all are independent."""

    def sent_by(self, span_s: Numbers, rng: np.random.Generator) -> FloatArray:
        """The segments sent from the first one up to ``span_s`` seconds later."""
        span = np.broadcast_to(np.asarray(span_s, float), self.path.rtt_s.shape)
        halfway, end = self._run(span, rng)
        return end.sent + (span - end.t_s) * end.rate_since(halfway)

    def steady_per_s(self, rng: np.random.Generator) -> FloatArray:
        """The segments per second once the beginning is forgotten."""
        halfway, end = self._run(np.full(self.path.rtt_s.shape, _LONG_S), rng)
        return end.rate_since(halfway)

    def _run(self, span_s: FloatArray, rng: np.random.Generator) -> tuple[FlowProgress, FlowProgress]:
        """Runs up to ``span_s`` or the most losses: the state after half of these, and at the end."""
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
        """The segments until the next random loss; infinity where nothing is lost."""
        loss = self.limits.loss
        runs = self.runs or loss.size
        drawn = np.tile(rng.exponential(size=runs), loss.size // runs)
        due = np.full(loss.shape, np.inf)
        np.divide(drawn, loss, out=due, where=loss > 0)
        return due

    def _next(self, state: FlowProgress, span_s: FloatArray, due: FloatArray) -> FlowProgress:
        """Passes one loss: the round trip that repairs the last, growth, and the one in which it is found."""
        path, growth = (
            self.path,
            WindowGrowth(self.control, self.path, self.limits, state.window, state.memory),
        )
        left_s = span_s - state.t_s
        repair_s = np.minimum(path.round_s(state.window), left_s)
        repair = path.delivered_per_s(np.minimum(state.window, self.limits.cap)) * repair_s
        grown = growth.until_loss(np.maximum(due - repair, 0.0), left_s - repair_s)
        used_s = repair_s + grown.elapsed_s
        found_s = np.where(grown.lost, np.minimum(path.round_s(grown.window), left_s - used_s), 0.0)
        found = path.delivered_per_s(grown.window) * found_s
        after, memory = self.control.cut(path, growth.window(grown.elapsed_s + found_s), state.memory)
        # Whatever was not lost ran out of time.
        t_s = np.where(grown.lost, state.t_s + used_s + found_s, span_s)
        return FlowProgress(t_s, state.sent + repair + grown.sent + found, after, memory)

    def _slow_start(self, span_s: FloatArray, rng: np.random.Generator) -> FlowProgress:
        """Runs slow start up to a loss, the buffers, or where HyStart ends it."""
        path, first = self.path, self.start.window
        quiet = np.minimum(self.limits.cap, self.start.threshold)
        if self.start.hystart:
            quiet = np.minimum(quiet, hystart_exit(path, first))
        # When the window is W, W − w₀ segments were acknowledged and W more are on their way.
        random = (first + self._draw(rng)) / 2
        lossy = np.minimum(overflow(path, first, self.limits.overflow), random)
        by_time = window(path, first, span_s)
        end = np.maximum(np.minimum(np.minimum(quiet, lossy), by_time), first)
        lost = (lossy < quiet) & (lossy < by_time)
        t_s = duration_s(path, first, end)
        found_s = np.where(lost, np.minimum(path.round_s(end), np.maximum(span_s - t_s, 0.0)), 0.0)
        found = path.delivered_per_s(end) * found_s
        fresh = ControlState.fresh(path.bdp.shape)
        after, cut = self.control.cut(path, np.minimum(end + found, self.limits.cap), fresh)
        memory = ControlState(*(np.where(lost, new, old) for new, old in zip(cut, fresh, strict=True)))
        return FlowProgress(t_s + found_s, end - first + found, np.where(lost, after, end), memory)


def mathis(loss: Numbers) -> FloatArray:
    """The mean window of Reno: √(3 / (2 p))."""
    return np.asarray(np.sqrt(1.5 / np.asarray(loss, float)))


def padhye(loss: Numbers, rtt_s: Numbers, timeout_s: Numbers, *, ack_segments: float = 1.0) -> FloatArray:
    """The mean window of Reno with timeouts: rate × RTT. ``ack_segments`` is b: 2 where delayed ACKs slow
    growth."""
    p, b = np.asarray(loss, float), ack_segments
    rounds: FloatArray = np.sqrt(2 * b * p / 3)
    waiting = np.minimum(1.0, 3 * np.sqrt(3 * b * p / 8)) * p * (1 + 32 * p**2)
    return np.asarray(rtt_s / (rtt_s * rounds + timeout_s * waiting))


def cubic(loss: Numbers, rtt_s: Numbers) -> FloatArray:
    """The mean window of CUBIC: the larger of eq. 6 of RFC 9438 and of what its Reno-friendly region keeps
    to."""
    p = np.asarray(loss, float)
    curve: FloatArray = (SCALE * (3 + BETA) / (4 * (1 - BETA)) * (rtt_s / p) ** 3) ** 0.25
    friendly = np.sqrt(FRIENDLY_SEGMENTS * (1 + BETA) / (2 * (1 - BETA) * p))
    return np.maximum(curve, friendly)


def scalable(loss: Numbers) -> FloatArray:
    """The mean window of Scalable, by one segment a hundred and an eighth lost: 1 / (100 ln(8/7) p)."""
    rounds_per_loss = -SCALABLE_PER * np.log(SCALABLE_BETA)
    return np.asarray(1 / (rounds_per_loss * np.asarray(loss, float)))


def highspeed(loss: Numbers) -> FloatArray:
    """The mean window of HighSpeed: 0.12 / p^0.835; Reno's above 0.1 % of loss, where its window is below 38
    segments."""
    p = np.asarray(loss, float)
    return np.maximum(0.12 / p**0.835, mathis(p))
