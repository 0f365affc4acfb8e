"""Hearing and choosing put together, for one transfer (``listening``)."""

import msgspec
import numpy as np

from howdah.recognition.listen import listen
from howdah.remote.messages import Progress, Steering
from howdah.remote.meter import Meter
from howdah.steering.arbiter import ChangeArbiter, Command, Period
from howdah.steering.capacity_probe import CapacityProbe
from howdah.steering.exclusivity import ExclusivityProbe
from howdah.steering.hearing import Hearing, Recogniser, Verdict
from howdah.steering.listening import SteeringRequest
from howdah.steering.pace import CONTROL as STARTING
from howdah.steering.pace import Pace, Path, Start
from howdah.steering.path_state import PathState
from howdah.steering.policy import Situation
from howdah.steering.shares import Belief, Choice
from howdah.steering.sources import RttSource
from howdah.steering.throughput import Bound, Look, Rates, Throughput, lately_s
from howdah.steering.tunables import TUNED
from howdah.steering.utility_policy import UtilityPolicy
from howdah.values.reason import Reason
from howdah.values.record import Change, Dip, Had, HeardThen, Listened, RouteMoved, SentThen

KNOWN = ("cubic", "bbr")
"""The controls that policies know of."""
_MOST = 1000
"""Changes of mind that are kept."""


class SharedPathController:
    """Who is there, and how to send beside them. Raises HowdahError when nobody can be asked."""

    def __init__(
        self,
        request: SteeringRequest,
        source: RttSource,
        now_s: float,
        began: Change | None = None,
        recogniser: Recogniser | None = None,
    ) -> None:
        """``began`` is what was changed before the first byte."""
        plan = request.plan
        control = plan.congestion_control or request.control_default
        self._default = Choice(control, plan.streams, plan.pacing_bps)
        rtt_s = request.rtt_s or TUNED.assumed_rtt_s
        situation = Situation(
            current=self._default._replace(streams=began.streams if began else plan.streams),
            default=self._default,
            controls=tuple(dict.fromkeys([control, *(each for each in KNOWN if each in request.controls)])),
            stream_most_bps=request.stream_most_bps,
            streams_fixed=request.streams_fixed,
        )
        self._arbiter = ChangeArbiter(
            request.policy or UtilityPolicy(request.fairness), situation, began.why if began else None
        )
        self._settled_s = max(TUNED.series_settle_s, TUNED.series_settle_round_trips * rtt_s)
        self._hearing = Hearing(source, recogniser or listen, request.rtt_s)
        self._hearing.begin(now_s)
        self._arbiter.able = False
        self._rates = Rates()
        self._capacity = CapacityProbe()
        self._pace: Pace | None = None
        self._start: Start | None = None
        self._starts = STARTING in request.controls and control.removeprefix("hd_") == "cubic"
        self._exclusivity = ExclusivityProbe()
        self._begin_bps: float | None = None
        """What is to be paced next begins with."""
        self._meter = Meter()
        self._latest = began
        self._heard: list[HeardThen] = []
        self._verdicts = 0
        self._cannot: str | None = None

    def use_source(self, source: RttSource) -> None:
        """By another source from now on."""
        self._hearing.use_source(source)

    def look(self, now: Progress) -> Steering | None:
        """What to change now. Raises HowdahError when nobody can be asked who is there."""
        self._meter.add(now)
        self._rates.add(now.acked_s, now.acked_bytes)
        if now.latest is not None and now.latest != self._latest:
            self._latest = now.latest
            if self._capacity.asked:
                self._capacity.made(now.latest.t_s, now.latest.refused)
            elif self._exclusivity.asked:
                self._exclusivity.made(now.latest.t_s, now.latest.refused)
                if now.latest.refused is not None:
                    self._arbiter.found(now.elapsed_s, exclusive=False)
            elif self._pace is not None and self._pace.asked:
                self._pace.made(now.latest.refused)
            else:
                self._changed(now.latest)
        if self._hearing.take(now.elapsed_s, now.rtt_s) is not None:
            self._arbiter.new_path()
            self._capacity.new_path()
            self._exclusivity.new_path()
        if self._sends_less:
            # What is sent in such a moment is not to be judged by the source.
            self._hearing.begin(now.elapsed_s + self._settled_s)
            return self._dipped(now.elapsed_s) if self._capacity.dipping else self._found(now.elapsed_s)
        self._ask(now.elapsed_s)
        look = Look(
            now.elapsed_s,
            now.bytes_done,
            now.retransmissions,
            now.rtt_s,
            self._meter.left_s(now),
            (now.acked_s, sum(now.acked_bytes)) if now.acked_bytes else None,
        )
        base_s = self._hearing.base_rtt_s or TUNED.assumed_rtt_s
        if self._pace is not None and self._pace.asked:
            return None
        wanted = self._arbiter.look(
            look, PathState(base_s, self._hearing.queue_bdp, self._hearing.by == "icmp")
        )
        if wanted is not None:
            self._begin_bps = wanted.begin_bps
            each_bps = None if wanted.begin_bps is None else self._exclusivity.each_bps(wanted.begin_bps)
            choice = self._paced(wanted.choice, each_bps)
            more = choice.streams > self._arbiter.current.streams
            if self._starts and more and choice.is_paced(self._default):
                choice = choice._replace(congestion_control=STARTING)
            return _steering(wanted._replace(choice=choice))
        return self._less(look) or self._bound(look.t_s)

    def _changed(self, latest: Change) -> None:
        heard, paced = self._arbiter.can_recognise, self._arbiter.paced
        control = self._arbiter.current.congestion_control
        self._arbiter.made(latest.t_s, latest.refused)
        had_bps = self._rates.all_bps(self._hearing.base_rtt_s or TUNED.assumed_rtt_s) or 0.0
        begin_bps, settled_s = self._begin_bps or self._arbiter.share_bps, latest.t_s + self._settled_s
        each_bps = latest.pacing_bps or begin_bps / latest.streams
        uneven = max(1.0, each_bps * latest.streams / begin_bps) if self._begin_bps else 1.0
        self._pace = (
            Pace(begin_bps, had_bps, settled_s, each_bps, uneven) if self._arbiter.has_fair_pace else None
        )
        started = self._starts and self._pace is not None and latest.congestion_control == STARTING
        self._start = Start(latest.t_s, self._rtt_s(latest.t_s) or TUNED.assumed_rtt_s) if started else None
        if self._pace is not None and not paced:
            self._capacity.again(latest.t_s)
        same = control == self._arbiter.current.congestion_control and paced == self._arbiter.paced
        if not heard or not same:
            self._hearing.begin(latest.t_s + self._settled_s)

    @property
    def _sends_less(self) -> bool:
        """Whether it does so for a moment, to know the path."""
        return self._capacity.dipping or self._exclusivity.finding

    def _less(self, look: Look) -> Steering | None:
        """A moment of less, where it helps to know what the path carries, or whether it is ours alone."""
        if look.left_s is not None and look.left_s < TUNED.least_left_s:
            return None
        wonders, fills = self._arbiter.needs_capacity(look.t_s), self._arbiter.needs_exclusivity(look.t_s)
        base_s = self._hearing.base_rtt_s
        if not (wonders or fills) or base_s is None:
            return None
        if (rtt_s := self._rtt_s(look.t_s)) is None:
            return None
        rates_bps = self._rates.each_bps(TUNED.exclusivity_rates_s if fills else lately_s(rtt_s))
        if rates_bps is None:
            return None
        if not fills:
            # Those that carry nothing have no part of it.
            rates_bps = sorted(rates_bps)[-self._arbiter.current.streams :]
            most_s, known_bps = self._hearing.queue_bdp * base_s, self._arbiter.capacity_bps
            return self._dip(
                self._capacity.wants(
                    look.t_s, rtt_s, base_s, rates_bps, capacity_bps=known_bps, most_queue_s=most_s
                )
            )
        return self._bounded(self._exclusivity.begin(rtt_s, base_s, rates_bps), Reason.PROBING_EXCLUSIVITY)

    def _dipped(self, now_s: float) -> Steering | None:
        """The end of a dip, when it is due, and what it told."""
        return self._dip(self._capacity.look(now_s, *self._hearing.known(now_s - TUNED.look_back_s)))

    def _found(self, now_s: float) -> Steering | None:
        """Whether somebody else is there, and what is to be sent until that is known."""
        base_s = self._hearing.base_rtt_s or TUNED.assumed_rtt_s
        told, bound = self._exclusivity.look(now_s, self._rtt_s(now_s), base_s)
        if told is not None:
            self._arbiter.found(now_s, told)
        return None if bound is None else self._bounded(bound, Reason.PROBING_EXCLUSIVITY)

    def _rtt_s(self, now_s: float) -> float | None:
        """Of late."""
        _, rtts = self._hearing.known(now_s - TUNED.rtt_lately_s)
        return float(np.nanmedian(rtts)) if np.isfinite(rtts).any() else None

    def _bound(self, now_s: float) -> Steering | None:
        """Another bound of streams that are paced, by what others leave."""
        if self._pace is None or not self._arbiter.has_fair_pace:
            return None
        base_s, carries_bps = self._hearing.base_rtt_s, self._arbiter.capacity_bps
        rtt_s = self._rtt_s(now_s)
        rates_bps = None if rtt_s is None else self._rates.each_bps(lately_s(rtt_s))
        if base_s is None or carries_bps is None or rtt_s is None or rates_bps is None:
            return None
        path = Path(base_s, carries_bps, self._arbiter.share_bps, self._arbiter.exclusive)
        if self._start is not None and self._start.over(now_s, rates_bps, self._pace.each_bps):
            self._start = None
            self._pace.again()
            return self._bounded(Bound(self._pace.each_bps), Reason.SLOW_START_OVER)
        each_bps = self._pace.look(now_s, rtt_s, rates_bps, path)
        return None if each_bps is None else self._bounded(Bound(each_bps), Reason.REST)

    def _bounded(self, bound: Bound, reason: Reason) -> Steering:
        """Without one as it was."""
        choice, each_bps = self._arbiter.current, bound.each_bps
        if self._start is not None:
            choice = choice._replace(congestion_control=STARTING)
        if each_bps is None and self._pace is not None:
            each_bps = self._pace.each_bps
        return _steering(Command(self._paced(choice, each_bps), reason.because()))

    def _paced(self, choice: Choice, each_bps: float | None) -> Choice:
        """With that bound of each stream, or the plan's if that is less; None: as it is."""
        return choice if each_bps is None else choice.paced(each_bps, self._default.pacing_bps)

    def _dip(self, bound: Bound | None) -> Steering | None:
        if (capacity_bps := self._capacity.capacity_bps) is not None:
            self._arbiter.capacity_probed(capacity_bps)
        return None if bound is None else self._bounded(bound, Reason.PROBING_CAPACITY)

    def back(self, why: str) -> Steering | None:
        """To the fair default, for good."""
        if self._arbiter.current == self._default and not self._sends_less:
            return None
        return _steering(Command(self._default, Reason.FAILED.because(problem=why)))

    def to_record(self, told: Listened) -> Listened:
        """With what was heard and done."""
        return msgspec.structs.replace(
            told,
            base_rtt_s=self._hearing.base_rtt_s,
            queue_bdp=self._hearing.queue_bdp if self._verdicts else None,
            capacity_bps=self._arbiter.capacity_bps,
            verdicts=self._verdicts,
            cannot_tell=self._cannot,
            heard=self._heard,
            sent=[_sent(period) for period in self._arbiter.periods[:_MOST]],
            dips=[Dip(**dip._asdict()) for dip in self._capacity.dips[:_MOST]],
            moved=[
                RouteMoved(t_s=moved.at_s, before_s=moved.before_s, after_s=moved.after_s)
                for moved in self._hearing.moved[:_MOST]
            ],
        )

    def _ask(self, now_s: float) -> None:
        choice, hears = self._arbiter.current, self._arbiter.can_recognise
        control = choice.congestion_control.removeprefix("hd_")
        # Behind many streams it is only asked whether it could tell beside one; those paced are as none.
        ours = {} if self._arbiter.paced else {control: choice.streams if hears else 1}
        verdict = self._hearing.verdict(now_s, ours)
        if verdict is None:
            return
        self._arbiter.able = isinstance(verdict, Verdict)
        self._cannot = None if isinstance(verdict, Verdict) else verdict.why
        if hears and isinstance(verdict, Verdict):
            self._verdicts += 1
            self._arbiter.update_belief(Belief({} if verdict.new else dict(verdict.classes)))
            self._note(now_s)

    def _note(self, now_s: float) -> None:
        belief = self._arbiter.belief
        label, probability = belief.likeliest if belief.classes else (None, 0.0)
        if 1 - belief.known >= TUNED.record_likely:
            label, probability = None, 1 - belief.known
        if probability < TUNED.record_likely or len(self._heard) >= _MOST:
            return
        latest = self._heard[-1] if self._heard else None
        if latest is not None and latest.background == label:
            surer = latest.probability < TUNED.sure <= probability
            if not surer:
                return
            self._heard.pop()
            now_s = latest.t_s
        self._heard.append(HeardThen(t_s=now_s, background=label, probability=probability))


def _steering(wanted: Command) -> Steering:
    choice = wanted.choice
    return Steering(
        congestion_control=choice.congestion_control,
        streams=choice.streams,
        pacing_bps=choice.pacing_bps,
        why=wanted.why.words,
    )


def _sent(period: Period) -> SentThen:
    return SentThen(
        t_s=period.t_s,
        congestion_control=period.choice.congestion_control,
        streams=period.choice.streams,
        pacing_bps=period.choice.pacing_bps,
        held=period.paced,
        why=period.why,
        background=period.background,
        probability=period.probability,
        before=_had(period.before),
        after=_had(period.after),
        undone=period.undone,
    )


def _had(had: Throughput | None) -> Had | None:
    if had is None:
        return None
    return Had(rate_bps=had.rate_bps, rtt_s=had.rtt_s, resent_fraction=had.resent)
