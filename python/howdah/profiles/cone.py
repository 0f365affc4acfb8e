"""Non-negative least squares for many right-hand sides at once, by block principal pivoting.

Source: Portugal, Júdice and Vicente, Mathematics of Computation 63 (1994): all variables that break a
condition change sides together, and only the last of them while that has not helped for three turns.
"""

import numpy as np
from numpy.typing import NDArray

from howdah.profiles.profile import Floats

_PATIENCE = 3
_TOLERANCE = 1e-10


def nonnegative(matrix: Floats, targets: Floats, signs: Floats) -> Floats:
    """For each row z of ``targets`` the x that minimises ‖matrix · x − z‖² with x of the given signs or 0.

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
