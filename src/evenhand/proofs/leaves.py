"""The leaves of an ensemble as bits: which of them a box reaches, and what they bound.

A leaf is a product of one set of cells for each free attribute. A box reaches the leaf if its interval of each
attribute meets the leaf's set. With one bit for each leaf, that is a conjunction of words: for each attribute, the
leaves that an interval meets are the union of two runs whose length is a power of two, which are stored. The leaves of
a tree are sorted by value, so the first and last bit that is left are its bounds.

Small trees are merged: the leaves of the merged tree are the intersections of their leaves. That gives fewer words, and
tighter bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.proofs.boxes import Boxes, Grid
from evenhand.proofs.domain import Ints, Mask
from evenhand.proofs.features import unreadable

Words: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]
BITS = 64
PRODUCT = 512
"""Maximum number of pairs of leaves that are looked at to merge two trees."""
SLIGHT = 1e-9
"""The weight of a group whose leaves differ, but not in value."""
MEMORY = 2**30
"""Maximum bytes of the tables."""
ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class Group:
    """A tree, or several that are merged: its distinct leaves in all kinds of views."""

    cells: Mask
    """Which cells of all free attributes each leaf contains, attributes behind each other."""
    values: Floats
    nodes: Ints
    """The node of each tree."""
    present: Mask
    """Which leaves exist in each kind of view."""


class Leaves:
    """The leaves of groups of trees, as bits.

    >>> cells = np.array([[1, 1, 0], [0, 0, 1]], dtype=bool)
    >>> tree = Group(cells, np.array([5.0, 2.0]), np.array([[1], [2]]), np.ones((1, 2), dtype=bool))
    >>> leaves = Leaves([tree], np.array([3]))
    >>> first, last = leaves.ends(leaves.reach(np.array([[0], [1]]), np.array([[1], [2]])))
    >>> leaves.values[first].tolist(), leaves.values[last].tolist()
    ([[5.0], [2.0]], [[5.0], [5.0]])
    """

    def __init__(self, groups: list[Group], sizes: Ints) -> None:
        self.sizes = sizes
        edges = np.concatenate([[0], np.cumsum(sizes)])
        counts = np.array([len(group.values) for group in groups])
        words = -(-counts // BITS)
        self.starts = np.concatenate([[0], np.cumsum(words)[:-1]])
        self.words = int(words.sum())
        if self.words * 8 * float((sizes * (1 + np.log2(sizes))).sum()) > MEMORY:
            raise unreadable(f"its {int(counts.sum()):,} leaves and {int(edges[-1]):,} cells need too much memory")
        order = [np.argsort(group.values, kind="stable") for group in groups]
        at = np.concatenate([BITS * start + np.arange(n) for start, n in zip(self.starts, counts, strict=True)])
        cells = np.concatenate([group.cells[turn] for group, turn in zip(groups, order, strict=True)])
        self.values = np.zeros(BITS * self.words)
        self.values[at] = np.concatenate([group.values[turn] for group, turn in zip(groups, order, strict=True)])
        present = np.concatenate([group.present[:, turn] for group, turn in zip(groups, order, strict=True)], axis=1)
        self.present = np.stack([self._pack(at, one[:, None])[0] for one in present])
        """The leaves that exist in each kind of view."""
        self.common = np.bitwise_and.reduce(self.present, axis=0)
        """The leaves that exist in all of them."""
        everything = self._pack(at, np.ones((len(at), 1), dtype=bool))[0]
        self.low = np.zeros((len(sizes), BITS * self.words), dtype=np.int64)
        self.high = np.zeros((len(sizes), BITS * self.words), dtype=np.int64)
        """The first and the last cell of each attribute in each leaf."""
        self._tables: list[tuple[int, Words]] = []
        for i, size in enumerate(sizes.tolist()):
            mine = cells[:, edges[i] : edges[i + 1]]
            self.low[i, at], self.high[i, at] = mine.argmax(axis=1), size - 1 - mine[:, ::-1].argmax(axis=1)
            if not mine.all():
                self._tables.append((i, self._runs(self._pack(at, mine))))
        self._everything = everything
        self._log = np.array([0, *(int(n).bit_length() - 1 for n in range(1, int(sizes.max()) + 1))])
        self.places = [i for i, _ in self._tables]
        """The free attributes that any leaf depends on."""

    def _pack(self, at: Ints, members: Mask) -> Words:
        """Return words for each column of members, which are leaves at some bits."""
        out = np.zeros((members.shape[1], self.words * BITS), dtype=bool)
        out[:, at] = members.T
        return np.packbits(out, axis=1, bitorder="little").view(np.uint64)

    def _runs(self, words: Words) -> Words:
        """Return the unions of all runs whose length is a power of two, by length and start."""
        out, length = [words], 1
        while 2 * length <= len(words):
            union = out[-1].copy()
            union[:-length] |= out[-1][length:]
            out.append(union)
            length *= 2
        return np.stack(out)

    def reach(self, low: Boxes | Ints, high: Boxes | Ints) -> Words:
        """Return the leaves that boxes reach, in any kind of view."""
        out = np.tile(self._everything, (len(low), 1)) if not self._tables else np.empty(0, np.uint64)
        for turn, (i, table) in enumerate(self._tables):
            first, last = low[:, i].astype(np.int64), high[:, i].astype(np.int64)
            length = self._log[last - first + 1]
            met = table[length, first]
            met |= table[length, last + 1 - (1 << length)]
            out = met if turn == 0 else np.bitwise_and(out, met, out=out)
        return out

    def ends(self, reached: Words) -> tuple[Ints, Ints]:
        """Return the leaves with the least and with the largest value of each group."""
        lowest = reached & (~reached + ONE)
        first = np.bitwise_count(lowest - ONE).astype(np.int64)
        filled = reached.copy()
        for shift in (1, 2, 4, 8, 16, 32):
            filled |= filled >> np.uint64(shift)
        last = np.bitwise_count(filled).astype(np.int64) - 1
        offsets = BITS * np.arange(self.words)
        first += offsets
        last += offsets
        if len(self.starts) < self.words:
            nothing = reached == 0
            first[nothing], last[nothing] = BITS * self.words, -1
            first = np.minimum.reduceat(first, self.starts, axis=1)
            last = np.maximum.reduceat(last, self.starts, axis=1)
        return first, last

    def cuts(
        self, first: Ints, last: Ints, low: Boxes | Ints, high: Boxes | Ints, starts: list[Ints]
    ) -> tuple[Ints, Ints]:
        """Return, for each box, an attribute and the first cell of its upper part.

        Every group votes against its leaves with the least and with the largest value: for each cut, with the part of
        the box that would lose such a leaf. ``starts`` has the first code of each attribute's cells.
        """
        n, rows = len(low), np.arange(len(low))
        weight = self.values[last] - self.values[first] + SLIGHT * (first != last)
        both, weights = np.concatenate([first, last], axis=1), np.concatenate([weight, weight], axis=1).ravel()
        best, place, cell = np.full(n, -1.0), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for i in self.places:
            width = int(self.sizes[i]) + 1
            bottom, top = low[:, i].astype(np.int64), high[:, i].astype(np.int64)
            if not (bottom < top).any():
                continue
            offset = (rows * width)[:, None]
            # The lower part loses leaves that begin at the cut or above, the upper part those that end below it.
            begin = np.maximum(self.low[i][both], bottom[:, None]) + offset
            end = np.minimum(self.high[i][both], top[:, None]) + offset + 1
            below = np.bincount(begin.ravel(), weights, n * width).reshape(n, width)
            above = np.bincount(end.ravel(), weights, n * width).reshape(n, width)
            lost_below = np.cumsum(below[:, ::-1], axis=1)[:, ::-1]
            lost_above = np.cumsum(above, axis=1)
            codes = starts[i]
            share = (codes - codes[bottom][:, None]) / (codes[top + 1] - codes[bottom])[:, None]
            cut = np.arange(width)
            inside = (cut > bottom[:, None]) & (cut <= top[:, None])
            gain = np.where(inside, share * lost_below + (1 - share) * lost_above, -1.0)
            most = gain.argmax(axis=1)
            better = np.flatnonzero(gain[rows, most] > best)
            best[better], place[better], cell[better] = gain[better, most[better]], i, most[better]
        return place, cell


def merge(trees: list[Group], edges: Ints) -> list[Group]:
    """Merge small trees, as long as all leaves fit one word."""
    out: list[Group] = []
    for tree in sorted(trees, key=lambda one: -len(one.values)):
        options = [
            (int(_meet(tree, other, edges).sum()), at)
            for at, other in enumerate(out)
            if len(tree.values) * len(other.values) <= PRODUCT
        ]
        fitting = [(pairs - len(out[at].values), at) for pairs, at in options if pairs <= BITS]
        if fitting:
            _, at = min(fitting)
            out[at] = _product(out[at], tree, edges)
        else:
            out.append(tree)
    return out


def _meet(first: Group, second: Group, edges: Ints) -> Mask:
    """Whether leaves of two trees have a common cell of every attribute, and a common kind of view."""
    both = first.cells[:, None, :] & second.cells[None, :, :]
    met = np.logical_or.reduceat(both, edges[:-1], axis=2).all(axis=2)
    return np.asarray(met & (first.present.T[:, None, :] & second.present.T[None, :, :]).any(axis=2))


def _product(first: Group, second: Group, edges: Ints) -> Group:
    """Merge two trees."""
    a, b = np.nonzero(_meet(first, second, edges))
    return Group(
        first.cells[a] & second.cells[b],
        first.values[a] + second.values[b],
        np.concatenate([first.nodes[a], second.nodes[b]], axis=1),
        first.present[:, a] & second.present[:, b],
    )


def trees_of(grid: Grid, edges: Ints) -> list[Group]:
    """Return each tree of a grid."""
    trees, kinds = grid.trees, len(grid.known)
    left = np.ones((len(grid.column), int(edges[-1])), dtype=bool)
    right = left.copy()
    for number, (i, table) in enumerate(grid.tables):
        left[number, edges[i] : edges[i + 1]] = table
        right[number, edges[i] : edges[i + 1]] = ~table
    right[0], left[1] = False, False
    bounds = np.append(trees.roots, len(trees.test))
    found: list[dict[tuple[int, bytes], list[int]]] = [{} for _ in trees.roots]
    for kind in range(kinds):
        nodes, cells = trees.roots, np.ones((len(trees.roots), int(edges[-1])), dtype=bool)
        while len(nodes):
            inner = trees.test[nodes] >= 0
            ends, masks = nodes[~inner], cells[~inner]
            owners = np.searchsorted(bounds, ends, "right") - 1
            for node, owner, mask in zip(ends.tolist(), owners.tolist(), np.packbits(masks, axis=1), strict=True):
                found[owner].setdefault((node, mask.tobytes()), []).append(kind)
            above, tables = nodes[inner], grid.known[kind, trees.test[nodes[inner]]]
            cells = np.concatenate([cells[inner] & left[tables], cells[inner] & right[tables]])
            nodes = np.concatenate([trees.left[above], trees.right[above]])
            some = np.logical_or.reduceat(cells, edges[:-1], axis=1).all(axis=1)
            nodes, cells = nodes[some], cells[some]
    out = []
    for leaves in found:
        nodes = np.array([node for node, _ in leaves], dtype=np.int64)
        packed = np.frombuffer(b"".join(mask for _, mask in leaves), dtype=np.uint8).reshape(len(nodes), -1)
        present = np.zeros((kinds, len(nodes)), dtype=bool)
        for leaf, owned in enumerate(leaves.values()):
            present[owned, leaf] = True
        cells = np.unpackbits(packed, axis=1, count=int(edges[-1])).astype(bool)
        out.append(Group(cells, trees.value[nodes], nodes[:, None], present))
    return out
