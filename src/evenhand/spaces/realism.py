"""Distances between individuals, and realism: closeness to the data, without odd pairs of values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.spaces.individuals import Individuals, Rows

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

    from evenhand.spaces.tabular import Space

Numbers = npt.NDArray[np.float64]
BLOCK = 2**22
"""Number of pairs of individuals that are compared at once."""
PEOPLE, HELD_OUT = 4_000, 1_000
"""Maximum number of rows to measure distances to, and of held-out rows whose distances are the reference."""
BINS = 10
"""Bins of an ordered attribute, for pairs of values."""
EXPECTED = 5.0
"""Minimum expected count of a pair of values for its absence to be odd."""
FAR = 0.05
"""An individual of a lower nearness is not realistic."""
WIDEST = 512
"""Maximum number of coordinates of points in a tree; with more, comparing everything is faster."""
ROUGHLY = 6.0
"""Relative tolerance of the first, rough search of a tree, which decides nearly all near points."""


class Distance:
    """The distance between individuals: first by the number of changed attributes, then by the size of the changes.

    Each attribute counts up to 1: an ordered one the share of its range between the two values; a nominal one, or a
    value that is missing on one side, counts 1. ``far`` is their sum, ``changed`` is the number of attributes that
    differ, and ``order`` compares by ``changed`` first and by ``far`` second.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 10), Nominal("sex", ["F", "M"])], protected="sex")
    >>> distance = Distance(space)
    >>> one, other = np.array([[3, 0]], dtype=np.int32), np.array([[5, 1]], dtype=np.int32)
    >>> distance.changed(one, other).tolist(), distance.far(one, other).tolist()
    ([2], [1.2])
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._range = np.maximum(space.present - 1, 1).astype(np.float64)

    def changed(self, rows: Rows, others: Rows) -> npt.NDArray[np.int64]:
        """Number of attributes that differ; rows are broadcast as in NumPy."""
        return np.asarray((rows != others).sum(axis=-1))

    def far(self, rows: Rows, others: Rows) -> Numbers:
        """The sum over the attributes."""
        return np.asarray(self.parts(rows, others).sum(axis=-1))

    def parts(self, rows: Rows, others: Rows) -> Numbers:
        """The part of each attribute."""
        space, differs = self.space, rows != others
        shares = np.abs(rows.astype(np.int64) - others) / self._range
        absent = (rows >= space.present) | (others >= space.present)
        return np.asarray(np.where(space.ordered & ~absent, shares, differs), dtype=np.float64)

    def order(self, rows: Rows, others: Rows) -> Numbers:
        """One number to compare by: first the number of attributes that differ, then the sum."""
        # No sum exceeds the number of attributes, so one more changed attribute always outweighs it.
        return np.asarray(self.changed(rows, others) + self.far(rows, others) / (2 * len(self.space.names)))

    def nearest(self, rows: Rows, others: Rows, n: int = 1) -> npt.NDArray[np.int64]:
        """Return for each row the positions of the ``n`` nearest others, nearest first; ties go to the earliest."""
        out = np.empty((len(rows), min(n, len(others))), dtype=np.int64)
        step = max(1, BLOCK // max(len(others), 1))
        for start in range(0, len(rows), step):
            # Sums of the same parts in a different order differ in the last digits, but ties must be equal.
            apart = np.round(self._all(rows[start : start + step], others, by_count=True), 9)
            if out.shape[1] == 1:
                out[start : start + step, 0] = apart.argmin(axis=1)
            else:
                out[start : start + step] = np.argsort(apart, axis=1, kind="stable")[:, : out.shape[1]]
        return out

    def least(self, rows: Rows, others: Rows) -> Numbers:
        """Return for each row the distance to the nearest other, by ``far`` alone."""
        step = max(1, BLOCK // max(len(others), 1))
        parts = [self._all(rows[i : i + step], others).min(axis=1) for i in range(0, len(rows), step)]
        return np.round(np.concatenate(parts), 9) if parts else np.zeros(0)

    def _all(self, rows: Rows, others: Rows, by_count: bool = False) -> Numbers:
        """Compare every row with every other."""
        from scipy.spatial.distance import cdist

        nominal = ~self.space.ordered
        ordered = np.flatnonzero(self.space.ordered)
        total = cdist(self.points(rows, ordered), self.points(others, ordered), "cityblock")
        if nominal.any():
            total += nominal.sum() * cdist(rows[:, nominal], others[:, nominal], "hamming")
        if by_count:
            count = len(self.space.names)
            total = total / (2 * count) + count * cdist(rows, others, "hamming")
        return np.asarray(total)

    def points(self, rows: Rows, columns: npt.NDArray[np.int64]) -> Numbers:
        """Return coordinates of rows whose sum of differences equals the parts of some ordered attributes.

        An attribute that may be missing has two coordinates: half of its share of the range, and half of the rest. A
        missing value is -0.25 in both, which is 1 away from every other value.
        """
        space = self.space
        holed = columns[space.sizes[columns] > space.present[columns]]
        shares = rows[:, columns] / self._range[columns]
        if not len(holed):
            return np.asarray(shares)
        both = np.stack([rows[:, holed] / self._range[holed], 1 - rows[:, holed] / self._range[holed]])
        both = np.where(rows[:, holed] >= space.present[holed], -0.25, both / 2)
        return np.concatenate([shares[:, ~np.isin(columns, holed)], *both], axis=1)


class Tree:
    """Finds the nearest of some individuals with a tree instead of comparing all, by ``Distance.far``.

    Nominal attributes become one coordinate for each value among the others, and one for all other values.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 10), Nominal("sex", ["F", "M"])], protected="sex")
    >>> tree = Tree(space, np.array([[3, 0], [9, 1]], dtype=np.int32))
    >>> tree.within(np.array([[5, 0], [5, 1]], dtype=np.int32), 0.3).tolist()
    [True, False]
    """

    def __init__(self, space: Space, others: Rows, columns: Sequence[int] | None = None) -> None:
        from scipy.spatial import cKDTree

        self._distance, self._others = Distance(space), others
        self._used = np.zeros(len(space.names), dtype=bool)
        self._used[list(range(len(space.names)) if columns is None else columns)] = True
        self._values = {j: np.unique(others[:, j]) for j in np.flatnonzero(self._used & ~space.ordered).tolist()}
        self._tree: cKDTree | None = None
        if int(2 * self._used.sum()) + sum(map(len, self._values.values())) <= WIDEST:
            # Points from tables are concentrated on few values, so halving boxes is better than halving points.
            self._tree = cKDTree(self._points(others), leafsize=8, balanced_tree=False)

    def within(self, rows: Rows, radius: float, thorough: bool = True) -> npt.NDArray[np.bool_]:
        """Return which rows have another one that is at most so far away; a quick search overlooks a few that have."""
        if self._tree is None:
            return np.asarray(self._distance.least(rows, self._others) <= radius + 1e-9)
        points, bound = self._points(rows), radius + 1.5e-9
        near = np.asarray(self._tree.query(points, p=1, eps=ROUGHLY, distance_upper_bound=bound)[0] < bound)
        # Points that the rough search misses are searched again.
        left = np.flatnonzero(~near & thorough)
        if 2 * radius < len(self._values):
            near[left] = self._within_by_values(rows[left], bound)
        else:
            near[left] = self._tree.query(points[left], p=1, distance_upper_bound=bound)[0] < bound
        return near

    def _within_by_values(self, rows: Rows, bound: float) -> npt.NDArray[np.bool_]:
        """Compare only pairs that differ in few nominal attributes, which count 1 each."""
        out = np.zeros(len(rows), dtype=bool)
        step = max(1, BLOCK // len(self._others))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            unlike = np.zeros((len(part), len(self._others)), dtype=np.uint16)
            for j in self._values:
                unlike += part[:, [j]] != self._others[:, j]
            row, other = np.nonzero(unlike < bound)
            apart = self._distance.parts(part[row], self._others[other])[:, self._used].sum(axis=1)
            out[start + row[apart < bound]] = True
        return out

    def nearest(self, rows: Rows, n: int) -> npt.NDArray[np.int64]:
        """Return the positions of about the ``n`` nearest others, nearest first."""
        n = min(n, len(self._others))
        if self._tree is None:
            return self._distance.nearest(rows, self._others, n)
        found = self._tree.query(self._points(rows), k=[*range(1, n + 1)], p=1, eps=1.0)[1]
        return np.asarray(found, dtype=np.int64)

    def _points(self, rows: Rows) -> Numbers:
        ordered = self._distance.points(rows, np.flatnonzero(self._used & self._distance.space.ordered))
        parts = [ordered]
        for j, values in self._values.items():
            same = rows[:, [j]] == values
            parts += [0.5 * same, 0.5 * ~same.any(axis=1, keepdims=True)]
        return np.concatenate(parts, axis=1)


class Likeness(NamedTuple):
    """How realistic some individuals are."""

    apart: Numbers
    """The distance of each to the nearest person in the data."""
    nearness: Numbers
    """The share of held-out real people who are at least as far from the other rows of the data."""
    odd: Numbers
    """The share of pairs of attributes with values that never occur together in the data."""

    @property
    def realistic(self) -> npt.NDArray[np.bool_]:
        """Mask of realistic individuals."""
        return np.asarray((self.nearness >= FAR) & (self.odd == 0))


class Realism:
    """Measures how realistic individuals are, compared with real people.

    ``nearness`` is the share of held-out real people who are at least as far from the other rows of the data: 1 for one
    of those rows, 0 for an individual farther than any real person. ``odd`` is the share of pairs of attributes whose
    values never occur together in the data, although at least five times would be expected from how common each is. An
    individual is *realistic* with a nearness of at least 0.05 and no odd pair. About 95% of real people have such a
    nearness.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 99), Nominal("sex", ["F", "M"])], protected="sex")
    >>> data = space.individuals([[20 + i % 30, i % 2] for i in range(200)])
    >>> real = Realism(space, data)
    >>> real.likeness(np.array([[30, 0], [99, 0]], dtype=np.int32)).nearness.tolist()
    [1.0, 0.0]
    """

    def __init__(self, space: Space, data: Individuals) -> None:
        self.space, self.distance = space, Distance(space)
        order = Stream(0).shuffled(np.arange(len(data)), len(data), "realism")
        rows = data.rows[order]
        held = min(HELD_OUT, len(rows) // 2)
        self.people = rows[held : held + PEOPLE]
        self._yardstick = np.sort(self.distance.least(rows[:held], self.people))
        self._tree = Tree(space, self.people) if len(self.people) else None
        self._cuts = [self._bins(rows[:, j], j) for j in range(len(space.names))]
        self._common = [np.zeros(0, dtype=np.int64)] * len(space.names)
        self._common = [self._told_apart(bins) for bins in self._binned(rows).T]
        self._odd = self._odd_pairs(self._binned(rows))

    def likeness(self, rows: Rows) -> Likeness:
        """Measure how realistic individuals are."""
        apart, nearness = self.distance.least(rows, self.people), np.ones(len(rows))
        if len(self._yardstick):
            nearness = 1 - np.searchsorted(self._yardstick, apart - 1e-9) / len(self._yardstick)
        binned, odd = self._binned(rows).T.copy(), np.zeros(len(rows))
        for (i, j), table in self._odd.items():
            odd += table[binned[i], binned[j]]
        return Likeness(apart, nearness, odd / max(comb(len(self._cuts), 2), 1))

    @property
    def radius(self) -> float:
        """Maximum distance of a realistic individual to the nearest person."""
        count = len(self._yardstick)
        nearer = np.arange(count + 1)
        allowed = int(nearer[1 - nearer / max(count, 1) >= FAR].max())
        return float(self._yardstick[allowed]) if allowed < count else np.inf

    def realistic(self, rows: Rows, thorough: bool = True) -> npt.NDArray[np.bool_]:
        """Return which individuals are realistic, as ``likeness`` does; much faster, because few need exact distances.

        Unless ``thorough``, a few who are about as far from the data as real people can be are overlooked.
        """
        out = np.zeros(len(rows), dtype=bool)
        binned = self._binned(rows).T.copy()
        for (i, j), table in self._odd.items():
            out |= table[binned[i], binned[j]]
        even = np.flatnonzero(~out)
        out[:] = False
        out[even] = True if self._tree is None else self._tree.within(rows[even], self.radius, thorough)
        return out

    def odd_pairs(self, row: Rows) -> list[tuple[str, str]]:
        """List the pairs of attributes of one individual with odd values."""
        binned = self._binned(row[None])[0]
        names = self.space.names
        return [(names[i], names[j]) for (i, j), table in self._odd.items() if table[binned[i], binned[j]]]

    def _bins(self, codes: npt.NDArray[np.int32], column: int) -> npt.NDArray[np.int64] | None:
        """Cuts of an ordered attribute at quantiles of the data; None if every code is a bin."""
        if not self.space.ordered[column] or self.space.sizes[column] <= BINS:
            return None
        cuts = np.quantile(codes, np.linspace(0, 1, BINS + 1)[1:-1], method="lower")
        return np.unique(cuts).astype(np.int64) + 1

    def _told_apart(self, bins: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number the bins that are common enough to be missed in a pair; all others share the last number."""
        common = np.bincount(bins) >= EXPECTED
        return np.append(np.where(common, np.cumsum(common) - 1, common.sum()), common.sum())

    def _binned(self, rows: Rows) -> npt.NDArray[np.int64]:
        out = np.empty(rows.shape, dtype=np.int64)
        for j, (cuts, common) in enumerate(zip(self._cuts, self._common, strict=True)):
            bins = rows[:, j] if cuts is None else np.searchsorted(cuts, rows[:, j], "right")
            out[:, j] = common[np.minimum(bins, len(common) - 1)] if len(common) else bins
        return out

    def _odd_pairs(self, binned: npt.NDArray[np.int64]) -> dict[tuple[int, int], npt.NDArray[np.bool_]]:
        """List the odd pairs of values, of those attributes that have any."""
        columns = binned.T.copy()
        sizes = [int(common.max()) + 1 for common in self._common]
        margins = [np.bincount(bins, minlength=size) for bins, size in zip(columns, sizes, strict=True)]
        for margin in margins:
            # The last bin contains values that are too rare.
            margin[-1] = 0
        out = {}
        for i, j in combinations(range(len(sizes)), 2):
            together = np.bincount(columns[i] * sizes[j] + columns[j], minlength=sizes[i] * sizes[j])
            # Most tables have no empty cells and end here.
            if together.all():
                continue
            expected = margins[i][:, None] * margins[j] / max(len(binned), 1)
            odd = (together.reshape(sizes[i], sizes[j]) == 0) & (expected >= EXPECTED)
            if odd.any():
                out[i, j] = odd
        return out
