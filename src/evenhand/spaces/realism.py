"""How far apart two individuals are, and how real one is: near to the data, and without odd pairs of values."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.spaces.individuals import Individuals, Rows

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Numbers = npt.NDArray[np.float64]
BLOCK = 2**22
"""Pairs of individuals that are compared at once."""
PEOPLE, HELD_OUT = 4_000, 1_000
"""Rows that distances are measured to, and other rows whose distances to them are the yardstick."""
BINS = 10
"""Bins of an ordered attribute, for pairs of values."""
EXPECTED = 5.0
"""How often a pair of values would occur by chance, at least, for its absence to be odd."""
FAR = 0.05
"""An individual of a lower nearness is not realistic."""


class Distance:
    """The distance of a space's individuals, smaller meaning fewer attributes changed, and then changed by less.

    Each attribute counts up to 1: an ordered one the share of its range that lies between, a nominal one, and a value
    that is missing on one side only, all of it. ``far`` is their sum, ``changed`` the number of attributes that
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
        """How many attributes differ; rows are compared as NumPy broadcasts them."""
        return np.asarray((rows != others).sum(axis=-1))

    def far(self, rows: Rows, others: Rows) -> Numbers:
        """The sum of what each attribute counts."""
        return np.asarray(self.parts(rows, others).sum(axis=-1))

    def parts(self, rows: Rows, others: Rows) -> Numbers:
        """What each attribute counts."""
        space, differs = self.space, rows != others
        shares = np.abs(rows.astype(np.int64) - others) / self._range
        absent = (rows >= space.present) | (others >= space.present)
        return np.asarray(np.where(space.ordered & ~absent, shares, differs), dtype=np.float64)

    def order(self, rows: Rows, others: Rows) -> Numbers:
        """One number to compare by: attributes that differ, then how far; the second never makes up for the first."""
        # No individual is farther than all attributes together, so that half of one attribute more outweighs it.
        return np.asarray(self.changed(rows, others) + self.far(rows, others) / (2 * len(self.space.names)))

    def nearest(self, rows: Rows, others: Rows, n: int = 1) -> npt.NDArray[np.int64]:
        """Return for each row the positions of the ``n`` nearest others, nearest first; of equals the earliest."""
        out = np.empty((len(rows), min(n, len(others))), dtype=np.int64)
        step = max(1, BLOCK // max(len(others), 1))
        for start in range(0, len(rows), step):
            apart = self._all(rows[start : start + step], others, by_count=True)
            if out.shape[1] == 1:
                out[start : start + step, 0] = apart.argmin(axis=1)
            else:
                out[start : start + step] = np.argsort(apart, axis=1, kind="stable")[:, : out.shape[1]]
        return out

    def least(self, rows: Rows, others: Rows) -> Numbers:
        """Return for each row how far the nearest other is, by ``far`` alone."""
        step = max(1, BLOCK // max(len(others), 1))
        parts = [self._all(rows[i : i + step], others).min(axis=1) for i in range(0, len(rows), step)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _all(self, rows: Rows, others: Rows, by_count: bool = False) -> Numbers:
        """Compare every row with every other."""
        from scipy.spatial.distance import cdist

        nominal = ~self.space.ordered
        total = cdist(self._points(rows), self._points(others), "cityblock")
        if nominal.any():
            total += nominal.sum() * cdist(rows[:, nominal], others[:, nominal], "hamming")
        if by_count:
            count = len(self.space.names)
            total = total / (2 * count) + count * cdist(rows, others, "hamming")
        # Sums of the same parts in another order differ in their last digits; ties must not.
        return np.round(total, 9)

    def _points(self, rows: Rows) -> Numbers:
        """Place rows so that the sum of differences is what the ordered attributes count.

        An attribute that may be missing has two coordinates, half its share of the range and half of the rest; a
        missing value is a quarter below zero in both, which is 1 away from every other value.
        """
        space = self.space
        columns = np.flatnonzero(space.ordered)
        holed = columns[space.sizes[columns] > space.present[columns]]
        shares = rows[:, columns] / self._range[columns]
        if not len(holed):
            return np.asarray(shares)
        both = np.stack([rows[:, holed] / self._range[holed], 1 - rows[:, holed] / self._range[holed]])
        both = np.where(rows[:, holed] >= space.present[holed], -0.25, both / 2)
        return np.concatenate([shares[:, ~np.isin(columns, holed)], *both], axis=1)


class Likeness(NamedTuple):
    """How real some individuals are."""

    apart: Numbers
    """How far each is from the nearest person in the data."""
    nearness: Numbers
    """The share of real people, held out, who are at least as far from the data's other rows."""
    odd: Numbers
    """The share of pairs of attributes with values that never occur together in the data."""

    @property
    def realistic(self) -> npt.NDArray[np.bool_]:
        """Who could be real."""
        return np.asarray((self.nearness >= FAR) & (self.odd == 0))


class Realism:
    """Compares individuals with real people.

    ``nearness`` is the share of real people, held out, who are at least as far from the data's other rows: 1 for who
    is one of those, 0 for one farther than any real person. ``odd`` is the share of pairs of attributes whose
    values never occur together in the data although, by how common each is, they would be expected at least five times.
    An individual is *realistic* with a nearness of at least 0.05 and no odd pair, as 95 of 100 real people are but for
    their odd pairs.

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
        self._people = rows[held : held + PEOPLE]
        self._yardstick = np.sort(self.distance.least(rows[:held], self._people))
        self._cuts = [self._bins(rows[:, j], j) for j in range(len(space.names))]
        self._common = [np.zeros(0, dtype=np.int64)] * len(space.names)
        self._common = [self._told_apart(bins) for bins in self._binned(rows).T]
        self._odd = self._odd_pairs(self._binned(rows))

    def likeness(self, rows: Rows) -> Likeness:
        """Say how real individuals are."""
        apart, nearness = self.distance.least(rows, self._people), np.ones(len(rows))
        if len(self._yardstick):
            nearness = 1 - np.searchsorted(self._yardstick, apart - 1e-9) / len(self._yardstick)
        binned, odd = self._binned(rows).T.copy(), np.zeros(len(rows))
        for (i, j), table in self._odd.items():
            odd += table[binned[i], binned[j]]
        return Likeness(apart, nearness, odd / max(comb(len(self._cuts), 2), 1))

    def odd_pairs(self, row: Rows) -> list[tuple[str, str]]:
        """Name the attributes of one individual whose values are odd together."""
        binned = self._binned(row[None])[0]
        names = self.space.names
        return [(names[i], names[j]) for (i, j), table in self._odd.items() if table[binned[i], binned[j]]]

    def _bins(self, codes: npt.NDArray[np.int32], column: int) -> npt.NDArray[np.int64] | None:
        """Where to cut an ordered attribute, at quantiles of the data; None where every code is a bin of its own."""
        if not self.space.ordered[column] or self.space.sizes[column] <= BINS:
            return None
        cuts = np.quantile(codes, np.linspace(0, 1, BINS + 1)[1:-1], method="lower")
        return np.unique(cuts).astype(np.int64) + 1

    def _told_apart(self, bins: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Number the bins that are common enough to be missed beside another; all others are one, the last."""
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
            # The last bin is of values that are too rare to be missed.
            margin[-1] = 0
        out = {}
        for i, j in combinations(range(len(sizes)), 2):
            together = np.bincount(columns[i] * sizes[j] + columns[j], minlength=sizes[i] * sizes[j])
            # Cells that somebody is in are no news: most tables end here.
            if together.all():
                continue
            expected = margins[i][:, None] * margins[j] / max(len(binned), 1)
            odd = (together.reshape(sizes[i], sizes[j]) == 0) & (expected >= EXPECTED)
            if odd.any():
                out[i, j] = odd
        return out
