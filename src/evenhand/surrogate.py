"""A decision tree that imitates a model all over its space, and how well it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.spaces.attributes import Attribute
from evenhand.spaces.individuals import Rows

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

FOLDS = 5
WIDEST = 256
"""A nominal attribute with more values is not seen by the tree."""
Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Inputs:
    """Rows of codes as a tree should see them.

    An ordered attribute is one column, to be cut anywhere. Each value of a nominal one has a column of its own, and so
    has a missing value: a cut between two codes would group values that have nothing in common.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Nominal("work", ["a", "b", "c"]), Boolean("sex")], protected="sex")
    >>> Inputs(space)(np.array([[4, 2, 1]])).tolist()
    [[4.0, 1.0, 0.0, 0.0, 1.0]]
    """

    def __init__(self, space: Space) -> None:
        self._ordered = np.flatnonzero(space.ordered)
        self._single = [(j, code) for j, a in enumerate(space.attributes) for code in _single(a)]
        # At least one column, be it of nothing but zeros: a tree wants one.
        self.columns = max(1, len(self._ordered) + len(self._single))

    def __call__(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Build the columns."""
        ordered = len(self._ordered)
        # Column after column in memory, as it is written here and read by the tree.
        codes = np.ascontiguousarray(rows.T)
        out = np.zeros((self.columns, len(rows)), dtype=np.float32)
        out[:ordered] = codes[self._ordered]
        for column, (j, code) in enumerate(self._single, ordered):
            out[column] = codes[j] == code
        return out.T


def _single(attribute: Attribute) -> range:
    """Codes that have a column of their own; of two nominal values one tells the other."""
    if attribute.ordered:
        return range(attribute.present, attribute.size)
    return range(int(attribute.size == 2), attribute.size if attribute.size <= WIDEST else 0)


@dataclass(frozen=True)
class Surrogate:
    """A tree, what it is shown, and its accuracy."""

    inputs: Inputs
    tree: Any
    accuracy: float
    """How right it is about individuals that it was not grown from; every decision counts alike."""

    @property
    def leaves(self) -> int:
        """How many leaves it has."""
        return int(self.tree.get_n_leaves())

    @property
    def nodes(self) -> int:
        """How many nodes it has, leaves included."""
        return int(self.tree.tree_.node_count)

    def leaf(self, rows: Rows) -> Codes:
        """Return the node of the leaf that each row comes to."""
        return np.asarray(self.tree.apply(self.inputs(rows), check_input=False))


def imitate(space: Space, rows: Rows, decisions: npt.NDArray[Any], whole: bool = False) -> Surrogate:
    """Grow the tree, of whatever size, that tells the decisions of others best.

    Accuracy is the share that is told right of each decision, averaged over the decisions, so that a tree that knows
    only the commonest one is not accurate. It is cross-validated; where ``rows`` are the whole space, there are no
    others and it is counted.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(18))
    >>> done = imitate(space, rows, rows[:, 0] > 5, whole=True)
    >>> done.leaves, done.accuracy
    (2, 1.0)
    """
    inputs = Inputs(space)
    seen = inputs(rows)
    known, said = np.unique(decisions, return_inverse=True)
    said = said.reshape(-1)
    weights = 1 / (len(known) * np.bincount(said))[said]
    parts = [
        _curve(_grow(seen[train], said[train]), seen[test], said[test], weights[test])
        for train, test in _folds(len(rows), whole)
    ]
    most = max(map(len, parts))
    # A tree that can grow no more stays as accurate as it is. Rounded, so that of equals the smallest is the best.
    curve = np.round(np.sum([np.pad(part, (0, most - len(part)), mode="edge") for part in parts], axis=0), 9)
    size = 2 + int(curve[1:].argmax()) if most > 1 else 1
    return Surrogate(inputs, _grow(seen, said, size), float(curve[size - 1]))


def _folds(n: int, whole: bool) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """Give whom to grow from and whom to ask; individuals come in random order, so every fifth is a fair choice."""
    if whole:
        yield np.ones(n, dtype=bool), np.ones(n, dtype=bool)
        return
    for fold in range(FOLDS):
        test = np.arange(n) % FOLDS == fold
        yield ~test, test


def _grow(seen: npt.NDArray[np.float32], said: Codes, leaves: int | None = None) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    # A limit on leaves, however large, makes the tree grow where it gains most.
    most = max(2, len(seen) if leaves is None else leaves)
    return DecisionTreeClassifier(max_leaf_nodes=most, class_weight="balanced", random_state=0).fit(seen, said)


def _curve(tree: Any, seen: npt.NDArray[np.float32], said: Codes, weights: Floats) -> Floats:
    """Return the weight that is told right by the tree when it had one leaf, two, three and so on.

    Every split has added two nodes behind all others, so the tree that had m leaves is the first 2 m - 1 nodes; and
    whoever comes by a node is told right or not by the last node that was there.
    """
    path = tree.decision_path(seen)
    who = np.repeat(np.arange(len(seen)), np.diff(path.indptr))
    told = tree.classes_[tree.tree_.value[:, 0].argmax(axis=1)]
    right = (told[path.indices] == said[who]).astype(np.float64)
    change = np.diff(right, prepend=0)
    change[path.indptr[:-1]] = right[path.indptr[:-1]]
    gains = np.bincount(path.indices, change * weights[who], tree.tree_.node_count)
    return np.asarray(np.cumsum(gains)[::2])
