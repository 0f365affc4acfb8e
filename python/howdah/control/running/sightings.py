"""A controller's view of an agent: its newest report, and the rates that its reports make."""

from collections import deque
from typing import NamedTuple

from howdah.control.leases.messages import Measured, Report

_S = 1_000_000_000
SPAN_NS = _S
_APART_NS = _S // 10


class SentRates(NamedTuple):
    """The rates that a flow really sends at, bits per second."""

    sent_bps: int
    """The rate on the wire."""
    acked_bps: int
    """The rate of payload."""


class Sighting:
    """The newest report of one agent and what follows from it."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.arrived_ns = 0
        self._before: int | None = None
        """The incarnation that reported before the present one."""
        self._samples: deque[tuple[int, dict[str, Measured]]] = deque()

    def note(self, report: Report, now_ns: int) -> bool:
        """Takes in a report, which came now. Returns whether two agents report in turn: it is the other's."""
        samples, in_turn = self._samples, False
        if self.report is None or report.incarnation != self.report.incarnation:
            samples.clear()
            in_turn = report.incarnation == self._before
            self._before = self.report.incarnation if self.report else None
        self.report, self.arrived_ns = report, now_ns
        if len(samples) > 1 and now_ns - samples[-2][0] < _APART_NS:
            samples.pop()
        samples.append((now_ns, report.measured))
        while len(samples) > 2 and now_ns - samples[1][0] >= SPAN_NS:
            samples.popleft()
        return in_turn

    def rates(self, flow: str) -> SentRates | None:
        """The rates over the last second reported, or between two reports; null: none can be compared."""
        if len(self._samples) < 2:
            return None
        (from_ns, before), (to_ns, after) = self._samples[0], self._samples[-1]
        if flow not in before or flow not in after or to_ns == from_ns:
            return None
        sent_bytes = after[flow].sent_bytes - before[flow].sent_bytes
        acked_bytes = after[flow].acked_bytes - before[flow].acked_bytes
        if sent_bytes < 0 or acked_bytes < 0:
            return None
        span_ns = to_ns - from_ns
        return SentRates(sent_bytes * 8 * _S // span_ns, acked_bytes * 8 * _S // span_ns)

    def share_bps(self, flow: str, now_ns: int) -> int | None:
        """The rate in force now by the last report; null: the flow has no share."""
        share = self.report.shares.get(flow) if self.report else None
        if share is None:
            return None
        return share.rate_bps if self.left_ns(now_ns) else share.minimum_bps

    def left_ns(self, now_ns: int) -> int:
        """The time until the last of its leases runs out, if it was not renewed since."""
        return max(0, self.arrived_ns + self.report.left_ns - now_ns) if self.report else 0
