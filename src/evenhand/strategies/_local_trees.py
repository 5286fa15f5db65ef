"""Why a model decides as it does about an individual: the path of a decision tree fitted to its decisions nearby.

In symbolic generation these paths take the place of symbolic execution. The neighbourhoods are drawn and weighted as in
LIME.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space
from evenhand.spaces.ties import ties

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

SPREAD = 0.25
"""Standard deviation of the draws around an ordered value, as a share of the attribute's range."""
KERNEL = 0.75
"""Width of the distance kernel, times the square root of the number of attributes."""
MANY = 1024
"""Attributes with more values are binned by the ranks of those that occur."""
TINY = 1e-12
"""A side with a smaller share of the weight is empty."""
TIE = 1e-12
"""Scores that differ by a smaller share are equal."""
UP, DOWN, IS, IS_NOT = range(4)
"""Kinds of predicates: above a code, at most a code, equal to one, different from one."""


@dataclass(frozen=True)
class Neighbourhood:
    """Draws individuals around others, attribute by attribute, and weights them by their distance."""

    space: Space
    size: int

    def sample(self, rows: Rows, stream: Stream, pops: Numbers) -> tuple[Rows, Floats]:
        """Return (rows, size, attributes) valid neighbours and their (rows, size) weights; the first is the individual.

        A neighbour that breaks a constraint gets a random valid combination of the attributes that it ties together;
        where there are too many to list, the individual's own.
        """
        around = self.draw(rows, stream, pops)
        flat = around.reshape(-1, around.shape[2])
        for tie in ties(self.space):
            columns = np.array(tie.columns)
            broken = np.flatnonzero(~tie.valid(flat[:, columns]))
            walker = pops[broken // self.size] * self.size + broken % self.size
            if tie.table is None:
                repaired = rows[broken // self.size][:, columns]
            else:
                repaired = tie.table[stream.below(len(tie.table), f"tied{int(columns[0])}", walker, 0)]
            flat[broken[:, None], columns] = repaired
        return around, self.weights(rows, around)

    def weights(self, rows: Rows, around: Rows) -> Floats:
        """Weight neighbours by an exponential kernel of their distance; a nominal change counts as one spread."""
        total = np.zeros(around.shape[:2])
        for j in range(len(self.space.names)):
            change = around[:, :, j] - rows[:, j, None]
            if self.space.ordered[j]:
                total += np.square(change / (SPREAD * max(1, int(self.space.present[j]) - 1)))
            else:
                total += change != 0
        weights: Floats = np.exp(-total / (KERNEL * np.sqrt(len(self.space.names))) ** 2)
        return weights

    def draw(self, rows: Rows, stream: Stream, pops: Numbers) -> Rows:
        """Return neighbours that may break constraints; draws depend on the number of the pop alone."""
        space = self.space
        out = np.repeat(rows[:, None, :], self.size, axis=1)
        walker = (pops[:, None] * self.size + np.arange(self.size)).ravel()
        bits = np.zeros(walker.size, dtype=np.uint64)
        for j in range(len(space.names)):
            if j % 4 == 0:
                # One draw of 64 bits serves four attributes.
                bits = stream.bits("near", walker, j // 4)
            part = ((bits >> np.uint64(16 * (j % 4))) & np.uint64(0xFFFF)).astype(np.int64).reshape(out.shape[:2])
            own = rows[:, j, None]
            if space.ordered[j]:
                present = int(space.present[j])
                moved = np.minimum(np.maximum(own + self._offsets[j][part], 0), present - 1)
                out[:, :, j] = np.where(own < present, moved, own)
            elif space.sizes[j] > 1:
                step = 1 + stream.below(int(space.sizes[j]) - 1, f"other{j}", walker, 0).reshape(part.shape)
                out[:, :, j] = np.where(part & 1, (own + step) % int(space.sizes[j]), own)
        out[:, 0] = rows
        return out

    @cached_property
    def _offsets(self) -> dict[int, Numbers]:
        """Rounded normal draws for each ordered attribute, as a table over 16 random bits."""
        from scipy.special import ndtri

        normal = SPREAD * ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
        return {
            j: np.rint(max(1, int(self.space.present[j]) - 1) * normal).astype(np.int64)
            for j in np.flatnonzero(self.space.ordered).tolist()
        }


def paths(space: Space, rows: Rows, around: Rows, labels: Numbers, weights: Floats, depth: int) -> Floats:
    """Grow a decision tree on each neighbourhood, along the individual's path alone; return its predicates, top first.

    The splits are those of CART with Gini impurity, so the path is the one of the whole tree, but nothing beside the
    path is grown, and all neighbourhoods grow together on histograms of their codes. Ordered attributes split at a
    code, nominal ones at one value against the others. Of equally good splits the first attribute's and lowest code's
    is taken.

    Returns
    -------
    array
        (rows, depth, 4): attribute (-1: the path has ended), kind, code, and confidence, the share of the
        neighbourhood's weight at the predicate's node that has the majority label there.
    """
    out = np.full((len(rows), depth, 4), -1.0)
    classes = int(labels.max()) + 1 if labels.size else 1
    columns = [_Column(space, j, around[:, :, j]) for j in range(len(space.names))]
    inside = np.ones(labels.shape, dtype=bool)
    growing = np.arange(len(rows))
    for level in range(depth):
        here, there = labels[growing], inside[growing]
        lowest = np.where(there, here, np.iinfo(np.int64).max).min(axis=1)
        growing = growing[lowest < np.where(there, here, -1).max(axis=1)]
        if not len(growing):
            break
        which, sample = np.nonzero(inside[growing])
        place = growing[which] * labels.shape[1] + sample
        label, weight = labels.ravel()[place], weights.ravel()[place]
        sums = np.bincount(which * classes + label, weight, len(growing) * classes)
        total: Floats = sums.reshape(-1, classes).astype(np.float64, copy=False)
        splits = [column.best_splits(which, place, label, weight, total) for column in columns]
        scores = np.stack([score for score, _ in splits], axis=1)
        best = _first_highest(scores)
        for i in np.flatnonzero(np.isfinite(scores).any(axis=1)).tolist():
            pop, j = int(growing[i]), int(best[i])
            kind, code, side = columns[j].predicate(pop, rows[pop, j], int(splits[j][1][i]), inside[pop])
            out[pop, level] = j, kind, code, total[i].max() / total[i].sum()
            inside[pop] &= side
        growing = growing[out[growing, level, 0] >= 0]
    return out


class _Column:
    """One attribute of all neighbourhoods, in bins: its codes, or of very many the ranks of those around each one."""

    def __init__(self, space: Space, j: int, codes: Rows) -> None:
        self.ordered, self.size = bool(space.ordered[j]), int(space.sizes[j])
        self.codes = np.ascontiguousarray(codes)
        self.bins: npt.NDArray[Any] = self.codes.ravel()
        self.values: Rows | None = None
        if self.size > MANY:
            ranks, self.values = _ranked(self.codes)
            self.size, self.bins = self.values.shape[1], ranks.ravel()

    def best_splits(
        self, which: Numbers, place: Numbers, label: Numbers, weight: Floats, total: Floats
    ) -> tuple[Floats, Numbers]:
        """Return the score and the bin of each neighbourhood's best split; minus infinity where there is none.

        ``which`` is the neighbourhood of each neighbour, ``place`` its position among all neighbours.
        """
        count, classes = total.shape
        # Classes first: sums over a short last axis are slow.
        cell = (label * count + which) * self.size + self.bins[place]
        left = np.bincount(cell, weight, classes * count * self.size).reshape(classes, count, self.size)
        if self.ordered:
            np.cumsum(left, axis=2, out=left)
        right = total.T[:, :, None] - left
        here, there = left.sum(axis=0), right.sum(axis=0)
        least = TINY * total.sum(axis=1)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.square(left).sum(axis=0) / here + np.square(right).sum(axis=0) / there
        score[(here <= least) | (there <= least)] = -np.inf
        return score.max(axis=1), _first_highest(score)

    def predicate(self, pop: int, own: int, bin_: int, inside: Mask) -> tuple[int, int, Mask]:
        """Return the side of a split that the individual is on: kind, code, and the neighbours on that side."""
        codes, code = self.codes[pop], bin_ if self.values is None else int(self.values[pop, bin_])
        if not self.ordered:
            return (IS, code, codes == code) if own == code else (IS_NOT, code, codes != code)
        # Half-way to the next code that occurs, as trees do.
        code = (code + int(codes[inside & (codes > code)].min())) // 2
        return (DOWN, code, codes <= code) if own <= code else (UP, code, codes > code)


def _first_highest(scores: Floats) -> Numbers:
    """Return the position of the first score in each row that is the highest but for a rounding error."""
    highest = scores.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.asarray((scores >= highest - TIE * np.abs(highest)).argmax(axis=1))


def _ranked(codes: Rows) -> tuple[Numbers, Rows]:
    """Return the rank of each code among the different ones of its row, and the code of each rank.

    >>> ranks, values = _ranked(np.array([[7, 3, 7], [5, 4, 6]], dtype=np.int32))
    >>> ranks.tolist(), values.tolist()
    ([[1, 0, 1], [1, 0, 2]], [[3, 7, 0], [4, 5, 6]])
    """
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, axis=1)
    rank = np.zeros(codes.shape, dtype=np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=rank[:, 1:])
    values = np.zeros((len(codes), int(rank.max(initial=0)) + 1), dtype=codes.dtype)
    np.put_along_axis(values, rank, ordered, axis=1)
    ranks = np.empty_like(rank)
    np.put_along_axis(ranks, order, rank, axis=1)
    return ranks, values
