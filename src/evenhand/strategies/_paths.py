"""Local explanations: what a small tree, fitted to the model's answers around an individual, says of it."""

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
    """Draws individuals around others, attribute by attribute, and weighs them by their distance."""

    space: Space
    size: int

    @cached_property
    def _offsets(self) -> dict[int, npt.NDArray[np.int64]]:
        """Rounded normal draws for each ordered attribute, as a table over 16 random bits."""
        from scipy.special import ndtri

        normal = ndtri((np.arange(1 << 16) + 0.5) / (1 << 16))
        return {
            j: np.rint(SPREAD * max(1, int(self.space.present[j]) - 1) * normal).astype(np.int64)
            for j in range(len(self.space.names))
            if self.space.ordered[j]
        }

    def around(self, rows: Rows, stream: Stream, pops: npt.NDArray[np.int64]) -> Rows:
        """Return (rows, size, attributes) neighbours; the first of each is the individual itself."""
        space, size = self.space, self.size
        out = np.repeat(rows[:, None, :], size, axis=1)
        walker = pops[:, None] * size + np.arange(size)
        bits = np.zeros(walker.size, dtype=np.uint64)
        for j in range(len(space.names)):
            if j % 4 == 0:
                # One draw of 64 bits serves four attributes.
                bits = stream.bits("near", walker.ravel(), j // 4)
            part = ((bits >> np.uint64(16 * (j % 4))) & np.uint64(0xFFFF)).astype(np.int64).reshape(walker.shape)
            own = rows[:, j, None]
            if space.ordered[j]:
                present = int(space.present[j])
                moved = np.minimum(np.maximum(own + self._offsets[j][part], 0), present - 1)
                out[:, :, j] = np.where(own < present, moved, own)
            elif space.sizes[j] > 1:
                bound = stream.below(int(space.sizes[j]) - 1, f"other{j}", walker.ravel(), 0).reshape(walker.shape)
                other = (own + 1 + bound) % int(space.sizes[j])
                out[:, :, j] = np.where(part & 1, other, own)
        out[:, 0] = rows
        return out

    def sample(self, rows: Rows, stream: Stream, pops: npt.NDArray[np.int64]) -> tuple[Rows, npt.NDArray[np.float64]]:
        """Return legal neighbours and their weights.

        Who breaks a constraint is given a drawn legal combination of the attributes that it ties together; where there
        are too many to list, the individual's own.
        """
        around = self.around(rows, stream, pops)
        flat = around.reshape(-1, around.shape[2])
        for tie in ties(self.space):
            columns = np.array(tie.columns)
            broken = np.flatnonzero(~tie.legal(flat[:, columns]))
            walker, column = pops[broken // self.size] * self.size + broken % self.size, int(columns[0])
            if tie.table is None:
                mended = rows[broken // self.size][:, columns]
            else:
                mended = tie.table[stream.below(len(tie.table), f"tied{column}", walker, 0)]
            flat[broken[:, None], columns] = mended
        return around, self.weights(rows, around)

    def weights(self, rows: Rows, around: Rows) -> npt.NDArray[np.float64]:
        """Weigh neighbours by an exponential kernel of their distance; a nominal change counts as one spread."""
        space = self.space
        total = np.zeros(around.shape[:2])
        for j in range(len(space.names)):
            change = around[:, :, j] - rows[:, j, None]
            if space.ordered[j]:
                scale = SPREAD * max(1, int(space.present[j]) - 1)
                total += np.square(change / scale)
            else:
                total += change != 0
        width = KERNEL * np.sqrt(len(space.names))
        weights: npt.NDArray[np.float64] = np.exp(-total / width**2)
        return weights


def paths(
    space: Space, rows: Rows, around: Rows, labels: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], depth: int
) -> npt.NDArray[np.float64]:
    """Grow a decision tree on each neighbourhood, along the individual's path alone; return its predicates, top first.

    The splits are those of CART with Gini impurity, so the path is the one of the whole tree, but what lies beside the
    path is never grown, and all neighbourhoods grow together on histograms of their codes. Ordered attributes split at
    a code, nominal ones at one value against the others. Of equally good splits the first attribute's and lowest code's
    is taken.

    Returns
    -------
    array
        (rows, depth, 4): attribute (-1: there is no more), kind, code, and confidence, the share of the neighbourhood's
        weight at the predicate's node that has the majority label there.
    """
    out = np.full((len(rows), depth, 4), -1.0)
    classes = int(labels.max()) + 1 if labels.size else 1
    columns = [_Column(space, j, around[:, :, j]) for j in range(len(space.names))]
    inside = np.ones(labels.shape, dtype=bool)
    growing = np.arange(len(rows))
    for level in range(depth):
        growing = _impure(inside, labels, growing)
        if not len(growing):
            break
        which, sample = np.nonzero(inside[growing])
        place = growing[which] * labels.shape[1] + sample
        label, weight = labels.ravel()[place], weights.ravel()[place]
        total: npt.NDArray[np.float64] = np.asarray(
            np.bincount(which * classes + label, weight, len(growing) * classes), dtype=np.float64
        ).reshape(-1, classes)
        best = _Best(len(growing))
        for j, column in enumerate(columns):
            best.consider(j, *column.splits(which, place, label, weight, total))
        found = np.flatnonzero(best.attribute >= 0)
        growing, total = growing[found], total[found]
        for i, pop in enumerate(growing.tolist()):
            j, bin_ = int(best.attribute[found[i]]), int(best.bin[found[i]])
            kind, code, side = columns[j].predicate(pop, rows[pop, j], bin_, inside[pop])
            out[pop, level] = j, kind, code, total[i].max() / total[i].sum()
            inside[pop] &= side
    return out


def _impure(
    inside: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64], growing: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Keep those that still have two labels among what is inside."""
    low = np.where(inside[growing], labels[growing], np.iinfo(np.int64).max).min(axis=1)
    high = np.where(inside[growing], labels[growing], -1).max(axis=1)
    impure: npt.NDArray[np.int64] = growing[low < high]
    return impure


class _Best:
    """The best split so far of each neighbourhood."""

    def __init__(self, count: int) -> None:
        self.score = np.full(count, -np.inf)
        self.attribute = np.full(count, -1)
        self.bin = np.full(count, -1)

    def consider(self, attribute: int, score: npt.NDArray[np.float64], bin_: npt.NDArray[np.int64]) -> None:
        """Take a split where it is better; a rounding error is not better."""
        better = score > self.score + TIE * np.abs(np.where(np.isfinite(self.score), self.score, 0))
        self.score[better], self.attribute[better], self.bin[better] = score[better], attribute, bin_[better]


class _Column:
    """One attribute of all neighbourhoods, in bins: its codes, or of very many the ranks of those around each one."""

    def __init__(self, space: Space, j: int, codes: npt.NDArray[np.int32]) -> None:
        self.ordered, self.codes = bool(space.ordered[j]), np.ascontiguousarray(codes)
        self.size = int(space.sizes[j])
        self.bins: npt.NDArray[Any] = self.codes.ravel()
        self.values: npt.NDArray[Any] | None = None
        if self.size > MANY:
            ranks, self.values = _ranked(self.codes)
            self.size, self.bins = self.values.shape[1], ranks.ravel()

    def splits(
        self,
        which: npt.NDArray[np.int64],
        place: npt.NDArray[np.int64],
        label: npt.NDArray[np.int64],
        weight: npt.NDArray[np.float64],
        total: npt.NDArray[np.float64],
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return the score and the bin of each neighbourhood's best split; minus infinity where there is none.

        ``which`` and ``place`` say of each neighbour whose it is, and where it stands among all.
        """
        count, classes = total.shape
        size = self.size
        # Classes first: sums over a short last axis are slow.
        cell = (label * count + which) * size + self.bins[place]
        left = np.bincount(cell, weight, classes * count * size).reshape(classes, count, size)
        if self.ordered:
            np.cumsum(left, axis=2, out=left)
        right = total.T[:, :, None] - left
        here, there = left.sum(axis=0), right.sum(axis=0)
        whole = total.sum(axis=1)[:, None]
        empty = (here <= TINY * whole) | (there <= TINY * whole)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.square(left).sum(axis=0) / here + np.square(right).sum(axis=0) / there
        score[empty] = -np.inf
        # The first of those that only a rounding error tells apart.
        highest = score.max(axis=1)
        with np.errstate(invalid="ignore"):
            best = (score >= (highest - TIE * np.abs(highest))[:, None]).argmax(axis=1)
        return highest, best

    def predicate(
        self, pop: int, own: int, bin_: int, inside: npt.NDArray[np.bool_]
    ) -> tuple[int, int, npt.NDArray[np.bool_]]:
        """Say on which side of a split the individual is: kind, code, and who else is there."""
        code = bin_ if self.values is None else int(self.values[pop, bin_])
        if not self.ordered:
            same = self.codes[pop] == code
            return (IS, code, same) if own == code else (IS_NOT, code, ~same)
        # Half-way to the next code that occurs, as trees do.
        above = int(self.codes[pop][inside & (self.codes[pop] > code)].min())
        code = (code + above) // 2
        below = self.codes[pop] <= code
        return (DOWN, code, below) if own <= code else (UP, code, ~below)


def _ranked(codes: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
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
