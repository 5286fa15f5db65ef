"""How far apart two individuals are: how many attributes differ, then by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.spaces.individuals import Rows

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Numbers = npt.NDArray[np.float64]
BLOCK = 2**22
"""Pairs of individuals that are compared at once."""


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
        # Nobody is farther than all attributes together, so that half of one attribute more outweighs it.
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
