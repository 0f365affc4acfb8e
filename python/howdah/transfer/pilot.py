"""Pilots change the streams of a transfer on its way, without reconnecting. A pilot is a call that answers
progress with a steering: a plan's schedule, or the controller of shared paths (``howdah.steering``)."""

from collections import deque
from typing import Protocol

import msgspec
from msgspec import UnsetType

from howdah import HowdahError, decoding
from howdah.document import in_words
from howdah.remote.messages import Progress, Steering
from howdah.values.plan import Plan
from howdah.values.reason import Reason


class Pilot(Protocol):
    """Whatever is called every 0.1 s with the progress of a transfer and may change its streams."""

    def __call__(self, now: Progress) -> Steering | None:
        """Returns how the open streams send from now on; None changes nothing."""


def asked(pilot: Pilot, now: Progress) -> Steering | None:
    """What a pilot answers. Raises HowdahError for an answer that no copy can carry out."""
    answer: object = pilot(now)
    if answer is None:
        return None
    if not isinstance(answer, Steering):
        raise HowdahError(f"the pilot returned {answer!r}; return a howdah.Steering, or None")
    try:
        decoding.from_plain(msgspec.to_builtins(answer), Steering)
    except msgspec.ValidationError as error:
        raise HowdahError(f"the pilot returned a Steering that cannot be: {in_words(str(error))}") from None
    return answer


class Schedule:
    """The pilot that makes the changes of a plan, each when its time has come."""

    def __init__(self, plan: Plan) -> None:
        self._left: deque[tuple[float, Steering]] = deque()
        streams, pacing_bps = plan.streams, plan.pacing_bps
        for change in plan.changes:
            if not isinstance(change.streams, UnsetType):
                streams = change.streams
            if not isinstance(change.pacing_bps, UnsetType):
                pacing_bps = change.pacing_bps
            named = change.congestion_control
            steering = Steering(
                congestion_control=None if isinstance(named, UnsetType) else named,
                streams=streams,
                pacing_bps=pacing_bps,
                why=Reason.SCHEDULE.value,
            )
            self._left.append((change.at_s, steering))

    def __call__(self, now: Progress) -> Steering | None:
        """Returns the next change that is due."""
        if self._left and now.elapsed_s >= self._left[0][0]:
            return self._left.popleft()[1]
        return None
