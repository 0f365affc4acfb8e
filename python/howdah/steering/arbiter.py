"""When a transfer changes how it sends: late enough, sure enough, and back when it brought nothing.

- Who is there cannot be heard behind many streams of our own: models are trained beside one. So it first
  sends by as few as can do, which is fair in any case, and stays so while that has enough and who is there is
  not known. Only after ``unsure_s`` is it judged for that.
- Where streams of the plan fill a path that nobody else fills (``exclusivity``), what has arrived is what it
  carries; they are paced, which costs little, and it hears behind them. Only else it goes down to few, and
  not while a queue that there was is gone: nobody else keeps us from anything then.
- Where others were heard before the first byte it begins so. What the fair default would have is not known
  then: it is tried where few have too little, and come to by doubling where there is room (each time for
  ``room_s`` hardly any queue), for others who were just cut leave some for a moment.
- Once it was measured what the path carries beside others (``capacity_probe``), the fair default is to pace
  the plan's streams: to what others leave, but not below an equal share (``pace``). That is right beside all
  that yield to loss, and alone, whoever is told; others are heard behind such streams as if nothing were
  sent. Only where it has clearly less than that share of a full path somebody does not yield, and is
  answered as BBR is.
- In the first ``first_s`` nothing is changed but for another route: others who were cut by its beginning come
  back meanwhile. Nor is anything where less than ``last_s`` is left.
- A change is made when two verdicts in a row prefer it by ``gain``, ``dwell_s`` after the last one or later.
- It is measured once it has settled (``trial``). One that was to bring more and did not, or that has sent
  much again for little, is undone; so is one with less than ``trial_keep`` of what the fair default gave,
  or of an equal share of the path if that is less and somebody is known to be there. Then nothing is tried
  for ``cooldown_s``, after the next failure for twice as long.
- Fewer streams of the same control are reached by halves, the next when the queue is back: all at once would
  leave the path empty, for the windows of those that stay are small.
- Who is there is not known any more for ``unsure_s``, or ``proven_s`` where the change has brought much: back
  to the fair default.

So what a wrong verdict can cost is bounded: see ``docs/choosing.md``. Pure: times and counts are arguments.
"""

from typing import NamedTuple

from howdah.probing.queue import queues
from howdah.steering.path_state import PathShare, PathState
from howdah.steering.policy import Policy, Preference, Situation, stream_counts, sure_kind
from howdah.steering.shares import NOT_KNOWN, Belief, Choice, Kind
from howdah.steering.throughput import Look, Throughput
from howdah.steering.tunables import TUNED
from howdah.values.reason import Reason, Why


class Command(NamedTuple):
    """A change to be made."""

    choice: Choice
    why: Why
    begin_bps: float | None = None
    """Of all streams, what paced ones begin with; None: their share."""


class Period(NamedTuple):
    """How it was sent from one instant on, and what that gave."""

    t_s: float
    choice: Choice
    why: str
    background: str | None
    """Who was heard, when a change was made for that."""
    probability: float | None
    before: Throughput | None
    after: Throughput | None
    """Null: it had no time to settle."""
    undone: str | None
    """Why it was not kept."""
    paced: bool = False
    """To that bound at least (``pace``)."""


class Trial(NamedTuple):
    """What was changed, and what there was before."""

    preference: Preference
    before: Throughput | None
    lately_bps: float | None = None
    """In the last seconds of that; others may have changed."""

    def failed(
        self,
        had: Throughput,
        kind: tuple[Kind, float] | None,
        default_bps: float | None,
        capacity_bps: float | None,
    ) -> Why | None:
        """Why it is not kept, where that is so.

        ``kind`` is who is known to be there now, ``default_bps`` what the fair default gave when it was in
        use last, ``capacity_bps`` what the path carries at least.
        """
        before, preference = self.before, self.preference
        usual_bps = default_bps or (before.rate_bps if before else None)
        # An equal share is less only where others are known to be there; after few there is nothing else.
        beside = kind is not None and kind[0] != "nobody"
        equal_bps = preference.fair_share * (capacity_bps or usual_bps or 0.0)
        fair_bps = equal_bps if beside or usual_bps is None else usual_bps
        before_bps = fair_bps if usual_bps is None else usual_bps
        if had.rate_bps < TUNED.trial_keep * min(before_bps, fair_bps):
            reason = Reason.LESS_THAN_SHARE if usual_bps is None else Reason.LESS_THAN_BEFORE
            return reason.because(part=had.rate_bps / before_bps)
        if (
            preference.growth <= TUNED.trial_growth
            or kind is None
            or kind[0] != preference.kind
            or not before
        ):
            return None
        if before.rate_bps <= 0 or self.lately_bps == 0:
            return None
        grown = had.rate_bps / min(before.rate_bps, self.lately_bps or before.rate_bps)
        if grown < 1 + TUNED.trial_brought * min(1.0, preference.growth - 1) and had.rate_bps < fair_bps:
            return Reason.NO_GROWTH.because(part=grown)
        if (
            had.resent > max(TUNED.trial_resent, TUNED.trial_resent_more * before.resent)
            and grown < TUNED.trial_resent_for
        ):
            return Reason.RESENT.because(resent=had.resent, part=grown)
        return None


UNYIELDING = Belief({"1 bbr": TUNED.sure_to_take})
"""Who leaves us clearly less than an equal share."""


class ChangeArbiter:
    """Decides for one transfer."""

    def __init__(self, policy: Policy, now: Situation, began: str | None = None) -> None:
        """``began`` is why the transfer has begun with ``now.current``, where that is not the default."""
        self._policy, self._now = policy, now
        self._path = PathShare(PathState(0.0, now.queue_bdp))
        self.able = True
        """Somebody could tell who is there, if we sent by few streams."""
        self.belief = NOT_KNOWN
        self._verdicts, self._asked = 0, 0
        self._preferred: tuple[Choice, int] | None = None
        self._sure_s: float | None = None
        self._since_s = 0.0
        self._target = now.current
        """Where halving leads; else what there is."""
        self._trial: Trial | None = None
        self._eased_for = Reason.TO_RECOGNISE.because()
        self._pending: tuple[Command, Choice, Preference | None] | None = None
        self._default_bps: float | None = None
        """What the fair default gave when it was in use last."""
        self._asks_s = 0.0
        """From then on it may ask whether the path is ours alone."""
        self._measured: dict[Kind, dict[Choice, float]] = {}
        self._failures = 0
        self._cooldown_until_s = self._quiet_s = self._room_s = 0.0
        """After what failed, after nobody was heard, and after streams were left to hear others."""
        self._moved = False
        self.periods: list[Period] = []
        if now.current != now.default:
            self._trial = Trial(_to_hear(now.current, now.default), None)
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
        return latest.after.rate_bps >= TUNED.proven_growth * latest.before.rate_bps

    @property
    def can_recognise(self) -> bool:
        """Whether who is there can be told beside what we send now."""
        return self.current.streams <= TUNED.recognise_streams or self._now.streams_fixed or self.paced

    @property
    def paced(self) -> bool:
        """Whether our streams are bounded to a share, and so do not answer to the queue."""
        return self.current.is_paced(self._now.default)

    @property
    def has_fair_pace(self) -> bool:
        """Whether they may have what others leave of the path (``pace``)."""
        return self.current == self._now.fair_pace

    @property
    def _fair(self) -> Choice:
        """The fair default."""
        return self._now.fair_pace or self._now.default

    @property
    def share_bps(self) -> float:
        """An equal share of what the path carries."""
        return self._path.carries.share_bps

    def needs_capacity(self, t_s: float) -> bool:
        """Whether to know what the path carries would help, and nothing else changes now."""
        # What has arrived on a path of its own is known better than by dips.
        if not (self._policy.paces and self._path.path.finely) or self.exclusive:
            return False
        kind = sure_kind(self.belief)
        settled = self.current == self._target and t_s - self._begun() >= 0
        yields = kind[0] == "loss" if kind else t_s >= TUNED.doubt_s and self._path.full and self._doubtful
        # BBR keeps no window: neither ours nor another's answers to a dip as the rest does.
        return self._pending is None and settled and self.can_recognise and yields and not self.current.is_bbr

    def needs_exclusivity(self, t_s: float) -> bool:
        """Whether the plan's streams may fill a path of their own, and that is to be known."""
        plan = self._now.default
        if not self._policy.paces or plan.is_bbr or self.current != plan or not self._wants_to_hear(t_s):
            return False
        settled = self._pending is None and t_s >= max(self._asks_s, self._begun())
        return settled and self._path.path.finely and self._path.full

    def found(self, t_s: float, exclusive: bool) -> None:
        """Whether nobody else fills the path; with a bound so far, which goes on then."""
        self._path.carries.exclusive = exclusive
        if not exclusive:
            self._asks_s, self._quiet_s = t_s + TUNED.quiet_again_s, 0.0
        else:
            self._default_bps = None
            self._share_out()

    @property
    def exclusive(self) -> bool:
        """Whether nobody else was found to fill the path."""
        return self._path.carries.exclusive

    @property
    def capacity_bps(self) -> float | None:
        """What the path carries, at least."""
        return self._path.carries.rate_bps

    def capacity_probed(self, capacity_bps: float) -> None:
        """What the path carries has been measured; the fair default is now to pace the plan's streams."""
        if self._path.carries.probed_bps is None:
            self._default_bps = None
        self._path.carries.capacity_probed(capacity_bps, self.belief)
        self._share_out()

    def _share_out(self) -> None:
        """Streams are paced to an equal share of what the path is known to carry by now."""
        fair, paced = self.has_fair_pace, self._path.carries.shared_by(self._now.default)
        self._now = self._now._replace(fair_pace=paced)
        if fair:
            # No change: how much they have in fact is not decided here.
            self._now, self._target = self._now._replace(current=paced), paced
            self.periods[-1] = self.periods[-1]._replace(choice=paced)

    def update_belief(self, verdict: Belief) -> None:
        """A new verdict on who is there; what it gives no class is something never seen."""
        verdict = self._path.tells(verdict)
        self.belief = verdict if not self._verdicts else self.belief.mixed(verdict, TUNED.verdict_weight)
        self._verdicts += 1

    def new_path(self) -> None:
        """The route has changed for good: what was measured and heard was of another path."""
        self._path.new_path()
        self._measured.clear()
        self.belief, self._verdicts, self._asked = NOT_KNOWN, 0, 0
        self._trial = self._preferred = self._sure_s = self._default_bps = None
        self._asks_s = self._room_s = 0.0
        self._now = self._now._replace(fair_pace=None)
        self._moved = True

    def look(self, look: Look, path: PathState) -> Command | None:
        """What to change now."""
        self._path.add(look, path)
        if self._pending is not None:
            return None
        self._now = self._now._replace(queue_bdp=path.queue_bdp, capacity_bps=self.capacity_bps)
        if self._now.fair_pace is not None:
            self._share_out()
        had = self._settled(look.t_s)
        self._note(had)
        if look.left_s is not None and look.left_s < TUNED.last_s:
            return None
        self._pending = self._let_go()
        if self._pending is None and look.t_s >= TUNED.first_s:
            self._pending = (
                self._room(look.t_s)
                or self._hold()
                or self._undo(look.t_s, had)
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
        before = self._lately(t_s) or self._path.meter.over(max(self._since_s, t_s - TUNED.look_back_s), t_s)
        going_on = target == self._target and preference is None
        if self.current == self._fair and before is not None:
            self._default_bps = before.rate_bps
        heard_for = preference is not None and preference.probability > 0
        self._now, self._since_s, self._target = self._now._replace(current=wanted.choice), t_s, target
        if going_on:
            return
        self._sure_s, self._eased_for = None, wanted.why
        if target == self._fair:
            # What was heard is not heard any more behind so many streams.
            self.belief = NOT_KNOWN if not self.can_recognise else self.belief
            self._verdicts, self._asked = (self._verdicts, self._asked) if self.can_recognise else (0, 0)
            self._quiet_s = t_s + (0.0 if self.can_recognise else TUNED.quiet_again_s)
        lately = self._path.lately
        lately_bps = lately and lately.rate_bps
        self._trial = None if preference is None else Trial(preference, before, lately_bps)
        told = (heard_for or self.has_fair_pace) and sure_kind(self.belief) is not None
        label, probability = self.belief.likeliest if told else (None, None)
        self.periods.append(
            Period(t_s, target, wanted.why.words, label, probability, before, None, None, self.has_fair_pace)
        )

    @property
    def _believed(self) -> Belief:
        """Who is there. Whoever leaves paced streams their share is answered as one that yields."""
        kind = sure_kind(self.belief)
        if not self.has_fair_pace or (kind is not None and kind[0] == "loss"):
            return self.belief
        if not self._path.squeezed:
            return NOT_KNOWN
        return self.belief if kind and kind[0] != "nobody" else UNYIELDING

    @property
    def _doubtful(self) -> bool:
        """Whether nothing was chosen for somebody yet but a share, and who does not yield is not likely."""
        kinds = self.belief.kinds()
        yields = kinds.get("bbr", 0.0) + kinds.get("udp", 0.0) <= 1 - TUNED.sure
        return yields and (self.has_fair_pace or not self._heard_for)

    @property
    def _base_rtt_s(self) -> float:
        return self._path.path.base_rtt_s

    @property
    def _settle_s(self) -> float:
        return min(TUNED.settle_most_s, TUNED.settle_s + TUNED.settle_round_trips * self._base_rtt_s)

    @property
    def _judge_s(self) -> float:
        """After it has settled."""
        eased = self._trial is not None and self._trial.preference.growth < 1
        return max(TUNED.judge_s, TUNED.judge_round_trips * self._path.path.base_rtt_s if eased else 0.0)

    def _begun(self) -> float:
        return self._since_s + (self._settle_s if self.periods else 0.0)

    def _lately(self, t_s: float) -> Throughput | None:
        return self._path.meter.over(max(self._begun(), t_s - TUNED.look_back_s), t_s)

    def _settled(self, t_s: float) -> Throughput | None:
        """What this choice has had lately, once it has settled for long enough."""
        at_target = self.current == self._target
        return self._lately(t_s) if at_target and t_s - self._begun() >= self._judge_s else None

    def _note(self, had: Throughput | None) -> None:
        if had is None:
            return
        if self.current == self._fair:
            self._default_bps = had.rate_bps
        if self.periods and self.periods[-1].undone is None:
            self.periods[-1] = self.periods[-1]._replace(after=had)
        kind = sure_kind(self._believed)
        if kind is not None:
            self._measured.setdefault(kind[0], {})[self.current] = had.rate_bps

    def _undo(self, t_s: float, had: Throughput | None) -> tuple[Command, Choice, None] | None:
        """Back to the fair default, if the choice has not brought what it was made for, or nobody knows."""
        default = self._fair
        if self._target == default:
            return None
        known = self.current != self._target or sure_kind(self.belief) is not None
        if known or self._sure_s is None:
            self._sure_s = t_s
        unsure = t_s - self._sure_s > (TUNED.proven_s if self._proven else TUNED.unsure_s)
        failed = None
        if had is not None and self._trial is not None and (known or unsure or self._heard_for):
            failed = self._trial.failed(had, sure_kind(self.belief), self._default_bps, self.capacity_bps)
        if failed is None and unsure and self._heard_for:
            failed = Reason.NOT_RECOGNISED.because()
        if failed is None:
            return None
        self._cooldown_until_s = t_s + min(TUNED.cooldown_most_s, TUNED.cooldown_s * 2**self._failures)
        self._failures += 1
        if self.periods:
            self.periods[-1] = self.periods[-1]._replace(undone=failed.words)
        return Command(default, failed), default, None

    def _prefer(self, t_s: float) -> tuple[Command, Choice, Preference] | None:
        """What the policy would have, when it has wanted that for long enough."""
        if self._verdicts == self._asked:
            return None
        self._asked = self._verdicts
        preference = self._policy(self._believed, self._situation())
        if preference is None or preference.choice == self._target or preference.gain < TUNED.gain:
            self._preferred = None
            return None
        if preference.choice.is_bbr and preference.probability < TUNED.sure_to_take:
            self._preferred = None
            return None
        times = 1 + (self._preferred[1] if self._preferred and self._preferred[0] == preference.choice else 0)
        self._preferred = preference.choice, times
        soon = self._heard_for and t_s - self._since_s < max(TUNED.dwell_s, self._settle_s + TUNED.judge_s)
        cooling = preference.choice != self._fair and t_s < self._cooldown_until_s
        if times < TUNED.verdicts_agree or soon or cooling:
            return None
        return Command(_step(self.current, preference.choice), self._why()), preference.choice, preference

    def _why(self) -> Why:
        """For a change made for whom is there."""
        if sure_kind(self.belief) is None:
            return Reason.UNYIELDING.because()
        label, probability = self.belief.likeliest
        return Reason.RECOGNISED.because(label=label, probability=probability)

    def _hold(self) -> tuple[Command, Choice, None] | None:
        """The plan's streams paced, as soon as it is known how much is an equal share."""
        paced = self._now.fair_pace
        if paced is None or self.current.is_bbr or self._target == paced:
            return None
        if paced.congestion_control not in self._now.controls:
            # It has been refused.
            return None
        if self._path.carries.probed_bps is None:
            begin_bps = TUNED.pace_rest * (self.capacity_bps or 0.0)
            return Command(paced, Reason.EXCLUSIVE.because(), begin_bps), paced, None
        return Command(paced, Reason.CAPACITY_KNOWN.because()), paced, None

    def _let_go(self) -> tuple[Command, Choice, None] | None:
        """Without a bound that was for another path."""
        moved, self._moved = self._moved, False
        if not moved or not self.paced:
            return None
        target = self._now.default
        return Command(target, Reason.ROUTE_CHANGED.because()), target, None

    def _ease(self, look: Look) -> tuple[Command, Choice, None] | None:
        """The next halving, when the queue is back."""
        if self.current == self._target:
            return None
        waited_s, base_s = look.t_s - self._since_s, self._path.path.base_rtt_s
        if waited_s < max(TUNED.ease_s, TUNED.ease_round_trips * base_s):
            return None
        queue_s = 0.0 if look.rtt_s is None else look.rtt_s - base_s
        if queue_s < TUNED.ease_queue * self._path.path.queue_bdp * base_s and waited_s < TUNED.ease_most_s:
            return None
        return Command(_step(self.current, self._target), self._eased_for), self._target, None

    def _quiet(self, t_s: float) -> tuple[Command, Choice, Preference] | None:
        """Few streams, so that others can be heard."""
        if (
            t_s < self._quiet_s
            or not self._wants_to_hear(t_s)
            or self.needs_exclusivity(t_s)
            or self._path.emptied
        ):
            return None
        target = self.current._replace(streams=next(stream_counts(self._now)))
        if target == self.current:
            return None
        self._room_s = t_s + TUNED.quiet_room_s
        wanted = Command(_step(self.current, target), Reason.TO_RECOGNISE.because())
        return wanted, target, _to_hear(target, self.current)

    def _wants_to_hear(self, t_s: float) -> bool:
        """Whether who is there is to be heard, and cannot be beside what is sent now."""
        if (
            self.can_recognise
            or not self.able
            or self._target != self.current
            or t_s < self._cooldown_until_s
        ):
            return False
        if t_s < TUNED.first_s or self.capacity_bps is None:
            # How many can do is not known yet.
            return False
        # Between few and the default it is on its way to it, and the path has no more room.
        kept_s = TUNED.quiet_again_s if self._heard_for else self._settle_s + TUNED.judge_s
        return self.current == self._fair or t_s - self._since_s >= kept_s

    def _room(self, t_s: float) -> tuple[Command, Choice, Preference | None] | None:
        """Twice the streams, where the fair default has not been had yet and the path is not full."""
        default, kind = self._now.default, sure_kind(self.belief)
        if self._now.fair_pace or self._default_bps is not None or self.current == default or self._heard_for:
            return None
        if t_s < self._room_s or (kind is not None and kind[0] != "nobody"):
            return None
        longest_s = self._path.meter.longest_rtt_s(t_s - TUNED.room_s, t_s)
        if t_s - self._since_s < TUNED.room_s or longest_s is None or queues(longest_s, self._base_rtt_s):
            return None
        target = self.current._replace(streams=min(default.streams, 2 * self.current.streams))
        trial = None if target == default else _to_hear(target, default)
        return Command(target, Reason.ROOM.because()), target, trial

    def _situation(self) -> Situation:
        kind = sure_kind(self._believed)
        measured = self._measured.get(kind[0], {}) if kind else {}
        return self._now._replace(measured=dict(measured))


def _to_hear(few: Choice, before: Choice) -> Preference:
    """Nobody is known yet; somebody may be there, who is then due half."""
    return Preference(few, "nobody", 0.0, 0.0, few.streams / before.streams, 0.5)


def _step(now: Choice, target: Choice) -> Choice:
    """Half of the streams at the least, unless the target is sent in another path."""
    if now.congestion_control != target.congestion_control or target.is_bbr:
        return target
    return target._replace(streams=max(target.streams, now.streams // 2))
