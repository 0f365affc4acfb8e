"""What the archive remembered of a path, beside what came of it."""

from howdah._native import format_bytes, format_rate
from howdah.text import count
from howdah.values.memory import PathMemory, Resumed
from howdah.values.record import Record


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
        by_hosts = "; a disk, a processor or a buffer held it" if carried.held_by == "hosts" else ""
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
