"""A copy on a path shared with others: it measures round trips and changes its streams beside them.

ICMP echo begins while ssh connects, so that a queue of others is seen before the first byte. Nothing of
``howdah.steering`` is loaded by a copy that does not listen.
"""

from typing import TYPE_CHECKING

import msgspec

from howdah.decide import remembering
from howdah.decide import shared as decider
from howdah.remote.messages import Progress, Steering
from howdah.transfer.pilot import Pilot
from howdah.transfer.request import Request
from howdah.transfer.service import Service, Underway
from howdah.values import sizes
from howdah.values.path import ASSUMED_RTT_S, Path
from howdah.values.plan import Plan
from howdah.values.record import Record

if TYPE_CHECKING:
    from howdah.steering.listening import Listening
    from howdah.steering.sources import RttSample, RttSource


class KindOfPath(Service):
    """The service of a shared path: an RTT source from the beginning, a pilot that steers by it."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._early: RttSource | None = None
        self._before: list[RttSample] = []
        self._listening: Listening | None = None

    def __exit__(self, *_: object) -> None:
        """Ends the measuring of round trips."""
        for source in (self._listening, self._early):
            if source is not None:
                source.close()

    def prepare(self, data_address: str | None) -> None:
        """Sends ICMP echo while ssh connects, where the copy listens and the address is known already."""
        request = self.request
        limited = request.limits is not None and request.limits.now_bps() is not None
        if not self._listens or request.dry_run or limited or data_address is None:
            return
        from howdah.steering import sources  # noqa: PLC0415

        source, why_not = sources.best_source([data_address])
        self._early = source if why_not is None else None

    def plan(self, path: Path) -> Plan:
        """The plan of a decider that was loaded while ssh connected."""
        return remembering(decider.decide(path), path)

    def others_present(self, path: Path) -> bool:
        """Whether round trips while ssh connected say so; no of a login that was kept, which takes none."""
        if self._early is None:
            return False
        from howdah.steering.sources import others_present  # noqa: PLC0415

        self._before += self._early.take(0.0, None)
        return others_present(self._before, path.rtt_s)

    def pilot(self, underway: Underway, otherwise: Pilot) -> Pilot:
        """The pilot that steers by round trips, where the copy listens and its plan has no schedule."""
        request, plan, path = self.request, underway.plan, underway.path
        if not self._listens or request.fairness is None or plan.path != "shared" or plan.changes:
            return otherwise
        from howdah.steering import listening  # noqa: PLC0415

        if self._listening is not None:
            # The session before it was lost, and with it the streams that it knew.
            self._listening.close()
            self._early, self._before = None, []
        window_bytes = plan.buffer_bytes or sizes.windows(path).autotuned_bytes
        self._listening = listening.Listening(
            listening.SteeringRequest(
                plan=plan,
                fairness=request.fairness,
                control_default=path.sender.congestion_control_default,
                controls=tuple(path.sender.congestion_controls_usable),
                streams_fixed=any(choice.key == "streams" for choice in request.given),
                stream_most_bps=sizes.window_rate_bps(1, window_bytes, path.rtt_s or ASSUMED_RTT_S),
                rtt_s=path.rtt_s,
                addresses=_echoing(underway),
                for_s=request.memory_s,
                policy=request.policy,
            ),
            self._early,
            self._before,
        )
        return self._listening

    def rest(self, now: Progress) -> Steering | None:
        """Sends no ICMP echo, and lifts the bounds that listening has set."""
        return None if self._listening is None else self._listening.rest(now)

    @property
    def judges(self) -> bool:
        """It does where it listens."""
        return self._listening is not None

    def record(self, record: Record) -> Record:
        """Adds ``listened``: who was there, and what the copy did about it."""
        if self._listening is None:
            return record
        return msgspec.structs.replace(record, listened=self._listening.to_record())

    @property
    def _listens(self) -> bool:
        return self.request.pilot is None and self.request.fairness is not None


def _echoing(underway: Underway) -> list[str]:
    """The addresses of the far host to which ICMP echo may go: where ssh leads.

    What only the far end tells counts where ssh goes through another host, if it means the same here.
    """
    if underway.data_address is not None:
        return [underway.data_address]
    from howdah.remote.meeting import usable  # noqa: PLC0415

    return [str(each) for each in usable(underway.far.addresses)]
