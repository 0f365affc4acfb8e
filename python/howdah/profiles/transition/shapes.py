"""Least squares regressions of a profile that assume a shape and no formula, and their errors beside others'.

- Concave, then convex: at the first ``bends`` of the n − 2 inner RTTs the profile bends down, at the
  others up (second differences on the uneven grid). ``bends`` = 0 is wholly convex, n − 2 wholly concave.
- Monotone: it never rises with the RTT (isotonic regression, Barlow et al. 1972).

Both weigh each mean by its standard error and are straight between measured RTTs, as section 5.2 of the
HPDC 2017 paper draws its profile.

The first is non-negative least squares for many right-hand sides at once, by block principal pivoting.
Source: Portugal, Júdice and Vicente, Mathematics of Computation 63 (1994): all variables that break a
condition change sides together, and only the last of them while that has not helped for three turns.

Regressions are compared by what each says of an RTT that it was not shown. Each inner RTT is left out in
turn; the ends would be extrapolation. The error is the mean of |predicted − measured| / measured over them.
Differences below what the measured means themselves may be off say nothing, so that is given beside.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.profiles.profile import Floats, Profile, standard_errors
from howdah.profiles.transition.sigmoids import sigmoids


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
        """The number of RTTs that the profile can bend at."""
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


_PATIENCE = 3
_TOLERANCE = 1e-10


def nonnegative(matrix: Floats, targets: Floats, signs: Floats) -> Floats:
    """Finds for each row z of ``targets`` the x of the given signs or 0 that minimises ‖matrix · x − z‖².

    ``matrix`` has shape (r, m) and full column rank; ``targets`` (k, r) and ``signs`` (k, m), of ±1.
    Returns shape (k, m).
    """
    scale = np.linalg.norm(matrix, axis=0)
    columns = matrix / scale
    passive = np.ones(signs.shape, np.bool_)
    solution = np.zeros(signs.shape)
    least = np.full(len(signs), signs.shape[1] + 1)
    patience = np.full(len(signs), _PATIENCE)
    tolerance = _TOLERANCE * np.linalg.norm(targets, axis=1)
    at_work = np.arange(len(signs))
    while at_work.size:
        here, sign, target = passive[at_work], signs[at_work], targets[at_work]
        found = _on(columns, target, here)
        solution[at_work] = found
        gradient = (found @ columns.T - target) @ columns
        broken = np.where(here, found, gradient) * sign < -tolerance[at_work, None]
        count = broken.sum(axis=1)
        better = count < least[at_work]
        least[at_work] = np.where(better, count, least[at_work])
        patience[at_work] = np.where(better, _PATIENCE, patience[at_work] - 1)
        passive[at_work] = here ^ np.where((patience[at_work] >= 0)[:, None], broken, _last(broken))
        at_work = at_work[count > 0]
    return np.asarray(solution / scale)


def _on(columns: Floats, targets: Floats, passive: NDArray[np.bool_]) -> Floats:
    """The unconstrained solution of each row on its passive variables; the others are 0."""
    codes = np.packbits(passive, axis=1)
    _, first, which = np.unique(
        codes.view(f"V{codes.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    inverses = np.linalg.pinv(columns * passive[first, None, :])
    return np.asarray(np.matmul(inverses[which], targets[:, :, None])[:, :, 0])


def _last(broken: NDArray[np.bool_]) -> NDArray[np.bool_]:
    alone = np.zeros_like(broken)
    rows = np.arange(len(broken))
    alone[rows, broken.shape[1] - 1 - np.argmax(broken[:, ::-1], axis=1)] = True
    return alone & broken


LEAST_RTTS = 5
"""A pair of sigmoids still has as many points as parameters with one RTT left out."""


class LeftOutErrors(NamedTuple):
    """Mean relative error at RTTs left out, by regression; NaN where there are too few RTTs."""

    sigmoids: float
    concave_convex: float
    monotone: float
    noise: float
    """Mean relative standard error of the measured means there."""

    @property
    def best(self) -> str | None:
        """The name of the best; None when there are too few RTTs."""
        named = {name: value for name, value in self._asdict().items() if name != "noise"}
        return None if np.isnan(self.noise) else min(named, key=named.__getitem__)

    @property
    def clear(self) -> bool:
        """True where the best is better than the next by more than the noise."""
        first, second, _ = sorted([self.sigmoids, self.concave_convex, self.monotone])
        return second - first > self.noise


def compare_regressions(profile: Profile, *, capacity_bps: float | None = None) -> LeftOutErrors:
    """Leaves each inner RTT out in turn.

    Raises HowdahError when no RTT has two runs.
    """
    errors = standard_errors(profile)
    inner = [at for at in range(1, len(profile.rtt_s) - 1) if profile.mean_bps[at] > 0]
    if len(profile.rtt_s) < LEAST_RTTS or not inner:
        return LeftOutErrors(np.nan, np.nan, np.nan, np.nan)

    def error(regress: Callable[[Profile, Floats], Callable[[float], float]]) -> float:
        misses = []
        for at in inner:
            regression = regress(profile.without(at), np.delete(errors, at))
            predicted = regression(float(profile.rtt_s[at]))
            misses.append(abs(predicted / profile.mean_bps[at] - 1))
        return float(np.mean(misses))

    return LeftOutErrors(
        sigmoids=error(lambda part, _: _by_sigmoids(part, capacity_bps)),
        concave_convex=error(_by_shape),
        monotone=error(lambda part, spread: _straight(part, never_rising(part.mean_bps, spread))),
        noise=float(np.mean(errors[inner] / profile.mean_bps[inner])),
    )


def _by_sigmoids(profile: Profile, capacity_bps: float | None) -> Callable[[float], float]:
    fit = sigmoids(profile, capacity_bps=capacity_bps)
    return lambda rtt: float(fit.predict(np.array([rtt]))[0])


def _by_shape(profile: Profile, errors: Floats) -> Callable[[float], float]:
    regression = ConcaveConvex(profile.rtt_s, errors)
    bends = int(np.argmin(regression.misfit(profile.mean_bps[None])[0]))
    return _straight(profile, regression.fit(profile.mean_bps, bends))


def _straight(profile: Profile, fitted: Floats) -> Callable[[float], float]:
    return lambda rtt: float(np.interp(rtt, profile.rtt_s, fitted))
