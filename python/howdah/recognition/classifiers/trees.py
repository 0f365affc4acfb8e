"""Extremely randomised trees on features: Geurts, Ernst and Wehenkel, Machine Learning 63 (2006).

scikit-learn grows them. Each tree sees all examples. At a node some features are tried, each cut at one
random place, and the cut with the least Gini impurity is kept; a node is a leaf when it is pure or small.
Deviations: 2 √F features are tried and not the paper's √F, because those that do not vary at a node count as
tried there; a leaf's shares are smoothed by one pseudo-count spread as the classes are in all, so none is
certain.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.classifier import Arrays, Classifier, has, scikit_learn
from howdah.recognition.features import features, names
from howdah.recognition.rows import Floats
from howdah.recognition.windows import Codes, Names, Windows

TREES = 100
_LEAST_SPLIT = 4
_LEAF = -1


class Trees(Classifier):
    """A forest; the arrays are all nodes of all trees, children behind their parents."""

    name = "trees"
    what = f"{TREES} extremely randomised trees on features"
    learnt = ("roots", "feature", "threshold", "left", "share")
    trees = TREES
    longest_s = 10.0
    learns_between = True
    learns_own_base = True
    roots: NDArray[np.int32]
    """The node where each tree begins: shape (trees,)."""
    feature: NDArray[np.int32]
    """The feature that a node compares, −1 in a leaf: shape (nodes,), as are the others."""
    threshold: NDArray[np.float32]
    """A feature at most this goes left."""
    left: NDArray[np.int32]
    """The left child; the right child is the next node."""
    share: NDArray[np.float32]
    """The share of each class in a leaf, zero in other nodes: shape (nodes, classes)."""

    def _fit(self, windows: Windows, codes: Codes, groups: Names, rng: np.random.Generator) -> None:
        rows = features(windows)
        forest = scikit_learn("ensemble", self.name).ExtraTreesClassifier(
            self.trees,
            max_features=round(2 * rows.shape[1] ** 0.5),
            min_samples_split=_LEAST_SPLIT,
            random_state=int(rng.integers(1 << 31)),
        )
        forest.fit(rows, codes)
        prior = np.bincount(codes, minlength=len(self.classes)) / len(codes)
        for name, values in nodes_of(forest, prior).items():
            setattr(self, name, values)

    def _predict(self, windows: Windows) -> Floats:
        rows = features(windows).astype(np.float32)
        node = np.repeat(self.roots[:, None], len(rows), axis=1)
        place = np.arange(len(rows))
        while (inner := self.feature[node] != _LEAF).any():
            right = rows[place, np.maximum(self.feature[node], 0)] > self.threshold[node]
            node = np.where(inner, self.left[node] + right, node)
        found: Floats = self.share[node].mean(axis=0, dtype=np.float64)
        return found

    def _is_consistent(self) -> bool:
        nodes = len(self.feature) if has(self.feature, None, dtype=np.int32) else 0
        shapes = (
            nodes > 0
            and has(self.roots, None, dtype=np.int32)
            and has(self.threshold, nodes, dtype=np.float32)
            and has(self.left, nodes, dtype=np.int32)
            and has(self.share, nodes, len(self.classes), dtype=np.float32)
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


def nodes_of(forest: Any, prior: Floats) -> Arrays:  # noqa: ANN401
    """The arrays of scikit-learn's forest, each leaf with ``prior`` as one more example.

    With a prior of zeros the classifier's probabilities are those of ``forest.predict_proba``.
    """
    trees = [each.tree_ for each in forest.estimators_]
    roots = np.cumsum([0, *(tree.node_count for tree in trees)])
    parts = [_nodes(tree, root, prior) for tree, root in zip(trees, roots[:-1], strict=True)]
    feature, threshold, left, share = (np.concatenate(each) for each in zip(*parts, strict=True))
    return {
        "roots": roots[:-1].astype(np.int32),
        "feature": feature.astype(np.int32),
        "threshold": threshold,
        "left": left.astype(np.int32),
        "share": share.astype(np.float32),
    }


def _nodes(tree: Any, root: int, prior: Floats) -> tuple[NDArray[Any], ...]:  # noqa: ANN401
    """Feature, threshold, left child and shares of one tree whose nodes begin at ``root``."""
    inner = tree.children_left >= 0
    # Parents come before their children there; here the children of one parent are neighbours, too.
    number = np.zeros(tree.node_count, np.int64)
    number[tree.children_left[inner]] = 1 + 2 * np.arange(inner.sum())
    number[tree.children_right[inner]] = 2 + 2 * np.arange(inner.sum())
    left = np.where(inner, root + number[tree.children_left], 0)
    # No feature of 32 bits lies between a threshold of 64 bits and the next one of 32 bits below.
    near = tree.threshold.astype(np.float32)
    below = np.where(near > tree.threshold, np.nextafter(near, np.float32(-np.inf)), near)
    counted = tree.value[:, 0] * tree.weighted_n_node_samples[:, None] + prior
    share = np.where(inner[:, None], 0.0, counted / counted.sum(axis=1, keepdims=True))
    order = np.argsort(number)
    feature = np.where(inner, tree.feature, _LEAF)
    return feature[order], np.where(inner, below, np.float32(0))[order], left[order], share[order]
