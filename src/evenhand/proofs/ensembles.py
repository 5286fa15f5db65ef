"""Forests and boosted trees: boxes, the largest first, with bounds from the leaves that they reach.

In a box, each tree reaches some of its leaves; the sum of their least and of their largest values bounds the score in
each view. Where all views are on one side of the threshold the box is fair, where two are on different sides unfair.
It is also fair where it reaches only leaves that are the same in all views. All other boxes are split where most trees
lose the leaf with their least or largest value; a box in which every view has one leaf of each tree is asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.proofs.boxes import Boxes, Grid, Live, Partition, Verdicts, split
from evenhand.proofs.domain import FAIR, UNDECIDED, UNFAIR, Ints, Mask
from evenhand.proofs.leaves import Floats, Leaves, Words, merge, trees_of

Ask: TypeAlias = Callable[[npt.NDArray[Any], int], Mask]
WORDS = 2**15
"""Words of leaves that are looked at together: a few caches full."""


class Ensemble:
    """Trees on a grid of cells, which bound and divide boxes."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.trees = grid, grid.trees
        edges = np.concatenate([[0], np.cumsum(grid.sizes)])
        groups = merge(trees_of(grid, edges), edges)
        self.groups = [(np.searchsorted(grid.trees.roots, one.nodes[0], "right") - 1).tolist() for one in groups]
        """The numbers of the trees that are merged."""
        self.leaves = Leaves(groups, grid.sizes)
        self.batch = max(16, min(2048, WORDS // self.leaves.words))

    def bound(self, low: Boxes, high: Boxes) -> Bounds:
        """Bound the scores of boxes."""
        return Bounds(self, low, high)

    def verdicts(self, bounds: Bounds, pattern: Ints) -> Verdicts:
        """Judge boxes: one verdict for each group of own protected values."""
        trees, domain = self.trees, self.grid.domain
        known = np.full(bounds.low.shape, -1, dtype=np.int64)
        if trees.labels:
            one = bounds.low == bounds.high
            known[one] = bounds.low[one].astype(np.int64)
        else:
            known[bounds.low > trees.cut + trees.error] = 1
            known[bounds.high <= trees.cut - trees.error] = 0
        verdicts = domain.verdicts(known.T[:, self.grid.view_of], pattern)
        verdicts[(verdicts == UNDECIDED) & bounds.same[:, None]] = FAIR
        return verdicts

    def cuts(self, bounds: Bounds, low: Boxes, high: Boxes) -> tuple[Ints, Ints]:
        """Return, for each box, an attribute and the first cell of its upper part."""
        # The view whose bounds are furthest apart decides.
        kind, rows = (bounds.high - bounds.low).argmax(axis=0), np.arange(len(low))
        return self.leaves.cuts(bounds.first[kind, rows], bounds.last[kind, rows], low, high, self.grid.starts)


class Bounds:
    """The least and the largest score of boxes in each kind of view, and the leaves that give them."""

    def __init__(self, ensemble: Ensemble, low: Boxes, high: Boxes) -> None:
        leaves, base = ensemble.leaves, ensemble.trees.base
        reached: Words = leaves.reach(low, high)
        ends = [leaves.ends(reached & present) for present in leaves.present]
        self.first, self.last = (np.stack(side) for side in zip(*ends, strict=True))
        self.low: Floats = leaves.values[self.first].sum(axis=2) + base
        self.high: Floats = leaves.values[self.last].sum(axis=2) + base
        self.same: Mask = ((reached & ~leaves.common) == 0).all(axis=1)
        """Whether all views have the same leaves."""

    @cached_property
    def single(self) -> Mask:
        """Whether each view has one leaf of each tree."""
        return np.asarray((self.first == self.last).all(axis=(0, 2)))

    def __getitem__(self, which: Ints) -> Bounds:
        out = object.__new__(Bounds)
        for name in ("first", "last", "low", "high"):
            setattr(out, name, getattr(self, name)[:, which])
        out.same = self.same[which]
        return out


class Queue:
    """Boxes by volume, in buckets of a factor of two, so that taking the largest is cheap."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[tuple[Live, Floats]]] = {}

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def put(self, live: Live, volumes: Floats) -> None:
        """Add boxes."""
        sizes = np.frexp(volumes)[1]
        for size in np.unique(sizes).tolist():
            which = np.flatnonzero(sizes == size)
            self._buckets.setdefault(size, []).append((live[which], volumes[which]))

    def take(self, most: int) -> tuple[Live, Floats]:
        """Remove and return some of the largest boxes."""
        size = max(self._buckets)
        parts = self._buckets.pop(size)
        live = Live.join([one for one, _ in parts])
        volumes = np.concatenate([one for _, one in parts])
        if len(live) > most:
            rest = np.arange(most, len(live))
            self._buckets[size] = [(live[rest], volumes[rest])]
            live, volumes = live[np.arange(most)], volumes[:most]
        return live, volumes

    def everything(self) -> list[Live]:
        """List all boxes."""
        return [live for parts in self._buckets.values() for live, _ in parts]


class BestFirst:
    """Decides boxes of an ensemble, the largest first."""

    def __init__(self, ensemble: Ensemble, parts: Partition, ask: Ask) -> None:
        self.ensemble, self.grid, self.parts, self._ask = ensemble, ensemble.grid, parts, ask
        self.done: list[tuple[Ints, Verdicts]] = []
        self.asked: list[Ints] = []
        """Boxes whose verdict is an answer of the model."""
        self._queue = Queue()
        self._put(self.grid.begin(parts))

    @property
    def open(self) -> bool:
        """Whether boxes are undecided."""
        return bool(self._queue)

    def rest(self) -> list[tuple[Ints, Verdicts]]:
        """Return the boxes that are undecided."""
        groups = len(self.grid.domain.groups)
        return [
            (live.number, np.full((len(live), groups), UNDECIDED, dtype=np.int8)) for live in self._queue.everything()
        ]

    def _put(self, live: Live) -> None:
        low, high = self.grid.codes(live.low, live.high)
        self._queue.put(live, np.asarray(self.grid.domain.uniform.count(low, high), dtype=np.float64))

    def step(self) -> None:
        """Bound the largest boxes, and split those that are undecided."""
        live, volumes = self._queue.take(self.ensemble.batch)
        bounds = self.ensemble.bound(live.low, live.high)
        verdicts = self.ensemble.verdicts(bounds, live.pattern)
        # A group without valid individuals, or without any that are counted, needs no verdict.
        decided = (verdicts != UNDECIDED).all(axis=1) | (volumes == 0)
        clear = np.flatnonzero(~decided & bounds.single)
        if len(clear):
            verdicts[clear] = self._answers(live[clear], verdicts[clear])
            self.asked.append(live.number[clear])
            decided[clear] = True
        self.done.append((live.number[decided], verdicts[decided]))
        left = np.flatnonzero(~decided)
        if len(left):
            chosen = live[left]
            self._put(split(self.grid, self.parts, chosen, *self.ensemble.cuts(bounds[left], chosen.low, chosen.high)))

    def _answers(self, live: Live, verdicts: Verdicts) -> Verdicts:
        """Ask about one individual of each box whose individuals all reach the same leaves."""
        domain = self.grid.domain
        free = np.array([domain.first_valid(*ends) for ends in zip(*self.grid.codes(live.low, live.high), strict=True)])
        out = verdicts.copy()
        for group in range(len(domain.groups)):
            rows = np.flatnonzero(verdicts[:, group] == UNDECIDED)
            if len(rows):
                out[rows, group] = np.where(self._ask(free[rows], group), UNFAIR, FAIR)
        return out
