"""What a trace must be before anything is said of it.

A trace that is wrong (not finite, not one row) is an error. One of which nothing can be said (short,
constant) gives ``Unknown`` and its reason, so that one dull run does not spoil the table of a sweep.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howdah import HowdahError
from howdah.text import count

Trace = NDArray[np.float64]

_CONSTANT = 1e-9
"""Spread, as a share of the largest value, that is rounding and not dynamics."""


class Unknown(NamedTuple):
    """Nothing can be said, and why."""

    reason: str


def checked(trace: ArrayLike) -> Trace:
    """The trace as an array of shape (n,); HowdahError when it is not one row of finite numbers."""
    values = np.asarray(trace, dtype=np.float64)
    if values.ndim != 1:
        raise HowdahError(
            f"a trace is one row of rates, and this has {values.ndim} dimensions; take one stream"
        )
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise HowdahError(
            f"sample {wrong[0]} of the trace is {values[wrong[0]]}; leave the run out or measure again"
        )
    return values


def lacking(trace: Trace, least: int) -> Unknown | None:
    """Why nothing can be said of a trace that must vary and have ``least`` samples; None when it does."""
    if trace.size < least:
        return Unknown(f"{count(trace.size, 'sample')}, and {least} are needed")
    if np.ptp(trace) <= _CONSTANT * np.abs(trace).max():
        return Unknown("the trace is constant")
    return None


def standardised(trace: Trace) -> Trace:
    """A trace that varies, with mean 0 and standard deviation 1."""
    scaled = trace / np.abs(trace).max()
    result: Trace = (scaled - scaled.mean()) / scaled.std()
    return result
