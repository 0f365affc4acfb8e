"""A round trip at regular steps, as arrays: NaN is a gap, where a probe was lost or none was sent.

Two series come from one probing: the fine one with one look a step, and that of *optimization through
protocol selection* (Computers 2021, 10, 76; section 5.2), the mean of ten pings 1 ms apart once a second.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.probing.probing import Look

Floats = NDArray[np.float64]


class Gap(NamedTuple):
    """A time without an answer."""

    from_s: float
    until_s: float


class Series(NamedTuple):
    """Round trips in steps of ``step_s``."""

    step_s: float
    sent_s: Floats
    """(steps,) when each was sent; of what was not, the middle of its step."""
    rtt_s: Floats
    """(steps,) seconds; NaN: a gap."""

    def gaps(self, longest_s: float) -> list[Gap]:
        """Those longer than this."""
        missing = np.isnan(self.rtt_s)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
        spans = edges.reshape(-1, 2) * self.step_s
        return [Gap(float(one), float(two)) for one, two in spans if two - one > longest_s]


def fine(looks: Iterable[Look], step_s: float) -> Series:
    """One look a step."""
    kept = [look for look in looks if look.kind == "step"]
    steps = max((look.index for look in kept), default=-1) + 1
    sent_s: Floats = (np.arange(steps, dtype=np.float64) + 0.5) * step_s
    rtt_s = np.full(steps, np.nan)
    for look in kept:
        sent_s[look.index] = look.sent_s
        if look.rtt_s is not None:
            rtt_s[look.index] = look.rtt_s
    return Series(step_s, sent_s, rtt_s)


def looked(looks: Iterable[Look], step_s: float) -> tuple[Floats, Floats]:
    """When and what: shape (looks,) each, NaN where no answer came.

    Each look is said to be in the middle of its step, and what was not sent is left out, for that is no loss.
    """
    kept = [look for look in looks if look.kind == "step"]
    times_s: Floats = (np.array([look.index for look in kept], np.float64) + 0.5) * np.float64(step_s)
    return times_s, np.array([np.nan if look.rtt_s is None else look.rtt_s for look in kept], np.float64)


def means(looks: Iterable[Look], every_s: float) -> Series:
    """The mean of each burst's answers; a gap where it has none."""
    bursts: dict[int, list[Look]] = {}
    for look in looks:
        if look.kind == "burst":
            bursts.setdefault(look.index, []).append(look)
    count = max(bursts, default=-1) + 1
    sent_s: Floats = np.arange(count, dtype=np.float64) * every_s
    rtt_s = np.full(count, np.nan)
    for index, burst in bursts.items():
        answers = [look.rtt_s for look in burst if look.rtt_s is not None]
        if answers:
            rtt_s[index] = np.mean(answers)
    return Series(every_s, sent_s, rtt_s)
