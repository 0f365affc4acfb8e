"""What numbers that callers give may be, each stated once: the library checks it, and help tells it.

Nothing more is imported here, since tables of commands are made of it.
"""

from howdah._native import format_rate, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INTEGER_MOST = 2**63 - 1
"""The largest whole number that records and messages take. As a bound, nobody has to know it."""


class Bounds:
    """The least and the most that a number may be, as ``show`` writes them."""

    def __init__(
        self, least: float, most: float = INTEGER_MOST, *, show: "Callable[[Any], str]" = "{:,}".format
    ) -> None:
        self.least, self.most = least, most
        self._show = show

    def __str__(self) -> str:
        if self.most >= INTEGER_MOST:
            return f"at least {self._show(self.least)}"
        return f"from {self._show(self.least)} to {self._show(self.most)}"

    def refused(self, value: float) -> str | None:
        """What a number is that may not be; None: it may be."""
        # What is not a number is within nothing.
        if self.least <= value <= self.most:
            return None
        if self.most < INTEGER_MOST:
            return f"not {self}"
        return "too large" if value > self.most else f"below {self._show(self.least)}"


def times(*texts: str) -> Bounds:
    """The bounds in seconds of times as people write them: the least, and the most if there is one."""
    words = {parse_duration(text) / 1e9: text for text in texts}
    return Bounds(*words, show=words.__getitem__)


HELD_LEAST_BPS = 8_000
HELD_BPS = Bounds(HELD_LEAST_BPS, show=format_rate)
"""The rates that ``hd_hold`` can hold (crates/cc)."""
PROBED_S = times("1 s", "1 h")
"""How long a path is probed."""
TRAFFIC_S = times("100 ms", "24 h")
"""How long background traffic lasts, so that what was forgotten ends."""
ASKED_S = times("1 s")
"""How long a class of a guaranteed path is asked for."""
WEIGHT = Bounds(1, 10_000)
"""The weight of a class; the bounds are those of cgroups. Only ratios of weights count."""
PRIORITY = Bounds(0, 100)
"""The priority of a class."""
PORT_MAX = 65535


def ports(text: str) -> tuple[int, int]:
    """The first and the last port of what people write: a range, or one port. Raises ValueError, in words."""
    least, dash, most = text.partition("-")
    numbers = [least, most] if dash else [least, least]
    if all(each.isascii() and each.isdecimal() and len(each) <= len(str(PORT_MAX)) for each in numbers):
        first, last = map(int, numbers)
        if 0 < first <= last <= PORT_MAX:
            return first, last
    raise ValueError(f'ports {text!r} is no range of ports; give for example "50000-50999"')


def ports_in_words(ports: tuple[int, int]) -> str:
    """``50000-50100``, or of one port its number."""
    first, last = ports
    return str(first) if first == last else f"{first}-{last}"
