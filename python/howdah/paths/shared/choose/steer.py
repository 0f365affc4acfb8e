"""When a transfer changes how it sends: late enough, sure enough, and back when it brought nothing.

- Nothing is changed in the first ``FIRST_S``, nor where less than ``LAST_S`` is left.
- A change is made when two verdicts in a row prefer it by ``GAIN``, ``DWELL_S`` after the last one or later.
- It is measured once it has settled. One that was to bring more and did not, or that has sent much again for
  little, is undone; so is one with less than ``HELD`` of the lesser of what there was before and an equal
  share of the path, as long as the same kind of background is heard. Then nothing is tried beside that kind
  for ``HOLD_S``, after the next failure for twice as long.
- Who is there is not known for ``UNSURE_S``: back to the fair default.

So what a wrong ear can cost is bounded: see ``docs/shared.md``. Pure: times and counts are arguments.
"""

from typing import NamedTuple

from howdah.paths.shared.choose.background import NOT_KNOWN, Belief, Kind
from howdah.paths.shared.choose.measured import Had, Look, Meter
from howdah.paths.shared.choose.policy import Policy, Preference, Situation, sure_kind
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
HELD = 0.6
HOLD_S = 30.0
UNSURE_S = 15.0
WEIGHT = 0.4
"""Of a new verdict in what is believed; verdicts of overlapping windows come once a second."""
_LOOKED_BACK_S = 10.0
_RESENT, _RESENT_MORE, _RESENT_FOR = 0.1, 4.0, 1.25
_BROUGHT = 0.2
"""Of the growth expected, so much at least."""


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

    def __init__(self, policy: Policy, now: Situation, rtt_s: float) -> None:
        self._policy, self._now = policy, now
        self._meter = Meter()
        self._settle_s = min(SETTLE_MOST_S, SETTLE_S + SETTLE_ROUND_TRIPS * rtt_s)
        self.belief = NOT_KNOWN
        self._verdicts, self._asked = 0, 0
        self._preferred: tuple[Choice, int] | None = None
        self._sure_s: float | None = None
        self._since_s = 0.0
        self._trial: _Trial | None = None
        self._pending: tuple[Wanted, Preference | None] | None = None
        self._measured: dict[Kind, dict[Choice, float]] = {}
        self._failures: dict[Kind, int] = {}
        self._held_until_s: dict[Kind, float] = {}
        self.periods: list[Period] = []

    @property
    def current(self) -> Choice:
        """How it is sent now."""
        return self._now.current

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
        self._trial = self._preferred = self._sure_s = None

    def look(self, look: Look, queue_bdp: float) -> Wanted | None:
        """What to change now; ``queue_bdp`` is how much queue the bottleneck has been seen to hold."""
        self._meter.add(look)
        if self._pending is not None:
            return None
        self._now = self._now._replace(queue_bdp=queue_bdp, capacity_bps=self._meter.peak_bps)
        had = self._settled(look.t_s)
        self._note(had)
        if look.t_s < FIRST_S or (look.left_s is not None and look.left_s < LAST_S):
            return None
        wanted, preference = self._undo(look.t_s, had), None
        if wanted is None:
            wanted, preference = self._prefer(look.t_s)
        if wanted is not None:
            self._pending = wanted, preference
        return wanted

    def made(self, t_s: float, refused: str | None) -> None:
        """What came of the change that was wanted last."""
        if self._pending is None:
            return
        (wanted, preference), self._pending = self._pending, None
        self._preferred = None
        if refused is not None:
            controls = tuple(each for each in self._now.controls if each != wanted.choice.congestion_control)
            self._now = self._now._replace(controls=controls)
            return
        before = self._meter.over(max(self._begun(), t_s - _LOOKED_BACK_S), t_s)
        self._now = self._now._replace(current=wanted.choice)
        self._trial = None if preference is None else _Trial(preference, before)
        self._since_s = t_s
        label, probability = (None, None) if preference is None else self.belief.likeliest
        self.periods.append(Period(t_s, wanted.choice, wanted.why, label, probability, before, None, None))

    def _begun(self) -> float:
        return self._since_s + (self._settle_s if self.periods else 0.0)

    def _settled(self, t_s: float) -> Had | None:
        """What this choice has had since it settled, lately."""
        if t_s - self._begun() < JUDGED_S:
            return None
        return self._meter.over(max(self._begun(), t_s - _LOOKED_BACK_S), t_s)

    def _note(self, had: Had | None) -> None:
        if had is None:
            return
        if self.periods and self.periods[-1].undone is None:
            self.periods[-1] = self.periods[-1]._replace(after=had)
        kind = sure_kind(self.belief)
        if kind is not None:
            self._measured.setdefault(kind[0], {})[self.current] = had.rate_bps

    def _undo(self, t_s: float, had: Had | None) -> Wanted | None:
        """Back to the fair default, if the choice has not brought what it was made for, or nobody knows."""
        if self.current == self._now.default:
            return None
        kind = sure_kind(self.belief)
        if kind is not None or self._sure_s is None:
            self._sure_s = t_s
        if t_s - self._sure_s > UNSURE_S:
            return Wanted(self._now.default, "who is there is not known any more")
        trial = self._trial
        if had is None or trial is None or kind is None or kind[0] != trial.preference.kind:
            return None
        failed = self._failed(trial, had)
        if failed is None:
            return None
        self._failures[kind[0]] = failures = self._failures.get(kind[0], 0) + 1
        self._held_until_s[kind[0]] = t_s + HOLD_S * 2 ** (failures - 1)
        if self.periods:
            self.periods[-1] = self.periods[-1]._replace(undone=failed)
        return Wanted(self._now.default, failed)

    def _failed(self, trial: _Trial, had: Had) -> str | None:
        before, preference, capacity_bps = trial.before, trial.preference, self._meter.peak_bps
        if before is None or before.rate_bps <= 0:
            return None
        grown = had.rate_bps / before.rate_bps
        fair_bps = preference.fair_share * capacity_bps if capacity_bps else before.rate_bps
        if had.rate_bps < HELD * min(before.rate_bps, fair_bps):
            return f"it gave {grown:.0%} of what there was before"
        if preference.growth <= 1.1:
            return None
        if grown < 1 + _BROUGHT * min(1.0, preference.growth - 1) and had.rate_bps < fair_bps:
            return f"it gave {grown:.0%} of what there was before, and was to give more"
        if had.resent > max(_RESENT, _RESENT_MORE * before.resent) and grown < _RESENT_FOR:
            return f"{had.resent:.1%} had to be sent again, for {grown:.0%} of what there was before"
        return None

    def _prefer(self, t_s: float) -> tuple[Wanted | None, Preference | None]:
        if self._verdicts == self._asked:
            return None, None
        self._asked = self._verdicts
        preference = self._policy(self.belief, self._situation())
        if preference is None or preference.choice == self.current or preference.gain < GAIN:
            self._preferred = None
            return None, None
        times = 1 + (self._preferred[1] if self._preferred and self._preferred[0] == preference.choice else 0)
        self._preferred = preference.choice, times
        soon = self.periods and t_s - self._since_s < max(DWELL_S, self._settle_s + JUDGED_S)
        held = preference.choice != self._now.default and t_s < self._held_until_s.get(preference.kind, 0.0)
        if times < AGAIN or soon or held:
            return None, None
        label, probability = self.belief.likeliest
        return Wanted(preference.choice, f"heard {label} ({probability:.2f})"), preference

    def _situation(self) -> Situation:
        kind = sure_kind(self.belief)
        measured = self._measured.get(kind[0], {}) if kind else {}
        return self._now._replace(measured=dict(measured))
