"""How real an individual is: as near to the data as real people are to each other, and no odd pair of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.shrinking.distance import Distance, Numbers
from evenhand.space.individuals import Individuals, Rows
from evenhand.stream import Stream

if TYPE_CHECKING:
    from evenhand.space.tabular import Space

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

    >>> from evenhand.space import Integer, Nominal, Space
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
        binned, count = self._binned(rows), np.zeros(len(rows))
        for (i, j), table in self._odd.items():
            count += table[binned[:, i], binned[:, j]]
        return count / max(len(self._odd), 1)

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

    def _binned(self, rows: Rows) -> npt.NDArray[np.int64]:
        columns = [
            rows[:, j] if c is None else np.searchsorted(c, rows[:, j], "right") for j, c in enumerate(self._cuts)
        ]
        return np.column_stack(columns).astype(np.int64)

    def _odd_pairs(self, binned: npt.NDArray[np.int64]) -> dict[tuple[int, int], npt.NDArray[np.bool_]]:
        sizes = [int(self.space.sizes[j]) if c is None else len(c) + 1 for j, c in enumerate(self._cuts)]
        margins = [np.bincount(binned[:, j], minlength=size) for j, size in enumerate(sizes)]
        out = {}
        for i in range(len(sizes)):
            for j in range(i + 1, len(sizes)):
                together = np.bincount(binned[:, i] * sizes[j] + binned[:, j], minlength=sizes[i] * sizes[j])
                expected = margins[i][:, None] * margins[j] / max(len(binned), 1)
                out[i, j] = (together.reshape(sizes[i], sizes[j]) == 0) & (expected >= EXPECTED)
        return out


def could_be(nearness: Numbers, odd: Numbers) -> npt.NDArray[np.bool_]:
    """Tell who could be real, by figures that are known already.

    >>> could_be(np.array([0.5, 0.5, 0.01]), np.array([0.0, 0.1, 0.0])).tolist()
    [True, False, False]
    """
    return np.asarray((nearness >= FAR) & (odd == 0))
