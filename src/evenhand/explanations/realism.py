"""How real an individual is: as near to the data as real people are to each other, and no odd pair of values."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.explanations.distance import Distance, Numbers
from evenhand.spaces.individuals import Individuals, Rows

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

PEOPLE, HELD_OUT = 4_000, 1_000
"""Rows that distances are measured to, and other rows whose distances to them are the yardstick."""
BINS = 10
"""Bins of an ordered attribute, for pairs of values."""
EXPECTED = 5.0
"""How often a pair of values would occur by chance, at least, for its absence to be odd."""
FAR = 0.05
"""Whoever is farther from the data than this share of real people is not realistic."""


class Realism:
    """Compares individuals with real people.

    ``nearness`` is the share of real people, held out, who are at least as far from the data's other rows: 1 for who
    is one of those, 0 for whoever is farther than anybody real. ``odd`` is the share of pairs of attributes whose
    values never occur together in the data although, by how common each is, they would be expected at least five times.
    An individual is *realistic* with a nearness of at least 0.05 and no odd pair, as 95 of 100 real people are but for
    their odd pairs.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 99), Nominal("sex", ["F", "M"])], protected="sex")
    >>> data = space.individuals([[20 + i % 30, i % 2] for i in range(200)])
    >>> real = Realism(space, data)
    >>> real.nearness(np.array([[30, 0], [99, 0]], dtype=np.int32)).tolist()
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

    def nearness(self, rows: Rows) -> Numbers:
        """The share of real people who are at least as far from the data."""
        if not len(self._yardstick):
            return np.ones(len(rows))
        apart = self.distance.least(rows, self._people)
        closer = np.searchsorted(self._yardstick, apart - 1e-9)
        return np.asarray(1 - closer / len(self._yardstick))

    def odd(self, rows: Rows) -> Numbers:
        """The share of pairs of attributes with an odd pair of values."""
        binned, count = self._binned(rows).T.copy(), np.zeros(len(rows))
        for (i, j), table in self._odd.items():
            count += table[binned[i], binned[j]]
        return count / max(comb(len(self._cuts), 2), 1)

    def odd_pairs(self, row: Rows) -> list[tuple[str, str]]:
        """Name the attributes of one individual whose values are odd together."""
        binned = self._binned(row[None])[0]
        names = self.space.names
        return [(names[i], names[j]) for (i, j), table in self._odd.items() if table[binned[i], binned[j]]]

    def realistic(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Tell who could be real."""
        return could_be(self.nearness(rows), self.odd(rows))

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


def could_be(nearness: Numbers, odd: Numbers) -> npt.NDArray[np.bool_]:
    """Tell who could be real, by figures that are known already.

    >>> could_be(np.array([0.5, 0.5, 0.01]), np.array([0.0, 0.1, 0.0])).tolist()
    [True, False, False]
    """
    return np.asarray((nearness >= FAR) & (odd == 0))
