"""A background whose class changes every minute: what a copy beside it had of what an oracle would have.

An oracle knows at every instant who is there, and takes an equal share at once: half of the path beside one
stream, all of it beside nobody.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.ops import overlay
from bench.ops.fairness import jain
from bench.ops.plan import PHASE_S, PHASES, Run

_BEGUN_KBPS = 1000
"""More than a login."""
_LEAST_S = 10
"""Of a phase that is cut."""


class Phase(NamedTuple):
    """A time in which the same others were there."""

    background: str
    seconds: int
    foreground_bps: float
    background_bps: float


def phases(run: Run) -> Iterator[Phase]:
    """Of a run, from when both have begun; a change and what it takes is in the phase that it begins."""
    samples = run["samples"]
    mine, others = samples["foreground_kbps"], samples["background_kbps"]
    begun = next((second for second, kbps in enumerate(others) if kbps > _BEGUN_KBPS), len(others))
    lasts = round(PHASE_S)
    for background, first in zip(itertools.cycle(PHASES), range(begun, len(mine), lasts), strict=False):
        span = slice(max(first, round(run["begin_s"])), min(len(mine), first + lasts))
        if span.stop - span.start >= _LEAST_S:
            rates = (1e3 * statistics.mean(side[span]) for side in (mine, others))
            yield Phase(background, span.stop - span.start, *rates)


def of_oracle(found: Sequence[Phase], overlay_number: int) -> float:
    """The share of an oracle's bytes that the foreground had."""
    whole = overlay.load(overlay_number)
    path_bps = whole.rate_bps * overlay.PAYLOAD_OF_WIRE
    had = sum(phase.seconds * phase.foreground_bps for phase in found)
    return had / sum(phase.seconds * path_bps / (1 if phase.background == "nobody" else 2) for phase in found)


def fairness(found: Sequence[Phase]) -> float | None:
    """The mean of Jain's index over phases with others, by their time."""
    shared = [phase for phase in found if phase.background != "nobody"]
    known = [(phase.seconds, jain([phase.foreground_bps, phase.background_bps]) or 0.0) for phase in shared]
    seconds = sum(each for each, _ in known)
    return sum(each * index for each, index in known) / seconds if known else None
