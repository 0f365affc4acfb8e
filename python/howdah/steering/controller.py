"""Feeds what is measured of one transfer to the machine, and records what the machine did."""

import msgspec
import numpy as np

from howdah import HowdahError
from howdah.recognition.recognise import recognise as listen
from howdah.remote.messages import Progress, Steering
from howdah.remote.meter import Meter
from howdah.steering.arbiter import Command, Period
from howdah.steering.machine import (
    BOUNDS,
    Failed,
    Recognised,
    Resting,
    RouteChanged,
    Settled,
    State,
    Tick,
    step,
)
from howdah.steering.pace import CONTROL
from howdah.steering.path_state import PathState
from howdah.steering.policy import Situation, SteeringRequest, UtilityPolicy
from howdah.steering.round_trips import RoundTrips, Verdict
from howdah.steering.shares import Belief, Choice
from howdah.steering.sources import RttSource
from howdah.steering.states import Phase
from howdah.steering.throughput import Look, Rates, lately_s
from howdah.steering.tunables import TUNED, lasting
from howdah.values.listened import HeardThen, Listened, SentThen
from howdah.values.outcome import Change
from howdah.values.reason import Reason

KNOWN = ("cubic", "bbr")
"""The controls that policies know of."""
_MOST = 1000
"""The most changes of belief that are kept for the record."""


class SharedPathController:
    """Feeds the machine of one transfer.

    Raises HowdahError where no model can say who is there, and where change after change is refused.
    """

    def __init__(
        self,
        request: SteeringRequest,
        source: RttSource,
        now_s: float,
        began: Change | None = None,
    ) -> None:
        """``began`` is what was changed before the first byte."""
        plan = request.plan
        control = plan.congestion_control or request.control_default
        default = Choice(control, plan.streams, plan.pacing_bps)
        rtt_s = request.rtt_s or TUNED.assumed_rtt_s
        situation = Situation(
            current=default._replace(streams=began.streams if began else plan.streams),
            default=default,
            controls=tuple(dict.fromkeys([control, *(each for each in KNOWN if each in request.controls)])),
            stream_most_bps=request.stream_most_bps,
            streams_fixed=request.streams_fixed,
        )
        self._state = State.begin(
            request.policy or UtilityPolicy(request.fairness),
            situation,
            began.why if began else None,
            reno_starts=CONTROL in request.controls and control.removeprefix("hd_") == "cubic",
        )
        self._settled_s = lasting(TUNED.series_settle_s, TUNED.series_settle_round_trips, rtt_s)
        self._round_trips = RoundTrips(source, listen, request.rtt_s)
        self._round_trips.begin(now_s)
        self._rates = Rates()
        self._meter = Meter()
        self._latest = began
        self._heard: list[HeardThen] = []
        self._verdicts = 0
        self._cannot: str | None = None

    def use_source(self, source: RttSource) -> None:
        """Goes over to another source of round trips."""
        self._round_trips.use_source(source)

    def look(self, now: Progress) -> Steering | None:
        """Decides what to change now. Raises HowdahError where nothing can be decided any more."""
        self._meter.add(now)
        self._rates.add(now.acked_s, now.acked_bytes)
        self._take_latest(now)
        if self._round_trips.take(now.elapsed_s, now.rtt_s) is not None:
            self._state, _ = step(self._state, RouteChanged())
        if self._state.probes:
            # What is sent in such a moment is not to be judged.
            self._round_trips.begin(now.elapsed_s + self._settled_s)
        else:
            self._recognise(now.elapsed_s)
        self._state, command = step(self._state, self._tick(now))
        return None if command is None else _steering(command)

    def rest(self, now: Progress) -> Steering | None:
        """Measures nothing, and ends the bounds that there are. Raises HowdahError where that is refused."""
        self._take_latest(now)
        self._state, command = step(self._state, Resting(now.elapsed_s))
        return None if command is None else _steering(command)

    def _take_latest(self, now: Progress) -> None:
        if now.latest is not None and now.latest != self._latest:
            self._latest = now.latest
            self._settle(now.latest, now.elapsed_s)

    def _settle(self, latest: Change, now_s: float) -> None:
        before, base_s = self._state, self._round_trips.base_rtt_s or TUNED.assumed_rtt_s
        had_bps, rtt_s = self._rates.all_bps(base_s) or 0.0, self._rtt_s(latest.t_s) or TUNED.assumed_rtt_s
        settled_s = latest.t_s + self._settled_s
        self._state, _ = step(before, Settled(latest, now_s, settled_s, had_bps, rtt_s))
        if (times := self._state.refusals) >= TUNED.refusals_most:
            raise HowdahError(Reason.REFUSED.because(times=times, problem=latest.refused).words)
        if before.in_flight is not None and before.in_flight.event in BOUNDS:
            return
        one, two = before.arbiter, self._state.arbiter
        same = one.current.congestion_control == two.current.congestion_control and one.paced == two.paced
        if not one.can_recognise or not same:
            self._round_trips.begin(settled_s)

    def _tick(self, now: Progress) -> Tick:
        now_s, base_s, rtt_s = now.elapsed_s, self._round_trips.base_rtt_s, self._rtt_s(now.elapsed_s)
        look = Look(
            now_s,
            now.bytes_done,
            now.retransmissions,
            now.rtt_s,
            self._meter.left_s(now),
            (now.acked_s, sum(now.acked_bytes)) if now.acked_bytes else None,
        )
        queue_bdp, finely = self._round_trips.queue_bdp, self._round_trips.by == "icmp"
        path = PathState(base_s or TUNED.assumed_rtt_s, queue_bdp, finely)
        dips = self._state.phase is Phase.PROBING_CAPACITY
        return Tick(
            look,
            path,
            base_s,
            rtt_s,
            None if rtt_s is None else self._rates.each_bps(lately_s(rtt_s)),
            self._rates.each_bps(TUNED.exclusivity_rates_s),
            self._round_trips.known(now_s - TUNED.look_back_s) if dips else None,
        )

    def _rtt_s(self, now_s: float) -> float | None:
        """The round trip of late; None where there was no answer."""
        _, rtts = self._round_trips.known(now_s - TUNED.rtt_lately_s)
        return float(np.nanmedian(rtts)) if np.isfinite(rtts).any() else None

    def back(self, why: str) -> Steering | None:
        """The fair default comes back for good."""
        self._state, command = step(self._state, Failed(why))
        return None if command is None else _steering(command)

    def to_record(self, told: Listened) -> Listened:
        """The record with what was recognised and done."""
        return msgspec.structs.replace(
            told,
            base_rtt_s=self._round_trips.base_rtt_s,
            queue_bdp=self._round_trips.queue_bdp if self._verdicts else None,
            capacity_bps=self._state.arbiter.capacity_bps,
            counted=self._state.count.streams,
            verdicts=self._verdicts,
            cannot_tell=self._cannot,
            heard=self._heard,
            sent=[_sent(period) for period in self._state.arbiter.periods[:_MOST]],
            dips=list(self._state.capacity.dips[:_MOST]),
            moved=self._round_trips.moved[:_MOST],
        )

    def _recognise(self, now_s: float) -> None:
        arbiter = self._state.arbiter
        choice, able = arbiter.current, arbiter.can_recognise
        control = choice.congestion_control.removeprefix("hd_")
        # Behind many streams it is only asked whether it could tell beside one; those paced are as none.
        ours = {} if arbiter.paced else {control: choice.streams if able else 1}
        verdict = self._round_trips.verdict(now_s, ours)
        if verdict is None:
            return
        belief = None
        if isinstance(verdict, Verdict):
            self._cannot = None
            belief = Belief({} if verdict.new else dict(verdict.classes))
        else:
            self._cannot = verdict.why
        self._state, _ = step(self._state, Recognised(belief))
        if able and belief is not None:
            self._verdicts += 1
            self._note(now_s)

    def _note(self, now_s: float) -> None:
        belief = self._state.arbiter.belief
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


def _steering(command: Command) -> Steering:
    choice = command.choice
    return Steering(
        congestion_control=choice.congestion_control,
        streams=choice.streams,
        pacing_bps=choice.pacing_bps,
        why=command.why.words,
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
        before=period.before,
        after=period.after,
        undone=period.undone,
    )
