"""Ways to leave examples out: at random, as the paper does, by whole runs, by whole paths.

Random folds put windows of one run on both sides, so a classifier may know the run and not the class; what it
is worth to a user is told by runs, and by paths, that it has never seen.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to train on, rows to test on; both ascending."""


def random(codes: NDArray[np.int64], count: int, rng: np.random.Generator) -> Iterator[Fold]:
    """``count`` folds, each with its share of each class."""
    yield from _folds(_spread(codes, rng) % count)


def whole(
    codes: NDArray[np.int64], groups: NDArray[np.str_], count: int, rng: np.random.Generator
) -> Iterator[Fold]:
    """``count`` folds that keep groups whole, each with its share of each class's groups as far as can be.

    A fold is left out when a class it tests would be missing from what it trains on, or when nothing is left
    to train on: none at all when each class has one group.
    """
    named, of_row = np.unique(groups, return_inverse=True)
    first = np.array([codes[np.flatnonzero(of_row == group)[0]] for group in range(len(named))])
    for train, test in _folds((_spread(first, rng) % count)[of_row]):
        known = np.isin(codes[test], codes[train])
        if known.all():
            yield train, test


def leave_out(groups: NDArray[np.str_]) -> Iterator[tuple[str, Fold]]:
    """Each group left out in turn, with its name; nothing when there is one only."""
    for name in np.unique(groups):
        out = groups == name
        if not out.all():
            yield str(name), (np.flatnonzero(~out), np.flatnonzero(out))


def _spread(codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Numbers that shuffle each class and then deal out its members, class after class."""
    order = np.lexsort((rng.permutation(len(codes)), codes))
    found = np.empty(len(codes), np.intp)
    found[order] = np.arange(len(codes))
    return found


def _folds(number: NDArray[np.intp]) -> Iterator[Fold]:
    for fold in np.unique(number):
        test = number == fold
        if not test.all():
            yield np.flatnonzero(~test), np.flatnonzero(test)
