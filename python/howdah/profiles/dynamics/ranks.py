"""Ranks and normal scores."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing their mean: shape (n,)."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    ranks: NDArray[np.float64] = (last - (sizes - 1) / 2)[group]
    return ranks


def normal_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normal quantile of each value's rank: shape (n,)."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank - 0.5) / values.size) for rank in mean_ranks(values)])
