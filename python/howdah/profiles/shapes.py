"""Least squares regressions of a profile that assume a shape and no formula.

- Concave, then convex: at the first ``bends`` of the n − 2 inner RTTs the profile bends down, at the
  others up (second differences on the uneven grid). ``bends`` = 0 is wholly convex, n − 2 wholly concave.
- Monotone: it never rises with the RTT (isotonic regression, Barlow et al. 1972).

Both weigh each mean by its standard error and are straight between measured RTTs, as section 5.2 of the
HPDC 2017 paper draws its profile.
"""

from enum import StrEnum

import numpy as np

from howdah.profiles.cone import nonnegative
from howdah.profiles.profile import Floats


class Shape(StrEnum):
    """Of a whole profile."""

    CONCAVE = "concave"
    CONVEX = "convex"
    STRAIGHT = "straight"
    BOTH = "concave-convex"


class ConcaveConvex:
    """The regressions on one grid of at least three RTTs with one standard error each, both of shape (n,)."""

    def __init__(self, rtt_s: Floats, errors_bps: Floats) -> None:
        self._errors = errors_bps
        places = (rtt_s - rtt_s[0]) / (rtt_s[-1] - rtt_s[0])
        line = np.stack([np.ones_like(places), places], axis=1)
        self._hinges = np.maximum(places[:, None] - places[None, 1:-1], 0.0)
        basis, _ = np.linalg.qr(np.hstack([line, self._hinges]) / errors_bps[:, None])
        self._line, self._rest = basis[:, :2], basis[:, 2:]
        self._turned = self._rest.T @ (self._hinges / errors_bps[:, None])

    @property
    def inner(self) -> int:
        """How many RTTs the profile can bend at."""
        return int(self._hinges.shape[1])

    def misfit(self, means_bps: Floats) -> Floats:
        """The weighted sum of squares for each number of bends, shape (k, n − 1), of means (k, n)."""
        patterns = np.arange(self.inner + 1)
        signs = np.where(np.arange(self.inner) < patterns[:, None], -1.0, 1.0)
        targets = (means_bps / self._errors) @ self._rest
        repeated = np.repeat(targets, len(patterns), axis=0)
        slopes = nonnegative(self._turned, repeated, np.tile(signs, (len(targets), 1)))
        squares = np.sum((slopes @ self._turned.T - repeated) ** 2, axis=1)
        return np.asarray(squares.reshape(len(targets), len(patterns)))

    def fit(self, means_bps: Floats, bends: int | None) -> Floats:
        """The fitted means at the measured RTTs, shape (n,); the straight line without ``bends``."""
        weighted = means_bps / self._errors
        fitted = self._line @ (self._line.T @ weighted)
        if bends is not None:
            signs = np.where(np.arange(self.inner) < bends, -1.0, 1.0)
            slopes = nonnegative(self._turned, (weighted @ self._rest)[None], signs[None])[0]
            fitted += self._rest @ (self._turned @ slopes)
        return fitted * self._errors


def never_rising(means_bps: Floats, errors_bps: Floats) -> Floats:
    """The monotone regression at the measured RTTs, shape (n,), by pooling adjacent violators."""
    blocks: list[tuple[float, float, int]] = []
    for mean, weight in zip(means_bps, errors_bps**-2.0, strict=True):
        value, size = float(mean), 1
        while blocks and blocks[-1][0] <= value:
            before, heavier, more = blocks.pop()
            value = (before * heavier + value * weight) / (heavier + weight)
            weight, size = weight + heavier, size + more  # noqa: PLW2901
        blocks.append((value, float(weight), size))
    return np.repeat([value for value, _, _ in blocks], [size for _, _, size in blocks])
