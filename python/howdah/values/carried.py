"""What a copy was acknowledged to carry, from the samples of its streams.

What counts is the most that was acknowledged in a span in which nothing was sent again: where a hole is
filled, what arrived before is acknowledged too. Where something was sent again all the time, longer spans
count, of which that is a small part; of a copy without those its mean, which includes its start. A copy much
shorter than that says nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from howdah.values.memory import Carried
from howdah.values.outcome import Outcome, Sample

SPAN_S = 1.0
SPAN_ROUND_TRIPS = 3.0
"""A span is as long as the longer of these two, about. Less would count how acknowledgements bunch."""

LONG_SPANS = 3.0
"""The length, in spans, over which what is acknowledged late hardly counts."""

MOVING_SPANS = 2.0
"""A copy must have moved for so many spans, or its mean is no more than its start."""

LEAST_BYTES = 2**20
"""A copy of less says nothing: the first windows of its streams are a large part of it."""

HOSTS_SHARE = 0.5
"""A host limited the copy from this part of the samples of a span on, in which it limited its stream."""

_BY_HOSTS = frozenset({"app", "rwnd", "sndbuf"})


class _Instant(NamedTuple):
    """All streams at one instant."""

    t_s: float
    bytes_acked: int
    retransmissions: int
    rtt_s: float
    """The longest of the smoothed round-trip times."""
    by_hosts: int
    streams: int


def least_moving_s(rtt_s: float) -> float:
    """How long a copy must move at this round trip to say anything."""
    return MOVING_SPANS * max(SPAN_S, SPAN_ROUND_TRIPS * rtt_s)


def carried(outcome: Outcome, rtt_s: float | None, paced: bool = False) -> Carried | None:
    """What the copy carried; None where it was too short or its data took another way.

    ``rtt_s`` is the base RTT known before it, ``paced`` whether somebody had bounded its streams.
    """
    if outcome.through_ssh is not None or not outcome.moving_s or outcome.moving_bps is None:
        return None
    seen = [stream.rtt_min_s for stream in outcome.streams if stream.rtt_min_s is not None]
    base_s = min([*seen, *([rtt_s] if rtt_s is not None else [])], default=None)
    span_s = max(SPAN_S, SPAN_ROUND_TRIPS * (base_s or 0.0))
    whole = not (outcome.restarts or outcome.outages)
    if outcome.moving_s < least_moving_s(base_s or 0.0) or outcome.bytes < LEAST_BYTES:
        return None
    instants = _instants(outcome.samples)
    found = _most(instants, span_s) or _most(instants, LONG_SPANS * span_s, with_holes=True)
    if found is None and not whole:
        return None
    rate_bps, by_hosts = found or (outcome.moving_bps, _share([each.limited for each in outcome.samples]))
    limited = paced or by_hosts >= HOSTS_SHARE
    return Carried(rate_bps=rate_bps, rtt_s=base_s, held_by="hosts" if limited else "path")


def _share(limits: Sequence[str | None]) -> float:
    return sum(limit in _BY_HOSTS for limit in limits) / len(limits) if limits else 0.0


def _instants(samples: Sequence[Sample]) -> list[_Instant]:
    """The streams together, at each instant at which all of them were sampled until then."""
    counted: dict[int, Sample] = {}
    acked = again = 0
    found: list[_Instant] = []
    at, rtt_s, by_hosts, streams = None, 0.0, 0, 0
    for sample in samples:
        if at is not None and sample.t_s > at + SPAN_S / 50:
            found.append(_Instant(at, acked, again, rtt_s, by_hosts, streams))
            rtt_s, by_hosts, streams = 0.0, 0, 0
        at = sample.t_s
        rtt_s = max(rtt_s, sample.rtt_s)
        before = counted.get(sample.stream)
        if before is not None and sample.bytes_acked >= before.bytes_acked:
            acked += sample.bytes_acked - before.bytes_acked
            again += max(0, sample.retransmissions - before.retransmissions)
        else:
            # The kernel counts from the beginning of a connection, which may be one in the place of another.
            acked += sample.bytes_acked
            again += sample.retransmissions
        counted[sample.stream] = sample
        by_hosts += sample.limited in _BY_HOSTS
        streams += 1
    if at is not None:
        found.append(_Instant(at, acked, again, rtt_s, by_hosts, streams))
    return found


def _most(
    instants: Sequence[_Instant], span_s: float, *, with_holes: bool = False
) -> tuple[float, float] | None:
    """The highest rate of a span and the share of its samples that hosts limited; None: there is no span.

    Holes are filled for a round trip after something was sent again.
    """
    best: tuple[float, float] | None = None
    filled_s = 0.0
    first = hosts = streams = 0
    for last, now in enumerate(instants):
        hosts, streams = hosts + now.by_hosts, streams + now.streams
        if last and now.retransmissions > instants[last - 1].retransmissions:
            filled_s = max(filled_s, now.t_s + now.rtt_s)
        while first < last and now.t_s - instants[first + 1].t_s >= span_s:
            hosts, streams = hosts - instants[first].by_hosts, streams - instants[first].streams
            first += 1
        begin = instants[first]
        holes = begin.t_s < filled_s and not with_holes
        if holes or now.t_s - begin.t_s < span_s:
            continue
        rate_bps = (now.bytes_acked - begin.bytes_acked) * 8 / (now.t_s - begin.t_s)
        if best is None or rate_bps > best[0]:
            best = rate_bps, hosts / streams
    return best
