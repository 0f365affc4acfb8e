"""What is known of a copy beside its counters, for the attribution of its time."""

from howdah.transfer.request import Request
from howdah.values.attribution import Asked, of_outcome
from howdah.values.bottleneck import Bottleneck
from howdah.values.listened import Listened
from howdah.values.outcome import Outcome
from howdah.values.plan import Why
from howdah.values.record import Record


def found(record: Record, last: Outcome, request: Request) -> Bottleneck | None:
    """Where the time of the last session went."""
    plan, listened = record.plan, record.listened
    heard = listened.heard[-1].background if listened is not None and listened.heard else None
    asked = Asked(
        connect_s=record.connect_s or 0.0,
        pacing_bps=_pacing_bps(record, last),
        pipe=bool(request.route.pipe) and request.route.direction == "push",
        others=None if heard in {None, "nobody"} else heard,
        known_bps=None if plan is None else known_bps(plan.why),
        capacity_bps=listened.capacity_bps if listened is not None and _measures(listened) else None,
        arrived_bps=listened.capacity_bps if listened is not None and listened.others else None,
    )
    return of_outcome(last, asked)


def known_bps(why: Why) -> float | None:
    """What the path is known to carry, by earlier copies that no host held back, or by its profile."""
    memory = why.memory
    if memory is not None and memory.same_route and not memory.at_least:
        return memory.rate_mid_bps
    return None if why.prediction is None else why.prediction.rate_mid_bps


def _measures(listened: Listened) -> bool:
    """Whether its capacity was measured by moments of sending less, and is not just the most that arrived."""
    return any(dip.capacity_bps is not None for dip in listened.dips)


def _pacing_bps(record: Record, last: Outcome) -> float | None:
    """The most that all streams might send together: the last bound that they had."""
    made = [change for change in last.changes if change.refused is None]
    if made:
        bound, streams = made[-1].pacing_bps, made[-1].streams
    else:
        plan = record.plan
        bound, streams = (None, 0) if plan is None else (plan.pacing_bps, plan.streams)
    bounds = [] if bound is None else [float(bound * streams)]
    if record.share is not None and record.share.range_bps is not None:
        most = record.share.range_bps[1]
        bounds += [float(most)] if most else []
    return min(bounds, default=None)
