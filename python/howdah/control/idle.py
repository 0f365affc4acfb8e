"""Which flows have nothing to send, so that others may have what is theirs meanwhile.

A flow is idle once none of its data has waited for its turn for a while, in which it sent no more than its
minimum would have let it. One that sends as fast as its program gives is not, whatever its share; nor is one
that its minimum holds back, so it is seen at the next look when it begins.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from howdah.control.messages import Measured

LOOK_NS = 20_000_000
"""Between two looks."""
AFTER_NS = 60_000_000
"""Pauses of a handshake or a disk may be longer: then a share is lent and given back. The longer, the more of
the path is nobody's when a transfer ends."""
_S_BITS = 8_000_000_000


class _Seen(NamedTuple):
    since_ns: int
    sent_bytes: int
    """By then."""
    waits: bool
    idle: bool


class Idle:
    """Of the flows of one host, from looks at what its kernel measured."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(
        self,
        flows: Iterable[str],
        measured: Mapping[str, Measured],
        minimums_bps: Mapping[str, int],
        now_ns: int,
    ) -> frozenset[str]:
        """Those of ``flows`` that are idle now; of those without a minimum nothing is known."""
        known = [flow for flow in flows if flow in measured and flow in minimums_bps]
        self._seen = {
            flow: _next(self._seen.get(flow), measured[flow], minimums_bps[flow], now_ns) for flow in known
        }
        return frozenset(flow for flow, seen in self._seen.items() if seen.idle)


def _next(seen: _Seen | None, now: Measured, minimum_bps: int, now_ns: int) -> _Seen:
    waits = now.waiting > 0
    if seen is None or waits or seen.waits:
        return _Seen(now_ns, now.sent_bytes, waits, idle=False)
    span_ns = now_ns - seen.since_ns
    if span_ns < AFTER_NS:
        return seen
    idle = (now.sent_bytes - seen.sent_bytes) * _S_BITS <= minimum_bps * span_ns
    return _Seen(now_ns, now.sent_bytes, waits, idle)
