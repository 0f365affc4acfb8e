"""The state by which the changes of one transfer are decided: what is known, believed, tried and measured.

A change is on trial until it is known whether it brought what it was made for. ``moves`` decides by all this.
Pure: times and counts are arguments.
"""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from howdah.steering.path_state import UNKNOWN, PathCapacity, PathShare, PathState
from howdah.steering.policy import Policy, Preference, Situation, sure_kind
from howdah.steering.shares import NOT_KNOWN, Belief, Choice, Kind
from howdah.steering.states import Event, Phase
from howdah.steering.throughput import Look
from howdah.steering.tunables import TUNED
from howdah.values.listened import Throughput
from howdah.values.reason import Reason, Why


class Trial(NamedTuple):
    """A change on trial, and the throughput before it."""

    preference: Preference
    before: Throughput | None
    lately_bps: float | None = None
    """The rate in the last seconds before; others may have changed meanwhile."""

    def failed(
        self,
        had: Throughput,
        kind: tuple[Kind, float] | None,
        default_bps: float | None,
        capacity_bps: float | None,
    ) -> Why | None:
        """The reason why the change is not kept; None where it is.

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
            had.resent_fraction > max(TUNED.trial_resent, TUNED.trial_resent_more * before.resent_fraction)
            and grown < TUNED.trial_resent_for
        ):
            return Reason.RESENT.because(resent=had.resent_fraction, part=grown)
        return None


class Command(NamedTuple):
    """A change of how the streams send, and its reason."""

    event: Event
    choice: Choice
    why: Why
    target: Choice | None = None
    """The choice that halving leads to; None: the choice stays, and a bound moves."""
    preference: Preference | None = None
    begin_bps: float | None = None
    """The rate that paced streams begin with, together, bits per second; None: their share."""


class Period(NamedTuple):
    """The choice from one instant on, and what it gave."""

    t_s: float
    choice: Choice
    why: str
    background: str | None
    """The class that was recognised, where the change was made for it."""
    probability: float | None
    before: Throughput | None
    after: Throughput | None
    """The throughput that it gave; None: it had no time to settle."""
    undone: str | None
    """The reason why it was not kept; None: it was."""
    paced: bool = False
    """Whether the choice's bound is the least, and others may leave more (``pace``)."""


UNYIELDING = Belief({"1 bbr": TUNED.sure_to_take})
"""The belief where somebody leaves us clearly less than an equal share."""


class ChangeArbiter(Struct, frozen=True):
    """The state of one transfer's changes; each method that changes something returns the next."""

    policy: Policy
    now: Situation
    path: PathShare
    target: Choice
    """The choice that halving leads to; else the current one."""
    able: bool = True
    """Whether a model could tell who is there, if we sent by few streams."""
    belief: Belief = NOT_KNOWN
    verdicts: int = 0
    asked: int = 0
    preferred: tuple[Choice, int] | None = None
    sure_s: float | None = None
    since_s: float = 0.0
    trial: Trial | None = None
    reason: Why | None = None
    """The reason for the last change."""
    default_bps: float | None = None
    """The rate of the fair default when it was in use last, bits per second."""
    asks_s: float = 0.0
    """The path is not probed for exclusivity earlier."""
    measured: dict[Kind, dict[Choice, float]] = {}
    failures: int = 0
    cooldown_until_s: float = 0.0
    """The end of a cooldown after a failure; nothing is tried earlier."""
    quiet_s: float = 0.0
    """The streams are not reduced earlier, for nobody was there."""
    room_s: float = 0.0
    """The earliest time at which an empty queue counts as room: streams were given up in order to listen."""
    moved: bool = False
    periods: tuple[Period, ...] = ()

    @classmethod
    def begin(cls, policy: Policy, now: Situation, began: str | None = None) -> "ChangeArbiter":
        """``began`` is why the transfer has begun with ``now.current``, where that is not the default."""
        made = cls(policy, now, PathShare(PathState(0.0, now.queue_bdp)), now.current)
        if now.current == now.default:
            return made
        period = Period(0.0, now.current, began or "", None, None, None, None, None)
        return replace(made, trial=Trial(to_recognise(now.current, now.default), None), periods=(period,))

    @property
    def phase(self) -> Phase:
        """The phase of the transfer, but for probes."""
        if self.current != self.target:
            return Phase.EASING
        if self.has_fair_pace or (self.paced and self.trial is None):
            return Phase.PACED
        if self.current == self.now.default:
            return Phase.PLANNED
        return Phase.TRIAL if self.for_others else Phase.QUIET

    @property
    def current(self) -> Choice:
        """The choice in force."""
        return self.now.current

    @property
    def for_others(self) -> bool:
        """Whether the last change was made for somebody, and not in order to recognise others."""
        return bool(self.periods) and (self.trial is None or self.trial.preference.probability > 0)

    @property
    def proven(self) -> bool:
        """Whether the last change has brought much."""
        latest = self.periods[-1] if self.for_others else None
        if latest is None or latest.before is None or latest.after is None:
            return False
        return latest.after.rate_bps >= TUNED.proven_growth * latest.before.rate_bps

    @property
    def can_recognise(self) -> bool:
        """Whether others can be recognised beside what we send now."""
        return self.current.streams <= TUNED.recognise_streams or self.now.streams_fixed or self.paced

    @property
    def paced(self) -> bool:
        """Whether our streams are bounded to a share, and so do not answer to the queue."""
        return self.current.is_paced(self.now.default)

    @property
    def bounded(self) -> bool:
        """Whether our streams have another bound than the plan's, by whatever control they send."""
        return self.current.pacing_bps != self.now.default.pacing_bps

    @property
    def has_fair_pace(self) -> bool:
        """Whether our streams may have what others leave of the path (``pace``)."""
        return self.current == self.now.fair_pace

    @property
    def fair(self) -> Choice:
        """The fair default."""
        return self.now.fair_pace or self.now.default

    @property
    def share_bps(self) -> float:
        """An equal share of what the path carries."""
        return self.path.capacity.share_bps

    def needs_capacity(self, t_s: float) -> bool:
        """Whether it helps to measure what the path carries, and nothing else changes now."""
        # What has arrived on a path of its own is known better than by dips.
        if not (self.policy.paces and self.path.path.finely) or self.exclusive:
            return False
        kind = sure_kind(self.belief)
        settled = self.current == self.target and t_s - self._begun() >= 0
        yields = kind[0] == "loss" if kind else t_s >= TUNED.doubt_s and self.path.full and self._doubtful
        # BBR keeps no window: neither ours nor another's answers to a dip as the rest does.
        return settled and self.can_recognise and yields and not self.current.is_bbr

    def needs_exclusivity(self, t_s: float) -> bool:
        """Whether the plan's streams may fill a path of their own, and that is to be known."""
        plan = self.now.default
        if not self.policy.paces or plan.is_bbr or self.current != plan or not self.needs_recognition(t_s):
            return False
        settled = t_s >= max(self.asks_s, self._begun())
        return settled and self.path.path.finely and self.path.full

    def found(self, t_s: float, exclusive: bool) -> "ChangeArbiter":
        """The same where it is known whether nobody else fills the path; a bound so far goes on then."""
        known = self._with_capacity(replace(self.path.capacity, exclusive=exclusive))
        if not exclusive:
            return replace(known, asks_s=t_s + TUNED.quiet_again_s, quiet_s=0.0)
        return replace(known, default_bps=None).shared_out()

    @property
    def exclusive(self) -> bool:
        """Whether nobody else was found to fill the path."""
        return self.path.capacity.exclusive

    @property
    def capacity_bps(self) -> float | None:
        """The least that the path carries, bits of payload per second."""
        return self.path.capacity.rate_bps

    def capacity_probed(self, capacity_bps: float) -> "ChangeArbiter":
        """The same where it was measured what the path carries: now the plan's streams are to be paced."""
        before = self.path.capacity
        known = self._with_capacity(before.probed(capacity_bps, self.belief))
        default_bps = self.default_bps if before.probed_bps is not None else None
        return replace(known, default_bps=default_bps).shared_out()

    @property
    def may_count(self) -> bool:
        """Whether CUBIC streams may be counted by the queue: ours are paced, and have their share."""
        kind = sure_kind(self.believed)
        return self.has_fair_pace and not self.exclusive and (kind is None or kind[0] in {"loss", "nobody"})

    def counted(self, streams: int | None) -> "ChangeArbiter":
        """The same where so many CUBIC streams of others were counted: the share follows."""
        if (streams or 0) == self.path.capacity.counted:
            return self
        return self._with_capacity(replace(self.path.capacity, counted=streams or 0)).shared_out()

    def _with_capacity(self, capacity: PathCapacity) -> "ChangeArbiter":
        return replace(self, path=replace(self.path, capacity=capacity))

    def shared_out(self) -> "ChangeArbiter":
        """The same where streams are paced to an equal share of what the path is known to carry by now."""
        paced = self.path.capacity.shared_by(self.now.default)
        now = self.now._replace(fair_pace=paced)
        if not self.has_fair_pace:
            return replace(self, now=now)
        # No change: how much they have in fact is not decided here.
        return replace(self, now=now._replace(current=paced), target=paced).with_latest(choice=paced)

    def with_latest(
        self, *, choice: Choice | None = None, after: Throughput | None = None, undone: str | None = None
    ) -> "ChangeArbiter":
        """The same with what is new of the latest period; nothing is where there is none."""
        if not self.periods:
            return self
        *earlier, latest = self.periods
        latest = latest._replace(
            choice=choice or latest.choice, after=after or latest.after, undone=undone or latest.undone
        )
        return replace(self, periods=(*earlier, latest))

    def update_belief(self, verdict: Belief) -> "ChangeArbiter":
        """The same after a verdict on who is there; what it gives no class is something never seen."""
        belief = self.path.tells(verdict)
        if self.verdicts:
            belief = self.belief.mixed(belief, TUNED.verdict_weight)
        return replace(self, belief=belief, verdicts=self.verdicts + 1)

    def on_new_route(self) -> "ChangeArbiter":
        """The same after the route has changed for good: all that was measured was of another path."""
        return replace(
            self._with_capacity(UNKNOWN),
            now=self.now._replace(fair_pace=None),
            measured={},
            belief=NOT_KNOWN,
            verdicts=0,
            asked=0,
            trial=None,
            preferred=None,
            sure_s=None,
            default_bps=None,
            asks_s=0.0,
            room_s=0.0,
            moved=True,
        )

    def add(self, look: Look, path: PathState) -> "ChangeArbiter":
        """The same with the next look, where nothing is to be changed."""
        return replace(self, path=self.path.add(look, path))

    def made(self, command: Command, t_s: float, refused: str | None) -> "ChangeArbiter":
        """The same when a change is in force, or was refused."""
        target, preference = command.target or self.target, command.preference
        if refused is not None:
            # What sends already, and what the plan sends by, was not what could not be had.
            known = {self.current.congestion_control, self.now.default.congestion_control}
            not_had = {command.choice.congestion_control} - known
            controls = tuple(each for each in self.now.controls if each not in not_had)
            now = self.now._replace(controls=controls)
            return replace(self, preferred=None, now=now, target=self.current)
        earlier_s = max(self.since_s, t_s - TUNED.look_back_s)
        before = self._lately(t_s) or self.path.meter.over(earlier_s, t_s)
        default_bps = self.default_bps
        if self.current == self.fair and before is not None:
            default_bps = before.rate_bps
        changed = replace(
            self,
            preferred=None,
            now=self.now._replace(current=command.choice),
            since_s=t_s,
            target=target,
            default_bps=default_bps,
        )
        going_on = target == self.target and preference is None
        return changed if going_on else changed._begun_for(command, target, t_s, before)

    def _begun_for(
        self, command: Command, target: Choice, t_s: float, before: Throughput | None
    ) -> "ChangeArbiter":
        """The same at the begin of a new period."""
        changed, preference = replace(self, sure_s=None, reason=command.why), command.preference
        if target == self.fair:
            if self.can_recognise:
                changed = replace(changed, quiet_s=t_s)
            else:
                # Who was recognised cannot be any more behind so many streams.
                quiet_s = t_s + TUNED.quiet_again_s
                changed = replace(changed, belief=NOT_KNOWN, verdicts=0, asked=0, quiet_s=quiet_s)
        lately = self.path.lately
        lately_bps = None if lately is None else lately.rate_bps
        trial = None if preference is None else Trial(preference, before, lately_bps)
        for_others = preference is not None and preference.probability > 0
        told = (for_others or self.has_fair_pace) and sure_kind(changed.belief) is not None
        label, probability = changed.belief.likeliest if told else (None, None)
        why, paced = command.why.words, self.has_fair_pace
        period = Period(t_s, target, why, label, probability, before, None, None, paced)
        return replace(changed, trial=trial, periods=(*self.periods, period))

    @property
    def believed(self) -> Belief:
        """The belief to act upon: whoever leaves paced streams their share is answered as one that yields."""
        kind = sure_kind(self.belief)
        if not self.has_fair_pace or (kind is not None and kind[0] == "loss"):
            return self.belief
        if not self.path.squeezed:
            return NOT_KNOWN
        return self.belief if kind and kind[0] != "nobody" else UNYIELDING

    @property
    def _doubtful(self) -> bool:
        """Whether nothing was chosen for somebody yet but a share, and who does not yield is not likely."""
        kinds = self.belief.kinds()
        yields = kinds.get("bbr", 0.0) + kinds.get("udp", 0.0) <= 1 - TUNED.sure
        return yields and (self.has_fair_pace or not self.for_others)

    @property
    def base_rtt_s(self) -> float:
        """The base RTT of the path, in seconds."""
        return self.path.path.base_rtt_s

    @property
    def settle_s(self) -> float:
        """The time in which a change settles, in seconds."""
        return min(TUNED.settle_most_s, TUNED.settle_s + TUNED.settle_round_trips * self.base_rtt_s)

    @property
    def _judge_s(self) -> float:
        """The settled time that a change is judged by."""
        eased = self.trial is not None and self.trial.preference.growth < 1
        return max(TUNED.judge_s, TUNED.judge_round_trips * self.base_rtt_s if eased else 0.0)

    def _begun(self) -> float:
        return self.since_s + (self.settle_s if self.periods else 0.0)

    def _lately(self, t_s: float) -> Throughput | None:
        return self.path.meter.over(max(self._begun(), t_s - TUNED.look_back_s), t_s)

    def settled(self, t_s: float) -> Throughput | None:
        """The recent throughput of this choice, once it has settled for long enough."""
        at_target = self.current == self.target
        return self._lately(t_s) if at_target and t_s - self._begun() >= self._judge_s else None

    def noted(self, had: Throughput | None) -> "ChangeArbiter":
        """The same with what this choice has had."""
        if had is None:
            return self
        noted = replace(self, default_bps=had.rate_bps) if self.current == self.fair else self
        if self.periods and self.periods[-1].undone is None:
            noted = noted.with_latest(after=had)
        kind = sure_kind(self.believed)
        if kind is None:
            return noted
        beside = {**self.measured.get(kind[0], {}), self.current: had.rate_bps}
        return replace(noted, measured={**self.measured, kind[0]: beside})

    def needs_recognition(self, t_s: float) -> bool:
        """Whether who is there is to be recognised, and cannot be beside what is sent now."""
        if self.can_recognise or not self.able or self.target != self.current or t_s < self.cooldown_until_s:
            return False
        if t_s < TUNED.first_s or self.capacity_bps is None:
            # How many can do is not known yet.
            return False
        # Between few and the default it is on its way to it, and the path has no more room.
        kept_s = TUNED.quiet_again_s if self.for_others else self.settle_s + TUNED.judge_s
        return self.current == self.fair or t_s - self.since_s >= kept_s


def to_recognise(few: Choice, before: Choice) -> Preference:
    """The preference for few streams: nobody is known yet; somebody may be there, who is then due half."""
    return Preference(few, "nobody", 0.0, 0.0, few.streams / before.streams, 0.5)
