"""The largest gap between the scores of two members of a family, by difference trees.

Scored in two views, a tree differs only where it tests protected or linked attributes. The difference of its two scores
is a tree again, and zero nearly everywhere. Boxes are bounded by these trees alone, the one with the largest bound
first, until no bound exceeds the largest gap that was found.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from evenhand._format import number
from evenhand.proofs.boxes import Limits
from evenhand.proofs.domain import Domain, Ints
from evenhand.proofs.ensembles import Ensemble
from evenhand.proofs.features import unreadable
from evenhand.proofs.leaves import Floats, Group, Leaves, merge, trees_of

BATCH = 256
STARTS = 128
"""Random points whose gap is raised one attribute after the other, before boxes are bounded."""
PAIRS = 5_000
"""Maximum number of pairs of views that differ to the model."""


@dataclass(frozen=True, eq=False)
class LargestGap:
    """How far the scores of an individual and a counterpart can be apart.

    ``low`` is the gap of ``pair``, a frame in the columns of findings; ``high`` is proved for all valid individuals.
    Gradient boosting is scored in log-odds, forests in probabilities, linear models by their decision function.
    """

    low: float
    high: float
    unit: str
    pair: pd.DataFrame | None = field(repr=False)
    seconds: float = field(repr=False)

    @property
    def exact(self) -> bool:
        """Whether the gap is known, up to rounding errors."""
        return self.high - self.low <= 1e-6 * max(1.0, self.high)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        pair = None if self.pair is None else self.pair.iloc[0].to_dict()
        return {"low": self.low, "high": self.high, "unit": self.unit, "seconds": self.seconds, "pair": pair}

    def __repr__(self) -> str:
        if self.exact:
            return f"LargestGap: {number(self.high)} ({self.unit})"
        return f"LargestGap: between {number(self.low)} and {number(self.high)} ({self.unit})"


@dataclass
class Found:
    """The largest gap so far, and what it can be at most."""

    low: float = 0.0
    high: float = 0.0
    free: Any = None
    """Codes of the free attributes of an individual with this gap."""
    views: tuple[int, int] = (0, 0)


def largest_gap(ensemble: Ensemble, limits: Limits) -> Found:
    """Find the largest gap of scores, and prove that there is no larger one."""
    domain, found = ensemble.grid.domain, Found()
    if ensemble.trees.labels:
        raise unreadable("a decision tree is read as decisions, not as scores")
    for (first, second), roots in _pairs(ensemble).items():
        groups = differences(ensemble, first, second)
        if groups:
            _Climb(ensemble, Leaves(groups, ensemble.grid.sizes), domain, roots, found, limits).run()
    found.high = max(found.high, found.low)
    return found


def _pairs(ensemble: Ensemble) -> dict[tuple[int, int], dict[int, tuple[int, int]]]:
    """Return pairs of views that are compared and differ, by kind, and in which parts of the space."""
    domain, kind = ensemble.grid.domain, ensemble.grid.view_of
    out: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
    for number_, root in enumerate(domain.roots):
        for family in set(domain.patterns[root.pattern].families):
            for a, b in itertools.combinations(family, 2):
                ends = sorted([(int(kind[a]), a), (int(kind[b]), b)])
                if ends[0][0] != ends[1][0]:
                    pair = ends[0][0], ends[1][0]
                    out.setdefault(pair, {}).setdefault(number_, (ends[0][1], ends[1][1]))
        if len(out) > PAIRS:
            raise unreadable(f"its protected attributes have more than {PAIRS:,} pairs of values that it distinguishes")
    return out


def differences(ensemble: Ensemble, first: int, second: int) -> list[Group]:
    """Return the trees of one kind of view minus those of another, where they differ."""
    grid = ensemble.grid
    edges = np.concatenate([[0], np.cumsum(grid.sizes)])
    out = []
    for tree in trees_of(grid, edges):
        if (tree.present[first] == tree.present[second]).all():
            continue
        a, b = (np.flatnonzero(tree.present[kind]) for kind in (first, second))
        both = tree.cells[a][:, None, :] & tree.cells[b][None, :, :]
        i, j = np.nonzero(np.logical_or.reduceat(both, edges[:-1], axis=2).all(axis=2))
        values = tree.values[b[j]] - tree.values[a[i]]
        if values.any():
            nodes = np.concatenate([tree.nodes[a[i]], tree.nodes[b[j]]], axis=1)
            out.append(Group(both[i, j], values, nodes, np.ones((1, len(i)), dtype=bool)))
    return merge(out, edges)


class _Climb:
    """Raises what was found, and lowers what is possible, for one pair of kinds of views."""

    def __init__(
        self,
        ensemble: Ensemble,
        leaves: Leaves,
        domain: Domain,
        roots: dict[int, tuple[int, int]],
        found: Found,
        limits: Limits,
    ) -> None:
        self.grid, self.leaves, self.domain, self.roots = ensemble.grid, leaves, domain, roots
        self.found, self.limits = found, limits
        starts = self.grid.starts
        ends = [
            [(np.searchsorted(s, low), np.searchsorted(s, high + 1) - 1)
             for s, low, high in zip(starts, domain.roots[r].low, domain.roots[r].high, strict=True)]
            for r in roots
        ]  # fmt: skip
        boxes = np.array(ends, dtype=np.int64)
        self.low, self.high, self.root = boxes[:, :, 0], boxes[:, :, 1], np.array(list(roots), dtype=np.int64)

    def run(self) -> None:
        """Split the boxes with the largest bounds."""
        if not self.domain.tied:
            self._ascend()
        low, high, root = self._counted(self.low, self.high, self.root)
        first, last, most = self._bound(low, high)
        while len(low):
            keep = most > self.found.low
            if not keep.all():
                low, high, root, most = low[keep], high[keep], root[keep], most[keep]
                first, last = first[keep], last[keep]
                continue
            if self.limits.reached(0):
                self.found.high = max(self.found.high, float(most.max()))
                return
            count = min(BATCH, len(low))
            top = np.argpartition(-most, count - 1)[:count]
            rest = np.ones(len(low), dtype=bool)
            rest[top] = False
            self._try(low[top[:16]], high[top[:16]], root[top[:16]])
            open_ = top[(first[top] != last[top]).any(axis=1)]
            single = np.setdiff1d(top, open_)
            for at in range(0, len(single), 16):
                self._try(low[single[at : at + 16]], high[single[at : at + 16]], root[single[at : at + 16]])
            place, cell = self.leaves.cuts(first[open_], last[open_], low[open_], high[open_], self.grid.starts)
            rows = np.arange(len(open_))
            upper, lower = low[open_].copy(), high[open_].copy()
            lower[rows, place], upper[rows, place] = cell - 1, cell
            new = self._counted(
                np.concatenate([low[open_], upper]),
                np.concatenate([lower, high[open_]]),
                np.concatenate([root[open_], root[open_]]),
            )
            ends = self._bound(new[0], new[1])
            low, high, root = (np.concatenate([a[rest], b]) for a, b in zip((low, high, root), new, strict=True))
            first, last, most = (np.concatenate([a[rest], b]) for a, b in zip((first, last, most), ends, strict=True))

    def _counted(self, low: Ints, high: Ints, root: Ints) -> tuple[Ints, Ints, Ints]:
        """Keep the boxes with valid individuals."""
        some = np.flatnonzero(self.domain.uniform.count(*self.grid.codes(low, high)) > 0)
        return low[some], high[some], root[some]

    def _bound(self, low: Ints, high: Ints) -> tuple[Ints, Ints, Floats]:
        first, last = self.leaves.ends(self.leaves.reach(low, high))
        values = self.leaves.values
        return first, last, np.maximum(values[last].sum(axis=1), -values[first].sum(axis=1))

    def _gap(self, cells: Ints) -> Floats:
        first, _ = self.leaves.ends(self.leaves.reach(cells, cells))
        return np.asarray(np.abs(self.leaves.values[first].sum(axis=1)))

    def _keep(self, codes: Ints, root: int, gap: float) -> None:
        if gap > self.found.low:
            self.found.low, self.found.free, self.found.views = gap, codes, self.roots[root]

    def _try(self, low: Ints, high: Ints, root: Ints) -> None:
        """Look at one individual of each box."""
        if not len(low):
            return
        codes = self.grid.codes(low, high)
        free = np.array([self.domain.first_valid(*ends) for ends in zip(*codes, strict=True)])
        cells = self._cells(free)
        gaps = self._gap(cells)
        best = int(gaps.argmax())
        self._keep(free[best], int(root[best]), float(gaps[best]))

    def _cells(self, free: Ints) -> Ints:
        columns = [np.searchsorted(s, free[:, i], "right") - 1 for i, s in enumerate(self.grid.starts)]
        return np.stack(columns, axis=1)

    def _ascend(self) -> None:
        """Raise the gaps of random points by one attribute after the other."""
        rng = np.random.default_rng(0)
        for low, high, root in zip(self.low[:8], self.high[:8], self.root[:8].tolist(), strict=True):
            points = rng.integers(low, high + 1, size=(STARTS, len(low)))
            gaps, before = self._gap(points), -1.0
            while gaps.sum() > before:
                before = float(gaps.sum())
                for i in self.leaves.places:
                    choices = np.arange(low[i], high[i] + 1)
                    tried = np.repeat(points, len(choices), axis=0)
                    tried[:, i] = np.tile(choices, len(points))
                    each = self._gap(tried).reshape(len(points), -1)
                    best = each.argmax(axis=1)
                    better = np.flatnonzero(each[np.arange(len(points)), best] > gaps)
                    points[better, i] = choices[best[better]]
                    gaps[better] = each[better, best[better]]
            best_one = int(gaps.argmax())
            codes = np.array([s[c] for s, c in zip(self.grid.starts, points[best_one], strict=True)])
            self._keep(codes, root, float(gaps[best_one]))
