"""What a controller has seen of an agent: its newest report, and the rates that its reports make."""

from collections import deque
from typing import NamedTuple

from howdah.control.messages import Measured, Report

_S = 1_000_000_000
SPAN_NS = _S
_APART_NS = _S // 10


class Rates(NamedTuple):
    """Of a flow, in b/s."""

    sent_bps: int
    """On the wire."""
    acked_bps: int
    """Of payload."""


class Sighting:
    """Of one agent."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.heard_ns = 0
        self._samples: deque[tuple[int, dict[str, Measured]]] = deque()

    def note(self, report: Report, now_ns: int) -> None:
        """Takes in a report, which came now."""
        if self.report is None or report.incarnation != self.report.incarnation:
            self._samples.clear()
        self.report, self.heard_ns = report, now_ns
        samples = self._samples
        if len(samples) > 1 and now_ns - samples[-2][0] < _APART_NS:
            samples.pop()
        samples.append((now_ns, report.measured))
        while len(samples) > 2 and now_ns - samples[1][0] >= SPAN_NS:
            samples.popleft()

    def rates(self, flow: str) -> Rates | None:
        """Over the last second reported, or between two reports; null: not known, or counted anew."""
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
        return Rates(sent_bytes * 8 * _S // span_ns, acked_bytes * 8 * _S // span_ns)

    def share_bps(self, flow: str, now_ns: int) -> int | None:
        """In force now, as far as is known; null: nothing is."""
        if self.report is None or flow not in self.report.shares:
            return None
        share = self.report.shares[flow]
        return share.rate_bps if self.left_ns(now_ns) else share.minimum_bps

    def left_ns(self, now_ns: int) -> int:
        """Until the last of its leases runs out, if it was not renewed since."""
        return max(0, self.heard_ns + self.report.left_ns - now_ns) if self.report else 0
