"""Arithmetic along the rows of windows, shape (n, m), that features share."""

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.recording import Floats

Mask = NDArray[np.bool_]


def spans(there: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the longest stretch of each row begins and ends: shape (n,) each."""
    place = np.arange(1, there.shape[1] + 1)
    ended = np.maximum.accumulate(np.where(there, 0, place), axis=1)
    length = place - ended
    end = length.argmax(axis=1)
    return end + 1 - length[np.arange(len(length)), end], end + 1


def over(above: Floats, below: Floats) -> Floats:
    """The quotient, 0 where there is nothing below."""
    found: Floats = np.divide(
        above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0
    )
    return found


def mean(values: Floats, counted: Mask) -> Floats:
    """Along rows of what counts, 0 where nothing does."""
    return over(np.where(counted, values, 0).sum(axis=1), counted.sum(axis=1).astype(float))


def begins(there: Mask) -> Mask:
    """Where a stretch begins; one that is there at the start counts."""
    before = np.zeros_like(there)
    before[:, 1:] = there[:, :-1]
    found: Mask = there & ~before
    return found


def apart(begins: Mask) -> Floats:
    """Mean steps between events, the whole window with fewer than two: shape (n,)."""
    steps = begins.shape[1]
    number = begins.sum(axis=1)
    first, last = begins.argmax(axis=1), steps - 1 - begins[:, ::-1].argmax(axis=1)
    return np.where(number > 1, (last - first) / np.maximum(number - 1, 1), float(steps))


def longest(there: Mask) -> Floats:
    """Steps of the longest stretch: shape (n,)."""
    begin, end = spans(there)
    return (end - begin).astype(float)
