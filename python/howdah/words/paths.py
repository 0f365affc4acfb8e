"""The text of ``howdah archive paths``."""

from collections.abc import Iterable

from rich.table import Table

from howdah._native import format_bytes, format_rate
from howdah.text import printable
from howdah.values.memory import PathMemory, ago

_COLUMNS = (
    "path",
    "RTT",
    "carries",
    "least to most",
    "in a round trip",
    "copies",
    "newest",
    "not used because",
)


def table(found: Iterable[PathMemory]) -> Table:
    """A row for each path."""
    made = Table(*_COLUMNS, box=None, pad_edge=False)
    for each in found:
        way = "to" if each.direction == "push" else "from"
        made.add_row(
            f"{way} {printable(each.path)}",
            f"{each.rtt_s * 1e3:.3g} ms",
            f"{'at least ' if each.at_least else ''}{format_rate(each.rate_mid_bps)}",
            f"{format_rate(each.rate_low_bps)} to {format_rate(each.rate_high_bps)}",
            format_bytes(each.capacity_bytes),
            f"{each.copies:,}",
            ago(each.age_s),
            each.why_not() or "",
        )
    return made
