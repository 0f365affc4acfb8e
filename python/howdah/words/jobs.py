"""A running copy in a line."""

from howdah._native import format_bytes, format_rate
from howdah.text import printable
from howdah.transfer.standing import Standing
from howdah.values.bottleneck import MOST
from howdah.words.bottleneck import SHORT


def line(standing: Standing) -> str:
    """``0f3a9c  moving  1.2 GB of 4 GB  98 Mb/s  limit 1Gb/s  path 93% of the time  run42 to dtn2:/d``."""
    done = format_bytes(standing.bytes_done)
    total = "" if standing.bytes_total is None else f" of {format_bytes(standing.bytes_total)}"
    rate = "-" if standing.rate_bps is None else format_rate(standing.rate_bps)
    limit = "no limit" if standing.limit == "none" else f"limit {standing.limit}"
    if standing.limit != "none" and standing.limit_bps is None:
        limit += " (no limit at this hour)"
    first, more = standing.from_[0], len(standing.from_) - 1
    source = f"{first} and {more} more" if more else first
    parts = [standing.job, standing.state, f"{done}{total}", rate, limit]
    if standing.shares and standing.shares[0].share >= MOST:
        main = standing.shares[0]
        parts.append(f"{SHORT[main.cause]} {main.share:.0%} of the time")
    parts.append(f"{source} to {standing.to}")
    return printable("  ".join(parts))
