"""A transfer that listens to who else is on its path, and changes how it sends.

It begins with its plan, the fair default; with one stream of it where somebody was there before the first
byte, for many would take from others what they are long in getting back. Nothing waits for it: round trips
are gathered by a thread of the native module while the transfer connects. What judges takes a while to load,
so that is done only when the transfer has lasted for ``wait_s`` and is to last on (``controller``). Whatever
goes wrong with listening ends it and never the transfer.

Probes take 0.1 Mb/s. Where the transfer carries little more than that, or a limit holds it, none are sent.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from howdah import HowdahError
from howdah.recognition import models
from howdah.remote.messages import Progress, Steering
from howdah.steering.policy import SteeringRequest
from howdah.steering.sources import By, RttSample, RttSource, StreamSource, best_source, others_present
from howdah.steering.tunables import TUNED, lasting
from howdah.values.listened import Listened, SentThen
from howdah.values.outcome import Change
from howdah.values.reason import Reason

if TYPE_CHECKING:
    from howdah.steering.controller import SharedPathController

__all__ = ["Listening", "SteeringRequest"]


class Listening:
    """The pilot of one transfer: ``transfer.pilot.Pilot``."""

    def __init__(
        self, request: SteeringRequest, source: RttSource | None = None, before: Sequence[RttSample] = ()
    ) -> None:
        """``source`` is one that is open already, if there is, and ``before`` what it has given so far."""
        self._request = request
        self._source = source
        self._by: By | None = None if source is None else source.by
        self._not_by_icmp: str | None = None
        self._rate = _SlowRate(request.rtt_s or TUNED.assumed_rtt_s)
        self._before: list[RttSample] = list(before)
        self._before_s = 0.0
        """The time until which nothing had been sent."""
        self._few: Steering | None = None
        self._began: Change | None = None
        self._moving_s: float | None = None
        self._at_other = False
        self._controller: SharedPathController | None = None
        self._ended: str | None = None

    def __call__(self, now: Progress) -> Steering | None:
        """Answers progress with a steering; None: nothing changes."""
        if self._ended is not None:
            return None
        if now.other_address is not None and not self._at_other:
            self._follow(now.other_address)
        if self._rate.is_slow(now):
            return self.rest(now)
        source = self._source or self._open()
        self._began = self._began or self._came_of_few(now)
        try:
            if self._moving_s is None:
                return self._begin(now, source)
            waits = now.phase != "moving" or now.elapsed_s - self._moving_s < TUNED.wait_s
            if waits or not (self._controller or self._lasts(now)):
                return None
            return self._listen(now, source)
        except (HowdahError, ValueError) as error:
            source.close()
            return self._back(str(error))

    def rest(self, now: Progress) -> Steering | None:
        """Takes no round trips until it is called again, and ends bounds that nobody would move meanwhile."""
        self.close()
        self._source = None
        by_rule = now.latest is not None and now.latest.held_by_rule
        if self._controller is None or self._ended is not None or by_rule:
            return None
        try:
            return self._controller.rest(now)
        except (HowdahError, ValueError) as error:
            return self._back(str(error))

    def close(self) -> None:
        """Closes the source of round trips."""
        if self._source is not None:
            self._source.close()

    def _open(self) -> RttSource:
        source, self._not_by_icmp = best_source(self._request.addresses)
        self._source, self._by = source, source.by
        if self._controller is not None:
            self._controller.use_source(source)
        return source

    def _follow(self, other_address: str) -> None:
        """Takes the round trips of the far host's other address: IPv6 may have another path than IPv4."""
        address = other_address.partition(" ")[0].rpartition(":")[0].strip("[]")
        self._at_other, self._before = True, []
        self._request = self._request._replace(addresses=[address])
        self.close()
        self._source = None

    def to_record(self) -> Listened:
        """The recognised classes and the changes, for the record."""
        told = Listened(
            by=self._by if self._controller or self._began else None,
            not_by_icmp=self._not_by_icmp,
            ended=self._ended,
            fairness=self._request.fairness,
        )
        if self._controller:
            return self._controller.to_record(told)
        return msgspec.structs.replace(told, sent=[_sent(self._began)]) if self._began else told

    def _begin(self, now: Progress, source: RttSource) -> Steering | None:
        """Begins with few streams where others are there, and a model could tell who they are."""
        if now.phase == "connecting":
            self._before_s = now.elapsed_s
        elif now.phase == "moving":
            self._moving_s = now.elapsed_s
        request, plan = self._request, self._request.plan
        control = plan.congestion_control or request.control_default
        able = (
            plan.streams > TUNED.few_streams
            and not request.streams_fixed
            and models.file(control) is not None
        )
        self._before += [each for each in source.take(now.elapsed_s, None) if self._is_before(each)]
        if self._few or not able or source.by != "icmp" or not others_present(self._before, request.rtt_s):
            return None
        self._few = Steering(
            streams=TUNED.few_streams, pacing_bps=plan.pacing_bps, why=Reason.OTHERS_PRESENT.value
        )
        return self._few

    def _is_before(self, sample: RttSample) -> bool:
        """Whether its answer came before the copy's own data, which keep both hosts busy."""
        return sample.t_s + (sample.rtt_s or 0.0) <= self._before_s

    def _came_of_few(self, now: Progress) -> Change | None:
        return now.latest if self._few and now.latest and now.latest.refused is None else None

    def _back(self, why: str) -> Steering | None:
        """The plan comes back for good."""
        self._ended = why
        if self._controller:
            return self._controller.back(why)
        plan = self._request.plan
        return self._few and Steering(streams=plan.streams, pacing_bps=plan.pacing_bps, why=why)

    def _lasts(self, now: Progress) -> bool:
        """Whether enough is left; also where that is not known."""
        moved_s = now.elapsed_s - (self._moving_s or 0.0)
        if self._request.for_s is not None:
            return self._request.for_s - moved_s >= TUNED.least_left_s
        if now.bytes_total is None or not now.scan_complete or not now.bytes_done:
            return True
        return (now.bytes_total - now.bytes_done) * moved_s / now.bytes_done >= TUNED.least_left_s

    def _listen(self, now: Progress, source: RttSource) -> Steering | None:
        if self._controller is None:
            from howdah.steering.controller import SharedPathController  # noqa: PLC0415

            known = [self._request.rtt_s, *(sample.rtt_s for sample in self._before)]
            base_s = min((each for each in known if each is not None), default=None)
            self._controller = SharedPathController(
                self._request._replace(rtt_s=base_s), source, now.elapsed_s, self._began
            )
        steering = self._controller.look(now)
        if (why := source.why_silent()) is not None:
            source.close()
            self._source, self._not_by_icmp = StreamSource(), why
            self._by = self._source.by
            self._controller.use_source(self._source)
        return steering


class _SlowRate:
    """Whether the transfer carries so little that probes would take a large part of it."""

    def __init__(self, rtt_s: float) -> None:
        self._span_s = lasting(TUNED.slow_s, TUNED.slow_round_trips, rtt_s)
        self._seen: deque[tuple[float, int]] = deque()
        self._slow = False

    def is_slow(self, now: Progress) -> bool:
        """Judges by the rate of the last seconds. It is fast again at twice the rate at which it was slow."""
        if now.phase != "moving":
            return False
        self._seen.append((now.elapsed_s, max(now.bytes_done, sum(now.acked_bytes))))
        while len(self._seen) > 2 and now.elapsed_s - self._seen[1][0] >= self._span_s:
            self._seen.popleft()
        (from_s, before), (until_s, moved) = self._seen[0], self._seen[-1]
        if until_s - from_s >= self._span_s:
            rate_bps = (moved - before) * 8 / (until_s - from_s)
            self._slow = rate_bps < TUNED.slow_bps * (2 if self._slow else 1)
        return self._slow


def _sent(began: Change) -> SentThen:
    """The only change of a transfer that was over before more could be recognised."""
    return SentThen(
        t_s=0.0,
        congestion_control=began.congestion_control or "",
        streams=began.streams,
        pacing_bps=began.pacing_bps,
        why=began.why,
    )
