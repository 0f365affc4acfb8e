"""How far what was measured lies from what the model said: the error that a prediction admits to."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from howdah import HowdahError

COVERAGE = 0.90
RUNS_FOR_COVERAGE = 19
"""With fewer runs no order statistic leaves only 5 % on either side."""


class Calibration(NamedTuple):
    """Ratios of measured to predicted rate."""

    low: float
    mid: float
    high: float
    runs: int
    """How many it rests on; 0 is the stated default."""


UNMEASURED = Calibration(low=0.6, mid=1.0, high=1.25, runs=0)
"""Where nothing was measured. Beside the public CUBIC figures of docs/models.md the model in the long run is
0.78 to 1.22 times what was measured, and for a run from its first byte up to 1.5 times."""


def calibrate(predicted_bps: npt.ArrayLike, measured_bps: npt.ArrayLike) -> Calibration:
    """From runs of a path and what was predicted for each (``rate_mid_bps``), arrays of one length.

    The interval holds the next run in at least 90 % if that comes from the same paths (split conformal
    prediction). Below 19 runs it is also at least as wide as the default about the median.
    Raises HowdahError when nothing can be compared.
    """
    predicted, measured = (np.asarray(each, float).ravel() for each in (predicted_bps, measured_bps))
    if predicted.shape != measured.shape:
        raise HowdahError(
            f"{measured.size} measured rates cannot be compared with {predicted.size} predictions"
        )
    known = np.isfinite(predicted) & np.isfinite(measured) & (predicted > 0) & (measured > 0)
    ratio = np.sort(measured[known] / predicted[known])
    if not ratio.size:
        raise HowdahError("no measured rate can be compared with a prediction; each must be above 0")
    mid = float(np.exp(np.median(np.log(ratio))))
    outside = int((ratio.size + 1) * (1 - COVERAGE) / 2)
    low, high = float(ratio[max(outside, 1) - 1]), float(ratio[-max(outside, 1)])
    if ratio.size < RUNS_FOR_COVERAGE:
        low, high = min(low, UNMEASURED.low * mid), max(high, UNMEASURED.high * mid)
    return Calibration(low, mid, high, int(ratio.size))
