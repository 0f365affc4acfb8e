"""Extremely randomised trees on features: Geurts, Ernst and Wehenkel, Machine Learning 63 (2006).

Each tree sees all examples. At a node √F features that vary there are tried (the paper's K), each cut at one
random place, and the cut with the least Gini impurity is kept; a node is a leaf when it is pure or small.
Deviation: a leaf's shares are smoothed by one pseudo-count spread as the classes are in all, so none is
certain.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.contract import Classifier, Codes, has
from howdah.recognition.features import features, names
from howdah.recognition.recording import Floats
from howdah.recognition.windows import Windows

TREES = 100
_LEAST_SPLIT = 4
_LEAF = -1


class _Cut(NamedTuple):
    feature: int
    threshold: float
    left: NDArray[np.bool_]


class Trees(Classifier):
    """A forest; the arrays are all nodes of all trees, children behind their parents."""

    name = "trees"
    what = f"{TREES} extremely randomised trees on features"
    trees = TREES
    own_length_s = 10.0
    learns_between = True
    learns_twice = True
    roots: NDArray[np.int32]
    """Where each tree begins: shape (trees,)."""
    feature: NDArray[np.int32]
    """What a node looks at, −1 in a leaf: shape (nodes,), as are the others."""
    threshold: NDArray[np.float32]
    """At most it: go left."""
    left: NDArray[np.int32]
    """The right child is the next node."""
    share: NDArray[np.float32]
    """Of each class in a leaf, zero in other nodes: shape (nodes, classes)."""

    @classmethod
    def _learnt(cls) -> tuple[str, ...]:
        return ("roots", "feature", "threshold", "left", "share")

    def _fit(
        self, windows: Windows, codes: Codes, groups: NDArray[np.str_], rng: np.random.Generator
    ) -> None:
        rows = features(windows).astype(np.float32)
        grown = _Growing(rows, np.eye(len(self.classes), dtype=np.float32)[codes], rng)
        self.roots = np.array([grown.tree() for _ in range(self.trees)], np.int32)
        self.feature = np.array(grown.feature, np.int32)
        self.threshold = np.array(grown.threshold, np.float32)
        self.left = np.array(grown.left, np.int32)
        self.share = np.stack(grown.share).astype(np.float32)

    def _predict(self, windows: Windows) -> Floats:
        rows = features(windows).astype(np.float32)
        node = np.repeat(self.roots[:, None], len(rows), axis=1)
        place = np.arange(len(rows))
        while True:
            looks = self.feature[node]
            inner = looks != _LEAF
            if not inner.any():
                break
            right = rows[place, np.maximum(looks, 0)] > self.threshold[node]
            node = np.where(inner, self.left[node] + right, node)
        found: Floats = self.share[node].mean(axis=0, dtype=np.float64)
        return found

    def _sound(self) -> bool:
        if not has(self.feature, np.int32, None):
            return False
        nodes = len(self.feature)
        shapes = (
            has(self.roots, np.int32, None)
            and has(self.threshold, np.float32, nodes)
            and has(self.left, np.int32, nodes)
            and has(self.share, np.float32, nodes, len(self.classes))
        )
        if not shapes:
            return False
        inner = self.feature != _LEAF
        place = np.arange(nodes)
        return bool(
            ((self.feature >= _LEAF) & (self.feature < len(names()))).all()
            and ((self.roots >= 0) & (self.roots < nodes)).all()
            # Children behind their parents: every walk ends.
            and ((self.left > place) & (self.left < nodes - 1))[inner].all()
            and (self.share >= 0).all()
            and (self.share.sum(axis=1) > 0)[~inner].all()
        )


class _Growing:
    """Trees being grown, node by node, into lists that all trees share."""

    def __init__(
        self, rows: NDArray[np.float32], wanted: NDArray[np.float32], rng: np.random.Generator
    ) -> None:
        self._rows, self._wanted, self._rng = rows, wanted, rng
        self._tried = max(1, round(rows.shape[1] ** 0.5))
        self._prior = wanted.mean(axis=0)
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.left: list[int] = []
        self.share: list[NDArray[np.float32]] = []

    def tree(self) -> int:
        """Grows one; the number of its root."""
        root = self._node()
        todo = [(root, np.arange(len(self._rows)))]
        while todo:
            node, members = todo.pop()
            cut = self._cut(members)
            if cut is None:
                counted = self._wanted[members].sum(axis=0) + self._prior
                self.share[node] = counted / counted.sum()
                continue
            left, right = self._node(), self._node()
            self.feature[node], self.threshold[node], self.left[node] = cut.feature, cut.threshold, left
            todo += [(left, members[cut.left]), (right, members[~cut.left])]
        return root

    def _node(self) -> int:
        self.feature.append(_LEAF)
        self.threshold.append(0.0)
        self.left.append(0)
        self.share.append(np.zeros_like(self._prior))
        return len(self.feature) - 1

    def _cut(self, members: NDArray[np.intp]) -> _Cut | None:
        wanted = self._wanted[members]
        if len(members) < _LEAST_SPLIT or wanted.sum(axis=0).max() == len(members):
            return None
        tried = self._rng.permutation(self._rows.shape[1])
        # Features that do not vary here cannot cut; looking at some more finds enough that do.
        values = self._rows[np.ix_(members, tried[: 3 * self._tried])]
        low, high = values.min(axis=0), values.max(axis=0)
        varies = np.flatnonzero(low < high)[: self._tried]
        if not len(varies):
            return None
        values, low, high = values[:, varies], low[varies], high[varies]
        threshold = np.minimum(
            low + self._rng.random(len(varies), np.float32) * (high - low), np.nextafter(high, low)
        )
        lefts = values <= threshold
        counted = lefts.T.astype(np.float32) @ wanted
        others = wanted.sum(axis=0) - counted
        # The least impurity is the largest sum of squared counts over sizes.
        worth = (counted**2).sum(axis=1) / counted.sum(axis=1) + (others**2).sum(axis=1) / others.sum(axis=1)
        best = int(worth.argmax())
        return _Cut(int(tried[varies[best]]), float(threshold[best]), lefts[:, best])
