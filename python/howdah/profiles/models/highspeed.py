"""HighSpeed TCP: the larger the window, the more it gains a round trip and the less a loss takes.

Source: RFC 3649 §5 and appendix B, whose table Linux takes: row k is for windows above that at which the
formula's growth is k − 1, gains k segments a round trip, and cuts as the formula does at its upper end.

Deviation of Linux: it adds k for each ACK and not for each segment, so that it grows slower where receive
offload makes one ACK of many segments.
"""

import functools

import numpy as np
import numpy.typing as npt

from howdah.profiles.models.by_round import FloatArray

LOW_WINDOW = 38.0
HIGH_WINDOW = 83_000.0
HIGH_TAKEN = 0.1
ROWS = 72


def formula_taken(window: FloatArray) -> FloatArray:
    """b(w) of §5: from 0.5 at 38 segments to 0.1 at 83,000, linear in log w."""
    position: FloatArray = np.log(window / LOW_WINDOW) / np.log(HIGH_WINDOW / LOW_WINDOW)
    return 0.5 + (HIGH_TAKEN - 0.5) * position


def formula_increase(window: FloatArray) -> FloatArray:
    """a(w) = w² p(w) 2 b(w) / (2 − b(w)) of §5, with p(w) = 0.078 / w^1.2."""
    b = formula_taken(window)
    return window**2 * 2 * b / ((2 - b) * window**1.2 * 12.8)


@functools.cache
def row_ends() -> FloatArray:
    """The largest window of each row."""
    windows = np.geomspace(LOW_WINDOW, 1.2 * HIGH_WINDOW, 4096)
    ends = np.interp(np.arange(1, ROWS + 1), formula_increase(windows), windows)
    ends[0] = LOW_WINDOW
    return ends


def increase(window: FloatArray) -> FloatArray:
    """Segments gained a round trip, by the table."""
    return 1.0 + np.asarray(_row(window), float)


def taken(window: FloatArray) -> FloatArray:
    """Share of the window that a loss takes, by the table."""
    return formula_taken(row_ends()[_row(window)])


def _row(window: FloatArray) -> npt.NDArray[np.intp]:
    return np.minimum(np.searchsorted(row_ends(), window), ROWS - 1)
