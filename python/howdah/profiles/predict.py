"""What the next run of each measured configuration will reach at an RTT, with a 90 % interval.

Two things are uncertain, and each is calibrated where the truth is known: the rate between measured
RTTs (``interpolate``: an inner RTT left out), and one run around the median of a few (a run left out). Both
errors are taken in units of their own expected size and pooled over all configurations, because one has too
few; their quantiles are the interval, after Lei et al., Distribution-Free Predictive Inference for
Regression, JASA 113, 2018, section 5.2, which scales residuals in this way. Errors from inner RTTs span wider
gaps than those that are then interpolated; the scale, which grows with the gap, answers for that.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah._native import format_duration
from howdah.archive.runs import SPREAD, SPREAD_S, Configuration, Runs
from howdah.profiles.cells import cells_of, spreads
from howdah.profiles.interpolate import Interpolation, Point

Array = NDArray[np.float64]

CONFIDENCE = 0.9
"""Of the interval; its low end is reached with 95 %."""

MEASURE = "measure with: howdah sweep HOST"

_NORMAL = np.array([-1.64, -1.28, -1.04, -0.84, -0.67, -0.52, -0.39, -0.25, -0.13, 0.0])
_PSEUDO_SCORES = np.concatenate([_NORMAL, -_NORMAL[:-1]])
"""Nineteen scores of a normal distribution (its quantiles 5, 10 … 95 %) stand beside those measured, so that
quantiles exist when there are few; they drown when there are many."""

_SAME = 0.01
"""Log RTT. As near as this to a measured RTT its runs are taken as they are."""

Basis = Literal["measured", "interpolated", "model"]


class Prediction(NamedTuple):
    """What the next run of a configuration will reach."""

    configuration: Configuration
    rate_low_bps: float
    """Reached by the next run with 95 %."""
    rate_mid_bps: float
    rate_high_bps: float
    """Passed by the next run with 5 %."""
    basis: Basis
    rtts_s: tuple[float, ...]
    """The measured RTTs it comes from."""
    runs: int
    """At those."""


class Outside(NamedTuple):
    """Why an RTT cannot be predicted from a profile."""

    what: str
    mend: str


class Predictor:
    """Predicts from the runs of one path at several RTTs, or at one."""

    def __init__(self, runs: Runs) -> None:
        """Raises HowdahError when a run has no positive rate or RTT."""
        self.cells = cells_of(runs)
        self.rtt_s = np.unique(runs.rtt_s)
        self._interpolation = Interpolation([cells.curve for cells in self.cells])
        self._between = _quantiles(self._interpolation.scores)
        self._spreads = spreads(self.cells)
        scores = [cells.deviations / spread for cells, spread in zip(self.cells, self._spreads, strict=True)]
        self._run = _quantiles(np.concatenate([np.zeros(0), *scores]))
        capacities = runs.capacity_bps[~np.isnan(runs.capacity_bps)]
        self._capacity_bps = float(capacities.max()) if len(capacities) else np.inf

    def outside(self, rtt_s: float) -> Outside | None:
        """Why nothing is said at this RTT; None where something is."""
        return outside(self.rtt_s, rtt_s)

    def at(self, rtt_s: float) -> list[Prediction]:
        """Of each configuration that was measured at this RTT or at both sides of it; may be empty."""
        found = (self._predict(index, rtt_s) for index in range(len(self.cells)))
        return [prediction for prediction in found if prediction is not None]

    def _predict(self, index: int, rtt_s: float) -> Prediction | None:
        cells = self.cells[index]
        nearest = int(np.argmin(np.abs(np.log(cells.rtt_s / rtt_s))))
        off = abs(float(np.log(rtt_s / cells.rtt_s[nearest])))
        right = int(np.searchsorted(cells.rtt_s, rtt_s))
        if off > _SAME and 0 < right < len(cells.rtt_s):
            used = [right - 1, right]
            point, off = self._interpolation.at(index, rtt_s), 0.0
        elif near(rtt_s, cells.rtt_s[nearest]):
            # A rate falls at most as that of a window does, in proportion to RTT: by ``off``.
            used, point = [nearest], Point(float(np.median(cells.log_rates[nearest])), 0.0)
        else:
            return None
        low, high = (
            off + np.hypot(point.scale * between, self._spreads[index] * run)
            for between, run in zip(self._between, self._run, strict=True)
        )
        rates = np.minimum(np.exp(point.log_rate + np.array([-low, 0.0, high])), self._capacity_bps)
        return Prediction(
            configuration=cells.configuration,
            rate_low_bps=float(rates[0]),
            rate_mid_bps=float(rates[1]),
            rate_high_bps=float(rates[2]),
            basis="measured" if len(used) == 1 else "interpolated",
            rtts_s=tuple(float(cells.rtt_s[each]) for each in used),
            runs=sum(len(cells.log_rates[each]) for each in used),
        )


def outside(measured_s: Array, rtt_s: float) -> Outside | None:
    """Why nothing is said at an RTT: there, it would be extrapolation. None inside ``measured_s``."""
    if not len(measured_s):
        return Outside("there is no profile of this path", MEASURE)
    least, most = float(measured_s.min()), float(measured_s.max())
    if least <= rtt_s <= most or near(rtt_s, least) or near(rtt_s, most):
        return None
    where, end = ("below", least) if rtt_s < least else ("above", most)
    what = f"rtt {format_duration(rtt_s)} is {where} the {format_duration(end)} this profile covers"
    return Outside(what, MEASURE)


def near(rtt_s: float, measured_s: float) -> bool:
    """True within what the archive takes for one RTT of one path."""
    return bool(abs(rtt_s - measured_s) <= SPREAD * measured_s + SPREAD_S)


def _quantiles(scores: Array) -> tuple[float, float]:
    """How far below and above the middle the interval reaches, in units of the scale; neither negative."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate([scores, _PSEUDO_SCORES]), [tail, 1 - tail])
    return max(0.0, float(-low)), max(0.0, float(high))
