"""What a plan rested on, beside what came of it.

That is the prediction of the transfer, what the archive remembered of its path, and the competing traffic
that it recognised.
"""

from howdah._native import format_bytes, format_duration, format_rate
from howdah.text import count
from howdah.values.listened import HeardThen, Listened, SentThen
from howdah.values.memory import PathMemory, Resumed
from howdah.values.outcome import Outcome
from howdah.values.plan import Plan, Prediction, paced
from howdah.values.record import Record

ALIKE = 2.0
"""Up to so many times shorter or longer than the runs that a prediction rests on, a transfer is like them;
slow start is a larger part of a shorter one, and a smaller part of a longer one."""

LIMITED_SHARE = 0.1
"""The share of samples in which an end limited the transfer, from which on that is said."""


def comparison(record: Record) -> str | None:
    """A line for the summary; None where there was nothing to predict or nothing was moved."""
    outcome, plan = record.outcome, record.plan
    if outcome is None or plan is None or outcome.moving_bps is None:
        return None
    predicted = plan.why.prediction
    if predicted is not None and record.limited is not None:
        return "Not compared with the prediction: the copy was limited or paused"
    if predicted is not None and outcome.changed:
        return "Not compared with the prediction: the streams changed on the way"
    if predicted is None:
        return "Not predicted: options changed the plan" if plan.path == "dedicated" else None
    low_bps, high_bps = predicted.rate_low_bps, predicted.rate_high_bps
    rate_bps = outcome.moving_bps
    line = f"Predicted {format_rate(low_bps)} to {format_rate(high_bps)}, measured {format_rate(rate_bps)}"
    if low_bps <= rate_bps <= high_bps:
        return line
    if rate_bps < low_bps:
        causes = [*_length(outcome, predicted, shorter=True), *_limited(outcome)]
        verdict = "less than predicted"
    else:
        causes = _length(outcome, predicted, shorter=False)
        verdict = "more than predicted"
    return f"{line}; not comparable: {' and '.join(causes)}" if causes else f"{line}: {verdict}"


def _length(outcome: Outcome, predicted: Prediction, *, shorter: bool) -> list[str]:
    """A sentence where the transfer was much shorter, or much longer, than the runs behind the prediction."""
    moving_s, duration_s = outcome.moving_s, predicted.duration_s
    if moving_s is None or duration_s is None:
        return []
    if not (moving_s * ALIKE < duration_s if shorter else moving_s > ALIKE * duration_s):
        return []
    took, expected = format_duration(moving_s), format_duration(duration_s)
    return [f"it took {took} and the runs behind the prediction {expected}"]


def _limited(outcome: Outcome) -> list[str]:
    """A sentence on the end that slowed a transfer of files, so that its rate need not be the network's."""
    whose = {"app": "the sender's disk or CPU", "rwnd": "the receiver's disk, CPU or buffer"}
    shares = {limit: _share(outcome, limit) for limit in whose} if outcome.files else {}
    return [
        f"{whose[limit]} limited it in {share:.0%} of the samples"
        for limit, share in shares.items()
        if share >= LIMITED_SHARE
    ]


def _share(outcome: Outcome, limit: str) -> float:
    samples = outcome.samples
    return sum(sample.limited == limit for sample in samples) / len(samples) if samples else 0.0


def came_of_it(record: Record) -> list[str]:
    """Lines for the summary; none where nothing was remembered, or the copy was too short to say."""
    memory = record.plan.why.memory if record.plan else None
    if record.outcome is None or memory is None or not memory.same_route:
        return []
    lines = [_sent(record.resumed)] if record.resumed else []
    if record.carried is not None and record.limited is None:
        carried = format_rate(record.carried.rate_bps)
        lines.append(
            f"Remembered {_range(memory)} of this path; it carried {carried}{_verdict(record, memory)}"
        )
    return lines


def _range(memory: PathMemory) -> str:
    low, middle, high = map(format_rate, (memory.rate_low_bps, memory.rate_mid_bps, memory.rate_high_bps))
    least = "at least " if memory.at_least else ""
    return f"{least}{middle}" if memory.copies == 1 else f"{least}{middle} ({low} to {high})"


def _verdict(record: Record, memory: PathMemory) -> str:
    carried = record.carried
    if carried is None or memory.copies == 1:
        return ""
    if carried.rate_bps < memory.rate_low_bps:
        by_hosts = "; a disk, a processor or a buffer limited it" if carried.held_by == "hosts" else ""
        return f", less than before{by_hosts}"
    return ", more than before" if carried.rate_bps > memory.rate_high_bps else ""


def _sent(resumed: Resumed) -> str:
    """``At once: 105 MB by 8 streams, all acknowledged without a loss``."""
    if resumed.refused is not None:
        return f"At once: nothing was sent: {resumed.refused}"
    if not resumed.jumps:
        other = ", because the round trip was that of another route" if resumed.other_paths else ""
        return f"At once: nothing was sent{other}"
    what = f"At once: {format_bytes(resumed.jumped_bytes)} by {count(resumed.jumps, 'stream')}"
    if resumed.retreats:
        lost = f"{count(resumed.retreats, 'stream')} lost some of it and took it back"
        return f"{what}, {format_bytes(resumed.validated_bytes)} acknowledged; {lost}"
    if resumed.validated == resumed.jumps:
        return f"{what}, all acknowledged without a loss"
    return f"{what}, {format_bytes(resumed.validated_bytes)} acknowledged without a loss"


_BY = {"icmp": "ICMP echo", "tcp_info": "its own streams"}


def in_words(listened: Listened, plan: Plan) -> list[str]:
    """Each change with what it gave, and the competing traffic; nothing of a transfer too short to listen."""
    if listened.ended and not (listened.sent or listened.heard):
        return [f"Measured no competing traffic: {listened.ended}; kept to the plan"]
    if listened.by is None:
        return []
    lines = []
    told: set[float] = set()
    for sent in listened.sent:
        lines.append(_change(sent, listened, told))
    lines += [_who(heard) for heard in listened.heard if heard.t_s not in told]
    told_by = sum(dip.capacity_bps is not None for dip in listened.dips)
    if told_by and listened.capacity_bps and any(sent.pacing_bps for sent in listened.sent):
        moments = count(told_by, "moment")
        lines.append(
            f"The path carries {format_rate(listened.capacity_bps)}, measured in {moments} of sending less"
        )
    if listened.counted is not None:
        others = count(listened.counted, "CUBIC stream")
        lines.append(f"Counted {others} of competing traffic, by how the queue grew between losses")
    if not lines and listened.cannot_tell is None and not listened.moved:
        return []
    if not lines:
        why = f": {listened.cannot_tell}" if listened.cannot_tell else ""
        lines.append(f"Could not recognise competing traffic by {_BY[listened.by]}{why}; kept to the plan")
    elif not listened.sent:
        lines.append(f"Kept to the plan: {plan.congestion_control}, {count(plan.streams, 'stream')}")
    if listened.not_by_icmp:
        lines.append(f"Measured by its own streams: {listened.not_by_icmp}")
    lines += [
        f"After {moved.t_s:.0f} s the route changed: base RTT {moved.before_s * 1e3:.3g} -> "
        f"{moved.after_s * 1e3:.3g} ms"
        for moved in listened.moved
    ]
    if listened.ended:
        lines.append(f"Stopped measuring: {listened.ended}; the fair default from then on")
    return lines


def _who(heard: HeardThen) -> str:
    return f"{_named(heard.background)} ({heard.probability:.2f}) after {heard.t_s:.0f} s"


def _named(background: str | None) -> str:
    if background is None:
        return "Found traffic unlike any known"
    if background == "nobody":
        return "Found no competing traffic"
    return "Recognised " + background.replace("bbr", "BBR").replace("cubic", "CUBIC").replace("udp", "UDP")


def _change(sent: SentThen, listened: Listened, told: set[float]) -> str:
    """``Recognised 1 BBR (0.94) after 6 s; changed to bbr, 1 stream: 112 Mb/s -> 241 Mb/s``."""
    how = [sent.congestion_control, count(sent.streams, "stream")]
    if sent.held and sent.pacing_bps is not None:
        how.append(f"{format_rate(sent.pacing_bps)} a stream, and more if others leave it")
    elif sent.pacing_bps is not None:
        how.append(paced(sent.pacing_bps))
    gave = ""
    if sent.before and sent.after:
        gave = f"{format_rate(sent.before.rate_bps)} -> {format_rate(sent.after.rate_bps)}"
    kept = f"; undone: {sent.undone}" if sent.undone else ""
    if sent.background is None or sent.probability is None:
        when = f"After {format_duration(sent.t_s)}" if sent.t_s else "Began with"
        return f"{when} {', '.join(how)}: {sent.why}{gave and f', {gave}'}{kept}"
    told.update(
        heard.t_s for heard in listened.heard if heard.background == sent.background and heard.t_s <= sent.t_s
    )
    who = f"{_named(sent.background)} ({sent.probability:.2f}) after {sent.t_s:.0f} s"
    return f"{who}; changed to {', '.join(how)}{gave and f': {gave}'}{kept}"
