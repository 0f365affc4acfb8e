"""Arithmetic along rows: arrays of shape (n, m), a row for each window."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_FARTHEST = 8.0
"""The limit of a value in standard deviations; a value farther out counts no more."""


class Standardiser(NamedTuple):
    """Columns less their mean, in standard deviations, and those too far out drawn in."""

    mean: Floats
    sd: Floats

    @classmethod
    def of(cls, rows: Floats) -> Self:
        """The standardiser of these rows; a column that never varies becomes 0."""
        sd = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(sd > 1e-9, sd, 1.0))

    def __call__(self, rows: Floats) -> Floats:
        """The standardised rows: shape (n, columns)."""
        found: Floats = np.clip((rows - self.mean) / self.sd, -_FARTHEST, _FARTHEST)
        return found


def softmax(scores: Floats) -> Floats:
    """The softmax along the last axis, without overflow."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return found


def linear(rows: Floats, weights: Floats) -> Floats:
    """Scores of rows (n, columns) by weights (columns + 1, classes), the last row being constants."""
    found: Floats = rows @ weights[:-1] + weights[-1]
    return found


def quotient(above: Floats, below: Floats) -> Floats:
    """The quotient, 0 where nothing is below."""
    found: Floats = np.divide(
        above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0
    )
    return found


def mean(values: Floats, counted: Mask) -> Floats:
    """The mean of what is counted in each row, 0 where nothing is: shape (n,)."""
    return quotient(np.where(counted, values, 0).sum(axis=1), counted.sum(axis=1).astype(float))


def mean_of_finite(parts: Floats) -> Floats:
    """The mean of the finite values along the last axis, NaN where there is none."""
    finite = np.isfinite(parts)
    with np.errstate(invalid="ignore"):
        found: Floats = np.where(finite, parts, 0).sum(axis=-1) / finite.sum(axis=-1)
    return found


def interpolated(rows: Floats, empty: float) -> Floats:
    """Rows with their gaps filled along straight lines, at the ends by the nearest value.

    A row of gaps alone becomes ``empty``.
    """
    finite = np.isfinite(rows)
    found = rows.copy()
    places = np.arange(rows.shape[1])
    for row in np.flatnonzero(~finite.all(axis=1)):
        known = finite[row]
        found[row] = np.interp(places, places[known], rows[row, known]) if known.any() else empty
    return found


def begins(mask: Mask) -> Mask:
    """Marks where a stretch begins; one that is there from the start counts."""
    before = np.zeros_like(mask)
    before[:, 1:] = mask[:, :-1]
    found: Mask = mask & ~before
    return found


def apart(events: Mask) -> Floats:
    """The mean steps between the events of each row, or all steps with fewer than two: shape (n,)."""
    steps = events.shape[1]
    number = events.sum(axis=1)
    first, last = events.argmax(axis=1), steps - 1 - events[:, ::-1].argmax(axis=1)
    return np.where(number > 1, (last - first) / np.maximum(number - 1, 1), float(steps))


def longest_span(mask: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The begin and the end of the longest stretch of each row: shape (n,) each."""
    place = np.arange(1, mask.shape[1] + 1)
    ended = np.maximum.accumulate(np.where(mask, 0, place), axis=1)
    length = place - ended
    end = length.argmax(axis=1)
    return end + 1 - length[np.arange(len(length)), end], end + 1


def longest(mask: Mask) -> Floats:
    """The steps of the longest stretch of each row: shape (n,)."""
    begin, end = longest_span(mask)
    return (end - begin).astype(float)
