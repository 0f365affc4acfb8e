"""When a transfer changes how it sends: late enough, sure enough, and back when it brought nothing.

- Who is there cannot be heard behind many streams of our own: models are trained beside one. So it first
  sends by as few as can do, which is fair in any case, and stays so while that has enough and who is there is
  not known. Only after ``UNSURE_S`` is it judged for that.
- Where others were heard before the first byte it begins so. What the fair default would have is not known
  then: it is tried where there is room (for ``ROOM_S`` hardly any queue), or where few have too little.
- Nothing else is changed in the first ``FIRST_S``, and nothing where less than ``LAST_S`` is left.
- A change is made when two verdicts in a row prefer it by ``GAIN``, ``DWELL_S`` after the last one or later.
- It is measured once it has settled. One that was to bring more and did not, or that has sent much again for
  little, is undone; so is one with less than ``HELD`` of what the fair default gave, or of an equal share of
  the path if that is less and somebody is known to be there. Then nothing is tried for ``HOLD_S``, after the
  next failure for twice as long.
- Fewer streams of the same control are reached by halves, the next when the queue is back: all at once would
  leave the path empty, for the windows of those that stay are small.
- Who is there is not known any more for ``UNSURE_S``, or ``PROVEN_S`` where the change has brought much: back
  to the fair default.

So what a wrong ear can cost is bounded: see ``docs/choosing.md``. Pure: times and counts are arguments.
"""

from typing import NamedTuple

from howdah.paths.shared.choose.background import NOT_KNOWN, Belief, Kind
from howdah.paths.shared.choose.measured import Had, Look, Meter
from howdah.paths.shared.choose.policy import Policy, Preference, Situation, stream_counts, sure_kind
from howdah.paths.shared.choose.share import Choice

FIRST_S = 5.0
LAST_S = 5.0
GAIN = 0.05
AGAIN = 2
DWELL_S = 5.0
SETTLE_S, SETTLE_ROUND_TRIPS = 2.0, 15
"""BBR needs some ten round trips to find its rate."""
SETTLE_MOST_S = 6.0
JUDGED_S = 4.0
"""Of settled time."""
JUDGED_ROUND_TRIPS = 60
"""Likewise, after halving: windows even out slowly."""
EASED_S, EASED_ROUND_TRIPS, EASED_MOST_S = 1.0, 15, 8.0
"""Between two halvings."""
EASED_QUEUE = 0.5
"""Of the queue that there is at most; with so much of it back the next halving leaves the path full."""
ROOM_S, ROOM, _ROOM_LEAST_S = 1.5, 0.05, 0.001
"""So long round trips are no longer than so, beyond the base RTT and of it, where there is room."""
HELD = 0.6
HOLD_S, HOLD_MOST_S = 30.0, 480.0
UNSURE_S = 20.0
PROVEN_S, _PROVEN = 60.0, 1.5
"""Likewise of a change that has brought so many times as much."""
HEARS_WITH = 2
"""Streams of our own at most."""
AGAIN_S = 60.0
"""Without listening, when nobody was there."""
WEIGHT = 0.4
"""Of a new verdict in what is believed; verdicts of overlapping windows come once a second."""
_LOOKED_BACK_S = 10.0
_RESENT, _RESENT_MORE, _RESENT_FOR = 0.1, 4.0, 1.25
_BROUGHT = 0.2
"""Of the growth expected, so much at least."""


class Way(NamedTuple):
    """The path, as it is known by now."""

    base_rtt_s: float
    queue_bdp: float
    """How much queue the bottleneck has been seen to hold, in bandwidth × delay."""


class Wanted(NamedTuple):
    """A change to be made."""

    choice: Choice
    why: str


class Period(NamedTuple):
    """How it was sent from one instant on, and what that gave."""

    t_s: float
    choice: Choice
    why: str
    background: str | None
    """Who was heard, when a change was made for that."""
    probability: float | None
    before: Had | None
    after: Had | None
    """Null: it had no time to settle."""
    undone: str | None
    """Why it was not kept."""


class _Trial(NamedTuple):
    preference: Preference
    before: Had | None


class Steer:
    """Decides for one transfer."""

    def __init__(self, policy: Policy, now: Situation, began: str | None = None) -> None:
        """``began`` is why the transfer has begun with ``now.current``, where that is not the default."""
        self._policy, self._now = policy, now
        self._meter = Meter()
        self._way = Way(0.0, now.queue_bdp)
        self.able = True
        """Somebody could tell who is there, if we sent by few streams."""
        self.belief = NOT_KNOWN
        self._verdicts, self._asked = 0, 0
        self._preferred: tuple[Choice, int] | None = None
        self._sure_s: float | None = None
        self._since_s = 0.0
        self._target = now.current
        """Where halving leads; else what there is."""
        self._trial: _Trial | None = None
        self._pending: tuple[Wanted, Choice, Preference | None] | None = None
        self._default_bps: float | None = None
        """What the fair default gave when it was in use last."""
        self._measured: dict[Kind, dict[Choice, float]] = {}
        self._failures = 0
        self._held_until_s = 0.0
        self.periods: list[Period] = []
        if now.current != now.default:
            self._trial = _Trial(_to_hear(now.current, now.default), None)
            self.periods.append(Period(0.0, now.current, began or "", None, None, None, None, None))

    @property
    def current(self) -> Choice:
        """How it is sent now."""
        return self._now.current

    @property
    def _heard_for(self) -> bool:
        """Whether the last change was made for somebody, and not to hear."""
        return bool(self.periods) and (self._trial is None or self._trial.preference.probability > 0)

    @property
    def _proven(self) -> bool:
        latest = self.periods[-1] if self._heard_for else None
        if latest is None or latest.before is None or latest.after is None:
            return False
        return latest.after.rate_bps >= _PROVEN * latest.before.rate_bps

    @property
    def hears(self) -> bool:
        """Whether who is there can be told beside what we send now."""
        return self.current.streams <= HEARS_WITH or self._now.streams_fixed

    @property
    def capacity_bps(self) -> float | None:
        """What the path carries, at least."""
        return self._meter.peak_bps

    def hear(self, verdict: Belief) -> None:
        """A new verdict on who is there; what it gives no class is something never seen."""
        self.belief = verdict if not self._verdicts else self.belief.mixed(verdict, WEIGHT)
        self._verdicts += 1

    def new_path(self) -> None:
        """The route has changed for good: what was measured and heard was of another path."""
        self._meter.forget_peak()
        self._measured.clear()
        self.belief, self._verdicts, self._asked = NOT_KNOWN, 0, 0
        self._trial = self._preferred = self._sure_s = self._default_bps = None

    def look(self, look: Look, way: Way) -> Wanted | None:
        """What to change now."""
        self._meter.add(look)
        self._way = way
        if self._pending is not None:
            return None
        self._now = self._now._replace(queue_bdp=way.queue_bdp, capacity_bps=self._meter.peak_bps)
        had = self._settled(look.t_s)
        self._note(had)
        if look.left_s is not None and look.left_s < LAST_S:
            return None
        self._pending = self._room(look.t_s)
        if self._pending is None and look.t_s >= FIRST_S:
            self._pending = (
                self._undo(look.t_s, had)
                or self._prefer(look.t_s)
                or self._ease(look)
                or self._quiet(look.t_s)
            )
        return self._pending[0] if self._pending else None

    def made(self, t_s: float, refused: str | None) -> None:
        """What came of the change that was wanted last."""
        if self._pending is None:
            return
        (wanted, target, preference), self._pending = self._pending, None
        self._preferred = None
        if refused is not None:
            control = wanted.choice.congestion_control
            self._now = self._now._replace(
                controls=tuple(each for each in self._now.controls if each != control)
            )
            self._target = self.current
            return
        before = self._lately(t_s) or self._meter.over(max(self._since_s, t_s - _LOOKED_BACK_S), t_s)
        going_on = target == self._target and preference is None
        if self.current == self._now.default and before is not None:
            self._default_bps = before.rate_bps
        self._now, self._since_s, self._target = self._now._replace(current=wanted.choice), t_s, target
        if going_on:
            return
        self._sure_s = None
        if target == self._now.default:
            # What was heard is not heard any more behind so many streams.
            self.belief = NOT_KNOWN if not self.hears else self.belief
            self._verdicts, self._asked = (self._verdicts, self._asked) if self.hears else (0, 0)
            self._held_until_s = max(self._held_until_s, t_s + (0.0 if self.hears else AGAIN_S))
        self._trial = None if preference is None else _Trial(preference, before)
        heard = preference is not None and preference.probability > 0
        label, probability = self.belief.likeliest if heard else (None, None)
        self.periods.append(Period(t_s, target, wanted.why, label, probability, before, None, None))

    @property
    def _settle_s(self) -> float:
        return min(SETTLE_MOST_S, SETTLE_S + SETTLE_ROUND_TRIPS * self._way.base_rtt_s)

    @property
    def _judge_s(self) -> float:
        """After it has settled."""
        eased = self._trial is not None and self._trial.preference.growth < 1
        return max(JUDGED_S, JUDGED_ROUND_TRIPS * self._way.base_rtt_s if eased else 0.0)

    def _begun(self) -> float:
        return self._since_s + (self._settle_s if self.periods else 0.0)

    def _lately(self, t_s: float) -> Had | None:
        return self._meter.over(max(self._begun(), t_s - _LOOKED_BACK_S), t_s)

    def _settled(self, t_s: float) -> Had | None:
        """What this choice has had lately, once it has settled for long enough."""
        at_target = self.current == self._target
        return self._lately(t_s) if at_target and t_s - self._begun() >= self._judge_s else None

    def _note(self, had: Had | None) -> None:
        if had is None:
            return
        if self.current == self._now.default:
            self._default_bps = had.rate_bps
        if self.periods and self.periods[-1].undone is None:
            self.periods[-1] = self.periods[-1]._replace(after=had)
        kind = sure_kind(self.belief)
        if kind is not None:
            self._measured.setdefault(kind[0], {})[self.current] = had.rate_bps

    def _undo(self, t_s: float, had: Had | None) -> tuple[Wanted, Choice, None] | None:
        """Back to the fair default, if the choice has not brought what it was made for, or nobody knows."""
        default = self._now.default
        if self._target == default:
            return None
        known = self.current != self._target or sure_kind(self.belief) is not None
        if known or self._sure_s is None:
            self._sure_s = t_s
        unsure = t_s - self._sure_s > (PROVEN_S if self._proven else UNSURE_S)
        failed = None
        if had is not None and self._trial is not None and (known or unsure or self._heard_for):
            failed = self._failed(self._trial, had)
        if failed is None and unsure and self._heard_for:
            failed = "who is there cannot be told any more"
        if failed is None:
            return None
        self._held_until_s = t_s + min(HOLD_MOST_S, HOLD_S * 2**self._failures)
        self._failures += 1
        if self.periods:
            self.periods[-1] = self.periods[-1]._replace(undone=failed)
        return Wanted(default, failed), default, None

    def _failed(self, trial: _Trial, had: Had) -> str | None:
        before, preference = trial.before, trial.preference
        usual_bps = self._default_bps or (before.rate_bps if before else None)
        kind = sure_kind(self.belief)
        # An equal share is less only where others are known to be there; after few there is nothing else.
        beside = kind is not None and kind[0] != "nobody"
        equal_bps = preference.fair_share * (self._meter.peak_bps or usual_bps or 0.0)
        fair_bps = equal_bps if beside or usual_bps is None else usual_bps
        before_bps = fair_bps if usual_bps is None else usual_bps
        if had.rate_bps < HELD * min(before_bps, fair_bps):
            what = "an equal share" if usual_bps is None else "what there was before"
            return f"it gave {had.rate_bps / before_bps:.0%} of {what}"
        if preference.growth <= 1.1 or kind is None or kind[0] != preference.kind or not before:
            return None
        if before.rate_bps <= 0:
            return None
        grown = had.rate_bps / before.rate_bps
        if grown < 1 + _BROUGHT * min(1.0, preference.growth - 1) and had.rate_bps < fair_bps:
            return f"it gave {grown:.0%} of what there was before, and was to give more"
        if had.resent > max(_RESENT, _RESENT_MORE * before.resent) and grown < _RESENT_FOR:
            return f"{had.resent:.1%} had to be sent again, for {grown:.0%} of what there was before"
        return None

    def _prefer(self, t_s: float) -> tuple[Wanted, Choice, Preference] | None:
        """What the policy would have, when it has wanted that for long enough."""
        if self._verdicts == self._asked:
            return None
        self._asked = self._verdicts
        preference = self._policy(self.belief, self._situation())
        if preference is None or preference.choice == self._target or preference.gain < GAIN:
            self._preferred = None
            return None
        times = 1 + (self._preferred[1] if self._preferred and self._preferred[0] == preference.choice else 0)
        self._preferred = preference.choice, times
        soon = self._heard_for and t_s - self._since_s < max(DWELL_S, self._settle_s + JUDGED_S)
        held = preference.choice != self._now.default and t_s < self._held_until_s
        if times < AGAIN or soon or held:
            return None
        label, probability = self.belief.likeliest
        why = f"heard {label} ({probability:.2f})"
        return Wanted(_step(self.current, preference.choice), why), preference.choice, preference

    def _ease(self, look: Look) -> tuple[Wanted, Choice, None] | None:
        """The next halving, when the queue is back."""
        if self.current == self._target:
            return None
        waited_s, base_s = look.t_s - self._since_s, self._way.base_rtt_s
        if waited_s < max(EASED_S, EASED_ROUND_TRIPS * base_s):
            return None
        queue_s = 0.0 if look.rtt_s is None else look.rtt_s - base_s
        if queue_s < EASED_QUEUE * self._way.queue_bdp * base_s and waited_s < EASED_MOST_S:
            return None
        return Wanted(_step(self.current, self._target), self.periods[-1].why), self._target, None

    def _quiet(self, t_s: float) -> tuple[Wanted, Choice, Preference] | None:
        """Few streams, so that others can be heard."""
        if self.hears or not self.able or self._target != self.current or t_s < self._held_until_s:
            return None
        if self.current != self._now.default and t_s - self._since_s < AGAIN_S:
            return None
        target = self.current._replace(streams=next(stream_counts(self._now)))
        if target == self.current:
            return None
        wanted = Wanted(_step(self.current, target), "to hear who is there")
        return wanted, target, _to_hear(target, self.current)

    def _room(self, t_s: float) -> tuple[Wanted, Choice, None] | None:
        """The fair default, where it has not been had yet and the path is not full."""
        default, kind = self._now.default, sure_kind(self.belief)
        if self._default_bps is not None or self.current == default or self._heard_for:
            return None
        if kind is not None and kind[0] != "nobody":
            return None
        lately, base_s = self._meter.over(t_s - ROOM_S, t_s), self._way.base_rtt_s
        if lately is None or lately.rtt_s is None:
            return None
        if lately.rtt_s - base_s > max(_ROOM_LEAST_S, ROOM * base_s):
            return None
        return Wanted(default, "there is room for them"), default, None

    def _situation(self) -> Situation:
        kind = sure_kind(self.belief)
        measured = self._measured.get(kind[0], {}) if kind else {}
        return self._now._replace(measured=dict(measured))


def _to_hear(few: Choice, before: Choice) -> Preference:
    """Nobody is known yet; somebody may be there, who is then due half."""
    return Preference(few, "nobody", 0.0, 0.0, few.streams / before.streams, 0.5)


def _step(now: Choice, target: Choice) -> Choice:
    """Half of the streams at the least, unless the target is sent in another way."""
    if now.congestion_control != target.congestion_control or target.is_bbr:
        return target
    return target._replace(streams=max(target.streams, now.streams // 2))
