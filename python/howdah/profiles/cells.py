"""Runs by configuration and RTT, and how much the runs of one cell differ."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah import HowdahError
from howdah.archive.runs import Configuration, Runs
from howdah.profiles.interpolate import Curve

Array = NDArray[np.float64]

RUN_SPREAD = 0.1
"""Standard deviation of the logarithm of a rate from run to run, as long as nothing was repeated."""

_WEIGHT = 10
"""Runs that would have to show as much: ``RUN_SPREAD`` counts as so many when all cells are looked at, and
what all cells show counts as so many for each configuration."""

_DEVIATION_CLIP = 0.5
"""Log rate. One run at a hundredth of the rate is one bad run, not a spread of 100."""


class Cells(NamedTuple):
    """The runs of one configuration."""

    configuration: Configuration
    rtt_s: Array
    """Ascending, all different."""
    log_rates: list[Array]
    """At each."""

    @property
    def curve(self) -> Curve:
        """Medians, which a bad run among three does not move."""
        return Curve(self.rtt_s, np.array([np.median(rates) for rates in self.log_rates]))

    def at(self, rtt_s: float) -> Array:
        """Rates in b/s at this RTT; empty when it was not measured."""
        (found,) = np.nonzero(self.rtt_s == rtt_s)
        return np.exp(self.log_rates[found[0]]) if len(found) else np.zeros(0)

    @property
    def deviations(self) -> Array:
        """Of each run from the median of the others of its cell, as wide as from the median of all."""
        found = [np.zeros(0)]
        for rates in self.log_rates:
            n = len(rates)
            if n < 2:
                continue
            others = np.broadcast_to(rates, (n, n))[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
            found.append((rates - np.median(others, axis=1)) * np.sqrt((1 + 1 / n) / (1 + 1 / (n - 1))))
        return np.concatenate(found)


def cells_of(runs: Runs) -> list[Cells]:
    """Of each configuration that occurs. Raises HowdahError when a run has no positive rate or RTT."""
    for name, column in (("rate", runs.rate_bps), ("round-trip time", runs.rtt_s)):
        (bad,) = np.nonzero(~(np.isfinite(column) & (column > 0)))
        if len(bad):
            raise HowdahError(f"run {runs.id[bad[0]]} has no positive {name}; leave it out")
    configurations, own = runs.by_configuration()
    return [_cells(runs[own == index], each) for index, each in enumerate(configurations)]


def spreads(cells: Sequence[Cells]) -> list[float]:
    """Standard deviation of log rates from run to run, of each configuration."""
    shared = _spread(np.concatenate([np.zeros(0), *(each.deviations for each in cells)]), RUN_SPREAD)
    return [_spread(each.deviations, shared) for each in cells]


def _cells(chosen: Runs, configuration: Configuration) -> Cells:
    rtt_s = np.unique(chosen.rtt_s)
    return Cells(configuration, rtt_s, [np.log(chosen.rate_bps[chosen.rtt_s == each]) for each in rtt_s])


def _spread(deviations: Array, before: float) -> float:
    clipped = np.minimum(deviations**2, _DEVIATION_CLIP**2).sum()
    return float(np.sqrt((clipped + _WEIGHT * before**2) / (len(deviations) + _WEIGHT)))
