"""Forests and boosted trees: boxes, the largest first, with bounds from the leaves that they reach.

In a box, each tree reaches some of its leaves; the sum of their least and of their largest values bounds the score in
each view. Where all views are on one side of the threshold the box is fair, where two are on different sides unfair. It
is also fair where no view can reach another leaf than the others. All other boxes are split at a test that keeps the
bounds apart; a box in which every view has one leaf of each tree is small enough to ask the model about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.proofs.boxes import Grid, Live, Partition, Verdicts, levels, split
from evenhand.proofs.domain import FAIR, UNDECIDED, UNFAIR, Ints

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Ask: TypeAlias = Callable[[npt.NDArray[Any], int], Mask]
CELLS = 2**21
"""Nodes times boxes that are bounded together."""


class BestFirst:
    """Decides boxes of an ensemble, the largest first."""

    def __init__(self, grid: Grid, parts: Partition, ask: Ask) -> None:
        self.grid, self.parts, self._ask = grid, parts, ask
        self.done: list[tuple[Ints, Verdicts]] = []
        trees = grid.trees
        self._levels = [nodes[trees.test[nodes] >= 0] for nodes in levels(trees)]
        self._roots = trees.roots
        self.batch = max(16, min(1024, CELLS // max(1, len(trees.test))))
        varies = (grid.known != grid.known[:1]).any(axis=0)
        self._varies = np.append(varies, False)[trees.test]
        # Boxes that are not decided yet, with their volumes.
        self._live = [grid.begin(parts)]
        self._volumes = [self._volume(self._live[0])]

    @property
    def open(self) -> bool:
        """Whether boxes are undecided."""
        return any(len(live) for live in self._live)

    def rest(self) -> list[tuple[Ints, Verdicts]]:
        """Return the boxes that are undecided."""
        groups = len(self.grid.domain.groups)
        return [(live.number, np.full((len(live), groups), UNDECIDED, dtype=np.int8)) for live in self._live]

    def _volume(self, live: Live) -> Floats:
        low, high = self.grid.codes(live.low, live.high)
        return np.asarray(self.grid.domain.uniform.count(low, high), dtype=np.float64)

    def step(self) -> None:
        """Bound the largest boxes, and split those that are undecided."""
        live, volumes = Live.join(self._live), np.concatenate(self._volumes)
        count = min(self.batch, len(live))
        largest = np.argpartition(-volumes, count - 1)[:count]
        rest = np.ones(len(live), dtype=bool)
        rest[largest] = False
        chosen = live[largest]
        bounds = _Bounds(self.grid, chosen, self._levels, self._varies)
        verdicts = self._judge(chosen, bounds)
        # A group without valid individuals, or without any that are counted, needs no verdict.
        decided = (verdicts != UNDECIDED).all(axis=1) | (volumes[largest] == 0)
        clear = np.flatnonzero(~decided & bounds.single)
        if len(clear):
            verdicts[clear] = self._asked(chosen[clear], verdicts[clear])
            decided[clear] = True
        self.done.append((chosen.number[decided], verdicts[decided]))
        left = np.flatnonzero(~decided)
        self._live, self._volumes = [live[np.flatnonzero(rest)]], [volumes[rest]]
        if len(left):
            tables = bounds.best_tables(left)
            columns = self.grid.column[tables]
            change = self.grid.change[self.grid.offset_of[tables] + chosen.low[left, columns]]
            new = split(self.grid, self.parts, chosen[left], columns, change.astype(np.int64))
            self._live.append(new)
            self._volumes.append(self._volume(new))

    def _judge(self, live: Live, bounds: _Bounds) -> Verdicts:
        trees, grid = self.grid.trees, self.grid
        known = np.full(bounds.low.shape, -1, dtype=np.int64)
        known[bounds.low > trees.cut + trees.error] = 1
        known[bounds.high <= trees.cut - trees.error] = 0
        verdicts = grid.domain.verdicts(known.T[:, grid.view_of], live.pattern)
        fair = (verdicts == UNDECIDED) & bounds.same[:, None]
        verdicts[fair] = FAIR
        return verdicts

    def _asked(self, live: Live, verdicts: Verdicts) -> Verdicts:
        """Ask about one individual of each box whose individuals all reach the same leaves."""
        domain = self.grid.domain
        low, high = self.grid.codes(live.low, live.high)
        out = verdicts.copy()
        for box in range(len(live)):
            free = domain.first_valid(low[box], high[box])
            for group in np.flatnonzero(verdicts[box] == UNDECIDED).tolist():
                out[box, group] = UNFAIR if self._ask(free[None], group)[0] else FAIR
        return out


class _Bounds:
    """The least and the largest score of boxes in each kind of view, and where all views are the same."""

    def __init__(self, grid: Grid, live: Live, levels_: list[Ints], varies: Mask) -> None:
        self.grid, trees = grid, grid.trees
        rows, tables = np.arange(len(live)), len(grid.column)
        # Which way the boxes go at each table: ``first`` where only one way, ``mixed`` where both.
        first = np.empty((tables, len(live)), dtype=bool)
        mixed = np.zeros((tables, len(live)), dtype=bool)
        for table in range(tables):
            column = grid.column[table]
            at = grid.offset_of[table] + (0 if grid.constant[table] else live.low[:, column].astype(np.int64))
            at = np.broadcast_to(at, len(rows))
            first[table] = grid.left[at]
            if not grid.constant[table]:
                mixed[table] = grid.change[at] <= live.high[:, column]
        kinds = len(grid.known)
        self.low, self.high = np.empty((kinds, len(live))), np.empty((kinds, len(live)))
        reached = np.zeros((tables, len(live)))
        differs = np.zeros(len(live), dtype=bool)
        least, most = np.empty((len(trees.test), len(live))), np.empty((len(trees.test), len(live)))
        leaves = np.flatnonzero(trees.test < 0)
        for kind in range(kinds):
            least[leaves] = most[leaves] = trees.value[leaves, None]
            ways = []
            for nodes in levels_:
                table = grid.known[kind, trees.test[nodes]]
                ways.append((nodes, table, first[table] | mixed[table], ~first[table] | mixed[table]))
            for nodes, _, left, right in reversed(ways):
                a, b = trees.left[nodes], trees.right[nodes]
                least[nodes] = np.minimum(np.where(left, least[a], np.inf), np.where(right, least[b], np.inf))
                most[nodes] = np.maximum(np.where(left, most[a], -np.inf), np.where(right, most[b], -np.inf))
            self.low[kind] = trees.base + least[trees.roots].sum(axis=0)
            self.high[kind] = trees.base + most[trees.roots].sum(axis=0)
            here = np.zeros((len(trees.test), len(live)), dtype=bool)
            here[trees.roots] = True
            for nodes, table, left, right in ways:
                inside = here[nodes]
                here[trees.left[nodes]] = inside & left
                here[trees.right[nodes]] = inside & right
                np.add.at(reached, table, inside * (most[nodes] - least[nodes]))
                if kind and varies[nodes].any():
                    differs |= self._crossed(kind, nodes, inside, varies, first, mixed)
        self._weight = np.where(mixed, reached, 0.0)
        self.same = ~differs
        self.single = ~(mixed & (reached > 0)).any(axis=0)

    def _crossed(self, kind: int, nodes: Ints, inside: Mask, varies: Mask, first: Mask, mixed: Mask) -> Mask:
        """Where this view and the first one take different ways at a test that can be reached."""
        grid, test = self.grid, self.grid.trees.test
        some = np.flatnonzero(varies[nodes])
        mine, other = grid.known[kind, test[nodes[some]]], grid.known[0, test[nodes[some]]]
        differ = (mine != other)[:, None] & (mixed[mine] | mixed[other] | (first[mine] != first[other]))
        return np.asarray((inside[some] & differ).any(axis=0))

    def best_tables(self, boxes: Ints) -> Ints:
        """Return, for each of some boxes, the table at which the bounds of the nodes that it reaches are widest."""
        return np.asarray(self._weight[:, boxes].argmax(axis=0))
