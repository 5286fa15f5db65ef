"""Boxes that split until they are decided: the product walk of a tree, and what a search of boxes needs.

Searches work on *cells*: runs of codes of an attribute that no test tells apart. A box is an interval of cells for each
free attribute; outside the searches, an interval of codes. Every box keeps its number in a tree of splits, so the boxes
cover the space and do not overlap.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand.proofs.domain import UNDECIDED, Domain, Ints
from evenhand.proofs.trees import Trees

Boxes: TypeAlias = npt.NDArray[np.int32]
Verdicts: TypeAlias = npt.NDArray[np.int8]
BATCH = 4096
"""Boxes that are bounded together."""


class Partition:
    """A tree of splits: which free attribute each box is split on, and the first code of its upper part.

    >>> parts = Partition(np.array([9, 2]))
    >>> parts.split(np.array([0]), np.array([0]), np.array([4])).tolist()
    [1]
    >>> parts.finish([(np.array([1, 2]), np.array([[0], [1]], dtype=np.int8))])
    >>> parts.low.tolist(), parts.high.tolist()
    ([[0, 0], [4, 0]], [[3, 1], [8, 1]])
    """

    def __init__(self, sizes: Ints) -> None:
        self.sizes = sizes
        self.size = 1
        self._splits: list[tuple[Ints, Ints, Ints, Ints]] = []

    def split(self, boxes: Ints, columns: Ints, cuts: Ints) -> Ints:
        """Split boxes, and return the numbers of their lower parts; the upper part has the next number."""
        lower = self.size + 2 * np.arange(len(boxes), dtype=np.int64)
        self.size += 2 * len(boxes)
        self._splits.append((boxes, columns, cuts, lower))
        return lower

    def finish(self, verdicts: list[tuple[Ints, Verdicts]]) -> None:
        """Collect all splits, and the boxes that are not split with their verdicts."""
        self.column = np.full(self.size, -1, dtype=np.int32)
        self.cut = np.zeros(self.size, dtype=np.int64)
        self.lower = np.zeros(self.size, dtype=np.int64)
        narrow = np.int16 if self.sizes.max(initial=0) < 2**15 else np.int32
        low = np.zeros((self.size, len(self.sizes)), dtype=narrow)
        high = np.zeros((self.size, len(self.sizes)), dtype=narrow)
        high[0] = self.sizes - 1
        for boxes, columns, cuts, lower in self._splits:
            self.column[boxes], self.cut[boxes], self.lower[boxes] = columns, cuts, lower
            for side in (0, 1):
                low[lower + side], high[lower + side] = low[boxes], high[boxes]
            high[lower, columns] = cuts - 1
            low[lower + 1, columns] = cuts
        self.leaves = np.concatenate([boxes for boxes, _ in verdicts])
        self.verdicts = np.concatenate([answers for _, answers in verdicts])
        order = np.argsort(self.leaves)
        self.leaves, self.verdicts = self.leaves[order], self.verdicts[order]
        self.low, self.high = low[self.leaves].astype(np.int32), high[self.leaves].astype(np.int32)


CLOCK = time.monotonic
"""The clock of limits; benchmarks on a busy machine set it to the CPU's."""


@dataclass
class Limits:
    """When to stop: after so many seconds, or boxes."""

    seconds: float | None = None
    boxes: int | None = None
    began: float = field(default_factory=lambda: CLOCK())

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return CLOCK() - self.began

    def reached(self, boxes: int) -> bool:
        """Whether a limit is reached."""
        late = self.seconds is not None and self.elapsed >= self.seconds
        return late or (self.boxes is not None and boxes >= self.boxes)


class Grid:
    """Trees on the cells of a domain.

    ``known[view, test]`` is the number of a table over the cells of a free attribute; the first two tables are those
    of tests that always go left, and always right.
    """

    def __init__(self, trees: Trees, domain: Domain) -> None:
        self.trees, self.domain = trees, domain
        known = self._compile()
        self.known: npt.NDArray[np.int64]
        self.known, inverse = np.unique(known, axis=0, return_inverse=True)
        self.view_of = inverse.reshape(-1)
        """One row for each kind of view: those with the same answers to all tests are one."""
        self._find_changes()

    def _compile(self) -> Ints:
        """Number the tables of each view's tests, and find the cells."""
        domain, trees = self.domain, self.trees
        tables: list[npt.NDArray[np.bool_]] = []
        columns: list[int] = [0, 0]
        numbers: dict[tuple[int, bytes], int] = {}
        known = np.zeros((len(domain.views), len(trees.tables)), dtype=np.int64)
        place = {j: at for at, j in enumerate(domain.space.protected_columns)}
        for t, (j, table) in enumerate(zip(trees.attribute.tolist(), trees.tables, strict=True)):
            for v, view in enumerate(domain.views):
                if j < 0 or j in place:
                    known[v, t] = not table[0 if j < 0 else view.protected[place[j]]]
                    continue
                i = domain.place[j]
                if v and i not in view.maps and i not in domain.views[0].maps:
                    known[v, t] = known[0, t]
                    continue
                mapped = table[view.maps[i]] if i in view.maps else table
                if mapped.all() or not mapped.any():
                    known[v, t] = not mapped[0]
                    continue
                key = i, mapped.tobytes()
                if key not in numbers:
                    numbers[key] = len(columns)
                    columns.append(i)
                    tables.append(mapped)
                known[v, t] = numbers[key]
        self.column = np.array(columns, dtype=np.int64)
        cuts: list[set[int]] = [{0} for _ in domain.columns]
        for root in domain.roots:
            for i, (low, high) in enumerate(zip(root.low.tolist(), root.high.tolist(), strict=True)):
                cuts[i] |= {low, high + 1}
        for i, table in zip(columns[2:], tables, strict=True):
            cuts[i] |= set((np.flatnonzero(table[1:] != table[:-1]) + 1).tolist())
        self.starts = [
            np.array([*sorted(one - {int(size)}), int(size)]) for one, size in zip(cuts, domain.sizes, strict=True)
        ]
        """The first code of each cell, and the number of codes."""
        some = np.ones(len(self.starts[0]) - 1, dtype=bool)
        self.tables = [(0, some), (0, ~some)]
        """The free attribute of each table, and which of its cells go left."""
        self.tables += [(i, table[self.starts[i][:-1]]) for i, table in zip(columns[2:], tables, strict=True)]
        self.sizes = np.array([len(starts) - 1 for starts in self.starts])
        """The number of cells of each free attribute."""
        return known

    def _find_changes(self) -> None:
        """Find, for each table and cell, the next cell with another answer; tables behind each other."""
        far = np.iinfo(np.int32).max
        left, change, self.offset = [np.array([True, False])], [np.array([far, far])], [0, 1]
        at = 2
        for _, table in self.tables[2:]:
            size = len(table)
            edges = np.flatnonzero(table[1:] != table[:-1]) + 1
            after = np.searchsorted(edges, np.arange(size), "right")
            change.append(np.append(edges, far)[after])
            left.append(table)
            self.offset.append(at)
            at += size
        self.left = np.concatenate(left)
        self.change = np.concatenate(change)
        self.offset_of = np.array(self.offset, dtype=np.int64)
        self.constant = np.arange(len(self.offset)) < 2

    def codes(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> tuple[Ints, Ints]:
        """Convert intervals of cells to intervals of codes."""
        lower, upper = np.empty(low.shape, dtype=np.int64), np.empty(low.shape, dtype=np.int64)
        for i, starts in enumerate(self.starts):
            lower[:, i], upper[:, i] = starts[low[:, i]], starts[high[:, i] + 1] - 1
        return lower, upper

    def begin(self, parts: Partition) -> Live:
        """Return the boxes of the domain's patterns, and split the partition into them."""
        live = begin(parts, self.domain)
        low, high = np.empty(live.low.shape, dtype=np.int32), np.empty(live.low.shape, dtype=np.int32)
        for i, starts in enumerate(self.starts):
            low[:, i] = np.searchsorted(starts, live.low[:, i])
            high[:, i] = np.searchsorted(starts, live.high[:, i] + 1) - 1
        return Live(live.number, low, high, live.pattern)

    def look(self, kind: int | Ints, tests: Ints, low: Boxes, high: Boxes, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """For tests of boxes: the way of the lowest cell (1: left), the cell where that ends, and the column."""
        table = self.known[kind, tests]
        column = self.column[table]
        at = self.offset_of[table] + np.where(self.constant[table], 0, low[rows, column])
        change = self.change[at]
        inside = change <= high[rows, column]
        return self.left[at], np.where(inside, change, 0), column


@dataclass
class Live:
    """Boxes that are not decided yet."""

    number: Ints
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    pattern: Ints

    def __len__(self) -> int:
        return len(self.number)

    @staticmethod
    def join(parts: list[Live]) -> Live:
        """Concatenate boxes."""
        names = ("number", "low", "high", "pattern")
        return Live(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))

    def __getitem__(self, which: Any) -> Live:
        return Live(self.number[which], self.low[which], self.high[which], self.pattern[which])


def begin(parts: Partition, domain: Domain) -> Live:
    """Return the boxes of a domain's patterns, as intervals of codes, and split the partition into them."""
    roots = domain.roots
    numbers = np.zeros(len(roots), dtype=np.int64)
    _place(parts, 0, domain, list(range(len(roots))), np.zeros_like(domain.sizes), domain.sizes - 1, numbers)
    low, high = np.stack([root.low for root in roots]), np.stack([root.high for root in roots])
    return Live(numbers, low, high, np.array([root.pattern for root in roots], dtype=np.int64))


def _place(
    parts: Partition, number: int, domain: Domain, inside: list[int], low: Ints, high: Ints, numbers: Ints
) -> None:
    """Split the partition so that each root is a box of it."""
    todo = [(number, inside, low, high)]
    while todo:
        number, inside, low, high = todo.pop()
        if len(inside) == 1:
            numbers[inside[0]] = number
            continue
        # The roots come from such splits, so there is always one that cuts none of them.
        for i in range(len(low)):
            starts = sorted({int(domain.roots[r].low[i]) for r in inside})[1:]
            cut = next((at for at in starts if all(
                domain.roots[r].high[i] < at or domain.roots[r].low[i] >= at for r in inside)), None)  # fmt: skip
            if cut is not None:
                break
        assert cut is not None
        below = int(parts.split(np.array([number]), np.array([i]), np.array([cut]))[0])
        lower, upper = high.copy(), low.copy()
        lower[i], upper[i] = cut - 1, cut
        todo.append((below, [r for r in inside if domain.roots[r].low[i] < cut], low, lower))
        todo.append((below + 1, [r for r in inside if domain.roots[r].low[i] >= cut], upper, high))


def split(grid: Grid, parts: Partition, live: Live, columns: Ints, cells: Ints) -> Live:
    """Split boxes at a cell of a column each."""
    cuts = np.empty(len(live), dtype=np.int64)
    for i in np.unique(columns):
        cuts[columns == i] = grid.starts[i][cells[columns == i]]
    lower = parts.split(live.number, columns, cuts)
    rows = np.arange(len(live))
    low, high = live.low.copy(), live.high.copy()
    high[rows, columns] = cells - 1
    low[rows, columns] = cells
    return Live(
        np.concatenate([lower, lower + 1]),
        np.concatenate([live.low, low]),
        np.concatenate([high, live.high]),
        np.concatenate([live.pattern, live.pattern]),
    )


class Walk:
    """The product walk: a tree in all views of a family at once, along all boxes."""

    def __init__(self, grid: Grid, parts: Partition) -> None:
        self.grid, self.parts = grid, parts
        self._below = _one_decision(grid.trees)
        live = grid.begin(parts)
        # Depth first, so that few boxes are alive at any time.
        self._stack = [(live, np.full((len(live), len(grid.known)), grid.trees.roots[0], dtype=np.int64))]
        self.done: list[tuple[Ints, Verdicts]] = []

    @property
    def open(self) -> bool:
        """Whether boxes are undecided."""
        return bool(self._stack)

    def rest(self) -> list[tuple[Ints, Verdicts]]:
        """Return the boxes that are undecided."""
        groups = len(self.grid.domain.groups)
        return [(live.number, np.full((len(live), groups), UNDECIDED, np.int8)) for live, _ in self._stack]

    def step(self) -> None:
        """Move the last boxes down the tree, and split those that are undecided."""
        grid, trees, domain = self.grid, self.grid.trees, self.grid.domain
        live, nodes = self._stack.pop()
        if len(live) > 16 * BATCH:
            half = len(live) // 2
            self._stack += [(live[:half], nodes[:half]), (live[half:], nodes[half:])]
            return
        _descend(grid, live, nodes, self._below)
        known = self._below[nodes][:, grid.view_of]
        verdicts = domain.verdicts(known, live.pattern)
        decided = (verdicts != UNDECIDED).all(axis=1)
        if decided.any():
            self.done.append((live.number[decided], verdicts[decided]))
        left = np.flatnonzero(~decided)
        if len(left):
            live, nodes = live[left], nodes[left]
            kind = (self._below[nodes] < 0).argmax(axis=1)
            rows = np.arange(len(live))
            _, change, column = grid.look(kind, trees.test[nodes[rows, kind]], live.low, live.high, rows)
            self._stack.append((split(grid, self.parts, live, column, change), np.concatenate([nodes, nodes])))


class Search(Protocol):
    """Decides boxes step by step."""

    parts: Partition
    done: list[tuple[Ints, Verdicts]]

    @property
    def open(self) -> bool:
        """Whether boxes are undecided."""
        ...

    def step(self) -> None:
        """Decide or split some boxes."""
        ...

    def rest(self) -> list[tuple[Ints, Verdicts]]:
        """Return the boxes that are undecided, with what is known of them."""
        ...


def run(search: Search, limits: Limits) -> bool:
    """Search until every box is decided, or a limit is reached; return whether every box is decided."""
    complete = True
    try:
        while search.open:
            if limits.reached(search.parts.size):
                complete = False
                break
            with interrupts.held:
                search.step()
    except KeyboardInterrupt:
        interrupts.mark_handled()
        complete = False
    search.parts.finish(search.done + search.rest())
    return complete


def _descend(grid: Grid, live: Live, nodes: Ints, below: Ints) -> None:
    """Move every view down to a decision, or to a test that the box does not decide."""
    trees = grid.trees
    for kind in range(nodes.shape[1]):
        rows = np.flatnonzero(below[nodes[:, kind]] < 0)
        while len(rows):
            at = nodes[rows, kind]
            left, change, _ = grid.look(kind, trees.test[at], live.low, live.high, rows)
            clear = change == 0
            rows, at, left = rows[clear], at[clear], left[clear]
            at = np.where(left, trees.left[at], trees.right[at])
            nodes[rows, kind] = at
            rows = rows[below[at] < 0]


def levels(trees: Trees) -> list[Ints]:
    """List the nodes of all trees by depth."""
    out, nodes = [], trees.roots
    while len(nodes):
        out.append(nodes)
        inner = nodes[trees.test[nodes] >= 0]
        nodes = np.concatenate([trees.left[inner], trees.right[inner]])
    return out


def _one_decision(trees: Trees) -> Ints:
    """Return the decision of each node, -1 where leaves below it have several."""
    out = np.where(trees.test < 0, trees.value, -1).astype(np.int64)
    for nodes in reversed(levels(trees)):
        inner = nodes[trees.test[nodes] >= 0]
        left, right = out[trees.left[inner]], out[trees.right[inner]]
        out[inner] = np.where(left == right, left, -1)
    return out
