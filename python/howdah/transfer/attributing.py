"""What is known of a copy beside its counters, for the attribution of its time."""

from howdah.transfer.request import Request
from howdah.values.attribution import Asked, of_outcome
from howdah.values.bottleneck import Bottleneck
from howdah.values.listened import Listened
from howdah.values.outcome import HOLD, Outcome
from howdah.values.path import MOST_IT_CAN_BECOME
from howdah.values.plan import Why
from howdah.values.record import Record


def found(record: Record, last: Outcome, request: Request) -> Bottleneck | None:
    """Where the time of the last session went."""
    plan, listened = record.plan, record.listened
    heard = listened.heard[-1].background if listened is not None and listened.heard else None
    capacity_bps, arrived_bps = _seen_bps(listened)
    asked = Asked(
        connect_s=record.connect_s or 0.0,
        pacing_bps=_pacing_bps(record, last),
        by_share=record.share is not None or last.congestion_control == HOLD,
        share_most_bps=None if plan is None or record.share is None else _share_most_bps(plan.why),
        pipe=bool(request.route.pipe) and request.route.direction == "push",
        others=None if heard in {None, "nobody"} else heard,
        known_bps=None if plan is None else known_bps(plan.why),
        capacity_bps=capacity_bps,
        arrived_bps=arrived_bps,
    )
    return of_outcome(last, asked)


def known_bps(why: Why) -> float | None:
    """What the path is known to carry, by earlier copies that no host limited, or by its profile."""
    memory = why.memory
    if memory is not None and memory.same_route and not memory.at_least:
        return memory.rate_mid_bps
    return None if why.prediction is None else why.prediction.rate_mid_bps


def _share_most_bps(why: Why) -> float | None:
    """The most that the share can become for which the plan was made."""
    found = [one.value for one in why.evidence if one.name == MOST_IT_CAN_BECOME]
    return next((float(value) for value in found if isinstance(value, int | float)), None)


def _seen_bps(listened: Listened | None) -> tuple[float | None, float | None]:
    """The capacity by moments of sending less; without them, the most that arrived beside others."""
    if listened is None:
        return None, None
    if any(dip.capacity_bps is not None for dip in listened.dips):
        return listened.capacity_bps, None
    return None, listened.capacity_bps if listened.others else None


def _pacing_bps(record: Record, last: Outcome) -> float | None:
    """The most that all streams might send together, by whoever bounded them.

    A copy that listens bounds its streams itself, by what the path carries: the path is what limits those.
    """
    made = [change for change in last.changes if change.refused is None]
    if made and record.listened is None:
        bound, streams = made[-1].pacing_bps, made[-1].streams
    else:
        plan = record.plan
        bound, streams = (None, 0) if plan is None else (plan.pacing_bps, plan.streams)
    bounds = [] if bound is None else [float(bound * streams)]
    shares = [] if record.share is None else [sample.share_bps for sample in record.share.samples]
    had = [share for share in shares if share is not None]
    if had:
        # It may have been withdrawn meanwhile. What is not known of it, as its controller was gone, counts as
        # none. At 0 nothing bounds the streams.
        bounds += [sum(had) / len(shares)] if all(had) else []
    elif last.congestion_control == HOLD and last.moving_bps is not None:
        # Only the agent of the sending host knows the share that its rule holds them to.
        bounds.append(last.moving_bps)
    return min(bounds, default=None)
