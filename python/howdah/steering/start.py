"""Streams that begin beside a queue of others, until each has the part that it is held to.

CUBIC's slow start takes any queue for its own and ends there with few segments (HyStart; tcp_cubic.c,
``hystart_update``), and from there it takes (W / 0.4)^⅓ seconds to a window of W segments: 8 s at 14 Mb/s
and 200 ms. Reno's ends with a loss only (RFC 5681, section 3.1), or where a stream sends as it is paced, so
it cannot overshoot here. The windows that it has found stay when the plan's control takes over. Pure.
"""

from collections.abc import Sequence

from howdah.steering.hold import LIMITED

CONTROL = "reno"
MOST_ROUND_TRIPS = 15.0
"""From ten segments to a thousand takes seven, and nobody else is to be beside Reno for long."""


class Start:
    """Of the streams that are held from ``t_s`` on, at round trips of ``rtt_s``."""

    def __init__(self, t_s: float, rtt_s: float) -> None:
        self._until_s = t_s + MOST_ROUND_TRIPS * rtt_s

    def over(self, t_s: float, rates_bps: Sequence[float], each_bps: float) -> bool:
        """Whether each stream has its part by now, or will not have it so."""
        return t_s >= self._until_s or min(rates_bps) >= LIMITED * each_bps
