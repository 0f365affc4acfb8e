"""A few lines on the competing traffic that a transfer recognised, what it chose and what that gave."""

from howdah._native import format_duration, format_rate
from howdah.text import count
from howdah.values.listened import HeardThen, Listened, SentThen
from howdah.values.plan import Plan, paced

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
