"""A transfer that listens to who else is on its path, and changes how it sends.

It begins with its plan, the fair default; with one stream of it where somebody was heard before the first
byte, for many would take from others what they are long in getting back. Nothing waits for it: round trips
are gathered by a thread of the native module while the transfer connects. What judges takes a while to load,
so that is done only when the transfer has lasted for ``WAIT_S`` and is to last on (``beside``). Whatever goes
wrong with listening ends it and never the transfer.
"""

from typing import TYPE_CHECKING, NamedTuple

from howdah.values.plan import Plan

if TYPE_CHECKING:
    from howdah.steering.policy import Policy
from typing import TYPE_CHECKING

import msgspec

from howdah import HowdahError
from howdah.recognition import models
from howdah.remote.messages import Progress, Steering
from howdah.steering.sources import Ear, Sound, Streams, best, somebody
from howdah.values.record import Change, Listened, SentThen

if TYPE_CHECKING:
    from howdah.steering.controller import Beside


class Wish(NamedTuple):
    """What was asked for, and what can be had."""

    plan: Plan
    fairness: float
    control_default: str
    """The sender's."""
    controls: tuple[str, ...]
    """That the sender may use."""
    streams_fixed: bool
    stream_most_bps: float
    """What the window of one stream carries at most."""
    rtt_s: float | None
    addresses: list[str]
    """Where the data goes, the likeliest first."""
    for_s: float | None = None
    """How long it is to send; null: until all is there."""
    policy: "Policy | None" = None
    """Null: the one that weighs by ``fairness``."""


WAIT_S = 2.0
"""Of payload on its way."""
LEAST_LEFT_S = 10.0
"""What has less left is over before anybody was heard and a change has brought anything."""
FEW = 1
"""Streams beside others, until it is known who they are."""


class Listening:
    """The pilot of one transfer."""

    def __init__(self, wish: Wish, ear: Ear | None = None) -> None:
        """``ear`` is one that listens already, if there is."""
        self._wish = wish
        self._ear = ear
        self._not_by_icmp: str | None = None
        self._before: list[Sound] = []
        self._before_s = 0.0
        """Nothing had been sent yet."""
        self._few: Steering | None = None
        self._began: Change | None = None
        self._moving_s: float | None = None
        self._beside: Beside | None = None
        self._ended: str | None = None

    def __call__(self, now: Progress) -> Steering | None:
        """How to send from now on; None: as before."""
        if self._ended is not None:
            return None
        if self._ear is None:
            self._ear, self._not_by_icmp = best(self._wish.addresses)
        self._began = self._began or self._came_of_few(now)
        try:
            if self._moving_s is None:
                return self._begin(now, self._ear)
            waits = now.phase != "moving" or now.elapsed_s - self._moving_s < WAIT_S
            if waits or not (self._beside or self._lasts(now)):
                return None
            return self._listen(now, self._ear)
        except (HowdahError, ValueError) as error:
            self._ended = str(error)
            self._ear.close()
            return self._back(self._ended)

    def close(self) -> None:
        """Listens no more."""
        if self._ear is not None:
            self._ear.close()

    def told(self) -> Listened:
        """For the record."""
        told = Listened(
            by=self._ear.by if self._ear and (self._beside or self._began) else None,
            not_by_icmp=self._not_by_icmp,
            ended=self._ended,
            fairness=self._wish.fairness,
        )
        if self._beside:
            return self._beside.told(told)
        return msgspec.structs.replace(told, sent=[_sent(self._began)]) if self._began else told

    def _begin(self, now: Progress, ear: Ear) -> Steering | None:
        """Few streams, as soon as somebody is heard, where who it is could be told."""
        if now.phase == "connecting":
            self._before_s = now.elapsed_s
        elif now.phase == "moving":
            self._moving_s = now.elapsed_s
        wish, plan = self._wish, self._wish.plan
        control = plan.congestion_control or wish.control_default
        able = plan.streams > FEW and not wish.streams_fixed and models.file(control) is not None
        self._before += [each for each in ear.take(now.elapsed_s, None) if each.t_s <= self._before_s]
        if self._few or not able or ear.by != "icmp" or not somebody(self._before, wish.rtt_s):
            return None
        self._few = Steering(
            streams=FEW, pacing_bps=plan.pacing_bps, why="others were heard before the first byte"
        )
        return self._few

    def _came_of_few(self, now: Progress) -> Change | None:
        return now.latest if self._few and now.latest and now.latest.refused is None else None

    def _back(self, why: str) -> Steering | None:
        """To the plan, for good."""
        if self._beside:
            return self._beside.back(why)
        plan = self._wish.plan
        return self._few and Steering(streams=plan.streams, pacing_bps=plan.pacing_bps, why=why)

    def _lasts(self, now: Progress) -> bool:
        """Whether there is enough left; also where that is not known."""
        moved_s = now.elapsed_s - (self._moving_s or 0.0)
        if self._wish.for_s is not None:
            return self._wish.for_s - moved_s >= LEAST_LEFT_S
        if now.bytes_total is None or not now.scan_complete or not now.bytes_done:
            return True
        return (now.bytes_total - now.bytes_done) * moved_s / now.bytes_done >= LEAST_LEFT_S

    def _listen(self, now: Progress, ear: Ear) -> Steering | None:
        if self._beside is None:
            from howdah.steering.controller import Beside  # noqa: PLC0415

            known = [self._wish.rtt_s, *(sound.rtt_s for sound in self._before)]
            base_s = min((each for each in known if each is not None), default=None)
            self._beside = Beside(self._wish._replace(rtt_s=base_s), ear, now.elapsed_s, self._began)
        steering = self._beside.look(now)
        if (why := ear.deaf()) is not None:
            ear.close()
            self._ear, self._not_by_icmp = Streams(), why
            self._beside.listen_by(self._ear)
        return steering


def _sent(began: Change) -> SentThen:
    """Of a transfer that was over before more could be heard."""
    return SentThen(
        t_s=0.0,
        congestion_control=began.congestion_control or "",
        streams=began.streams,
        pacing_bps=began.pacing_bps,
        why=began.why,
    )
