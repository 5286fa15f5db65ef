"""Boxes: conjunctions of predicates on single attributes, many at a time.

A predicate on an ordered attribute is a threshold (``code <= v``, or its negation ``code > v``); one on a nominal
attribute names a value (``code == v`` or ``code != v``). What meets them all is a product of one set of codes for each
attribute: an interval for an ordered one, any set for a nominal one. A missing value is the last code, so thresholds
take it as the largest.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.errors import SpaceError
from evenhand.space.individuals import Rows, hashed

if TYPE_CHECKING:
    from evenhand.space.tabular import Space

Mask = npt.NDArray[np.bool_]


class Boxes:
    """Sets of individuals of one space, each a product of codes; the space's constraints are not considered.

    Parameters
    ----------
    space
        The space that the codes belong to.
    low, high
        First and last code of every ordered attribute, one row a box; of nominal attributes they say nothing.
    allowed
        One column for every code of every nominal attribute, and only of those: an ordered attribute of a hundred
        thousand steps costs two numbers.

    Examples
    --------
    >>> from evenhand.space import Integer, Nominal, Space
    >>> space = Space([Integer("age", 0, 9), Nominal("work", ["clerk", "nurse"])], protected=["work"])
    >>> boxes = Boxes.all(space, 2).restrict([0, 0, 1], [0, 1, 0], [4, 0, 4], [True, False, False])
    >>> boxes.nearest(np.array([[7, 0], [7, 0]], dtype=np.int32)).tolist()
    [[4, 1], [7, 0]]
    """

    def __init__(self, space: Space, low: Rows, high: Rows, allowed: Mask) -> None:
        self.space, self.low, self.high, self.allowed = space, low, high, allowed

    @classmethod
    def all(cls, space: Space, n: int) -> Boxes:
        """Return ``n`` boxes that hold everybody."""
        high = np.broadcast_to((space.sizes - 1).astype(np.int32), (n, len(space.names))).copy()
        nominal = int(space.sizes[~space.ordered].sum())
        return cls(space, np.zeros_like(high), high, np.ones((n, nominal), dtype=bool))

    def restrict(
        self, which: npt.ArrayLike, columns: npt.ArrayLike, values: npt.ArrayLike, truth: npt.ArrayLike
    ) -> Boxes:
        """Add predicates, given as a flat list, and return the smaller boxes.

        Parameters
        ----------
        which
            The box that each predicate belongs to.
        columns
            The attribute that it speaks of.
        values
            A threshold, which may lie between two codes, or the code of a nominal attribute's value.
        truth
            True for ``code <= value`` or ``code == value``, False for the negation.
        """
        which, columns = np.asarray(which, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        values, truth = np.asarray(values, dtype=np.float64), np.asarray(truth, dtype=bool)
        out = Boxes(self.space, self.low.copy(), self.high.copy(), self.allowed.copy())
        ordered, sizes = self.space.ordered[columns], self.space.sizes[columns]
        codes = np.clip(np.floor(values), -1, sizes - 1).astype(np.int32)
        upper, lower = ordered & truth, ordered & ~truth
        np.minimum.at(out.high, (which[upper], columns[upper]), codes[upper])
        np.maximum.at(out.low, (which[lower], columns[lower]), codes[lower] + 1)
        named = np.flatnonzero(~ordered)
        wrong = named[(codes[named] != values[named]) | (codes[named] < 0)]
        if len(wrong):
            attribute = self.space.attributes[columns[wrong[0]]]
            raise SpaceError(
                f"a predicate on {attribute.name!r} names the code {values[wrong[0]]:g}; "
                f"allowed: whole codes 0 to {attribute.size - 1}"
            )
        places = self._starts[columns] + codes
        differs = named[~truth[named]]
        out.allowed[which[differs], places[differs]] = False
        # To be one value is to be none of the others; two different ones leave nothing.
        same = named[truth[named]]
        for column in np.unique(columns[same]):
            mine = same[columns[same] == column]
            banned = np.ones((len(mine), int(self.space.sizes[column])), dtype=bool)
            banned[np.arange(len(mine)), codes[mine]] = False
            at, code = np.nonzero(banned)
            out.allowed[which[mine[at]], self._starts[column] + code] = False
        return out

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, which: Any) -> Boxes:
        """Return some of them, by mask, positions or slice."""
        return Boxes(self.space, self.low[which], self.high[which], self.allowed[which])

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Where the codes of a nominal attribute begin in ``allowed``, by column."""
        nominal = np.where(self.space.ordered, 0, self.space.sizes)
        return np.asarray(np.cumsum(nominal) - nominal)

    def codes(self, column: int) -> Mask:
        """Tell which codes of a nominal attribute are allowed, one row a box."""
        start = self._starts[column]
        return self.allowed[:, start : start + self.space.sizes[column]]

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many codes each attribute may take, one row a box."""
        out: npt.NDArray[np.int64] = np.maximum(self.high.astype(np.int64) - self.low + 1, 0)
        for j in np.flatnonzero(~self.space.ordered).tolist():
            out[:, j] = self.codes(j).sum(axis=1)
        return out

    @property
    def empty(self) -> Mask:
        """Which boxes hold nobody: some attribute has no code left."""
        return np.asarray((self.counts == 0).any(axis=1))

    @cached_property
    def keys(self) -> npt.NDArray[np.complex128]:
        """One key a box, sortable; boxes that hold the same individuals have the same key."""
        allowed = np.packbits(self.allowed, axis=1)
        words = np.zeros((len(self), -(-allowed.shape[1] // 4) * 4), dtype=np.uint8)
        words[:, : allowed.shape[1]] = allowed
        ordered = self.space.ordered
        parts = np.hstack([self.low[:, ordered], self.high[:, ordered], words.view(np.int32)])
        # Nobody is nobody, whichever predicates contradict each other.
        parts[self.empty] = -1
        return hashed(parts.view(np.uint32))

    def inside(self, rows: Rows) -> Mask:
        """Tell which codes of row ``i`` box ``i`` allows."""
        out: Mask = (rows >= self.low) & (rows <= self.high)
        here = np.arange(len(self))
        for j in np.flatnonzero(~self.space.ordered).tolist():
            out[:, j] = self.codes(j)[here, rows[:, j]] & (rows[:, j] >= 0)
        return out

    def nearest(self, rows: Rows) -> Rows:
        """Return of box ``i`` the member nearest to row ``i``; -1 in every column where the box is empty.

        An ordered attribute is clamped; a nominal one keeps its value or takes the first that is allowed. No other
        member changes fewer attributes, lies at a smaller distance or, of those as near, has smaller codes.
        """
        out = np.clip(rows, self.low, self.high)
        here = np.arange(len(self))
        for j in np.flatnonzero(~self.space.ordered).tolist():
            codes = self.codes(j)
            out[:, j] = np.where(codes[here, rows[:, j]], rows[:, j], codes.argmax(axis=1))
        out[self.empty] = -1
        return out

    def draw(self, stream: Stream, walkers: npt.ArrayLike, step: int, *, attempt: int = 0, columns: Any = None) -> Rows:
        """Draw a member of each box, every code of an attribute alike; -1 in every column where the box is empty.

        Draws depend on walker, step, attempt (below 10) and column alone. ``columns`` names those wanted; by default
        all are drawn, in the space's order.
        """
        wanted = np.arange(len(self.space.names)) if columns is None else np.asarray(columns)
        out = np.empty((len(self), len(wanted)), dtype=np.int32)
        for i, j in enumerate(wanted):
            bits = stream.bits(f"b{attempt}c{j}", walkers, step)
            place = (bits % np.maximum(self.counts[:, j], 1).astype(np.uint64)).astype(np.int64)
            if self.space.ordered[j]:
                out[:, i] = self.low[:, j] + place
            else:
                out[:, i] = (np.cumsum(self.codes(j), axis=1) > place[:, None]).argmax(axis=1)
        out[self.empty] = -1
        return out
