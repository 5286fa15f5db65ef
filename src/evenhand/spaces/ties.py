"""Ties: attributes that constraints bind together, and their valid combinations near a given one, by enumeration.

Attributes of different ties are independent, so each tie is solved alone. Nearest means three numbers, compared in
this order: how many attributes change; the distance, which is the difference of codes for an ordered attribute and 1
for a nominal one that changes; the codes themselves, in the space's order. The first two add up over ties, so the
nearest combinations of all ties make the nearest individual.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Mask
from evenhand.spaces.constraints import Constraint
from evenhand.spaces.individuals import Rows, hashed
from evenhand.spaces.sampler import components, tying

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space


class Boxes:
    """Sets of individuals of one space, each a product of codes; the space's constraints are not considered.

    ``low`` and ``high`` are the first and last codes of the ordered attributes, one row a box. ``allowed`` has a column
    for every code of every nominal attribute.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Nominal("work", ["clerk", "nurse"])], protected=["work"])
    >>> boxes = Boxes.all(space, 2).restrict([0, 0, 1], [0, 1, 0], [4, 0, 4], [True, False, False])
    >>> boxes.nearest(np.array([[7, 0], [7, 0]], dtype=np.int32)).tolist()
    [[4, 1], [7, 0]]
    """

    def __init__(self, space: Space, low: Rows, high: Rows, allowed: Mask) -> None:
        self.space, self.low, self.high, self.allowed = space, low, high, allowed

    @classmethod
    def all(cls, space: Space, n: int) -> Boxes:
        """Return ``n`` boxes that hold every individual."""
        high = np.broadcast_to((space.sizes - 1).astype(np.int32), (n, len(space.names))).copy()
        nominal = int(space.sizes[~space.ordered].sum())
        return cls(space, np.zeros_like(high), high, np.ones((n, nominal), dtype=bool))

    def restrict(
        self, which: npt.ArrayLike, columns: npt.ArrayLike, values: npt.ArrayLike, truth: npt.ArrayLike
    ) -> Boxes:
        """Add predicates, given as a flat list, and return the smaller boxes.

        Each predicate is about a box, the column of an attribute and a value: a threshold, which may lie between two
        codes, or a nominal attribute's code. ``truth`` is True for ``code <= value`` or ``code == value``, False for
        the negation.
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
            least = f"of a predicate on {attribute.name!r} must be codes from 0 to {attribute.size - 1}"
            raise SpaceError(least, parameter="values", value=float(values[wrong[0]]))
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
        """Return which codes of a nominal attribute are allowed, one row a box."""
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
        """Which boxes are empty: some attribute has no code left."""
        return np.asarray((self.counts == 0).any(axis=1))

    @cached_property
    def keys(self) -> npt.NDArray[np.complex128]:
        """One key a box, sortable; boxes that hold the same individuals have the same key."""
        allowed = np.packbits(self.allowed, axis=1)
        words = np.zeros((len(self), -(-allowed.shape[1] // 4) * 4), dtype=np.uint8)
        words[:, : allowed.shape[1]] = allowed
        ordered = self.space.ordered
        parts = np.hstack([self.low[:, ordered], self.high[:, ordered], words.view(np.int32)])
        # Empty boxes are equal, whichever predicates contradict each other.
        parts[self.empty] = -1
        return hashed(parts.view(np.uint32))

    def inside(self, rows: Rows) -> Mask:
        """Return which codes of row ``i`` box ``i`` allows."""
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
        """Draw a member of each box, uniformly; -1 in every column where the box is empty.

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


Numbers = npt.NDArray[np.int64]
OPEN, FOUND, NONE, TIMEOUT = range(4)
"""What is known of a box: nothing yet; its nearest combination; that it has none; that a solver gave up."""
RING = 2**17
"""Combinations up to which a ring is enumerated where the tie is not listed; beyond it a solver is faster."""
SUBSET = 2**9
"""Combinations that could be judged in the time that one more choice of attributes takes."""
CHUNK = 2**20
"""Combinations judged at a time."""


@dataclass(frozen=True, eq=False)
class Tie:
    """Some columns, the constraints that bind them, and their valid combinations where those could be listed."""

    space: Space
    columns: tuple[int, ...]
    constraints: tuple[Constraint, ...]
    table: Rows | None

    def valid(self, codes: Rows) -> Mask:
        """Return which combinations meet the constraints."""
        by_name = {self.space.names[j]: codes[:, i] for i, j in enumerate(self.columns)}
        out = np.ones(len(codes), dtype=bool)
        for constraint in self.constraints:
            out &= constraint.holds_codes(by_name)
        return out

    def distance(self, codes: npt.NDArray[np.int32], own: npt.NDArray[np.int32]) -> Numbers:
        """Measure how far combinations are from others."""
        gaps = np.abs(codes.astype(np.int64) - own)
        return np.asarray(np.where(self.space.ordered[list(self.columns)], gaps, gaps > 0).sum(axis=-1))


def ties(space: Space) -> list[Tie]:
    """Split a space's constraints into ties.

    >>> from evenhand.spaces.attributes import Integer; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer(name, 0, 3) for name in "abc"]
    >>> [tie.columns for tie in ties(Space(attributes, protected="b", constraints=["a < c"]))]
    [(0, 2)]
    """
    tables = {digit.columns: digit.table for digit in space.sampler.digits if digit.table is not None}
    return [Tie(space, c, tuple(tying(space, c)), tables.get(c)) for c in components(space)]


@dataclass
class Solutions:
    """Combinations of a tie for some boxes: the codes where found, what is known, and the changes still possible."""

    codes: Rows
    state: npt.NDArray[np.int8]
    least: Numbers

    @classmethod
    def blank(cls, tie: Tie, n: int, state: int) -> Solutions:
        """Begin with no codes at all."""
        codes = np.full((n, len(tie.columns)), -1, dtype=np.int32)
        return cls(codes, np.full(n, state, dtype=np.int8), np.zeros(n, dtype=np.int64))


def rings(tie: Tie, boxes: Boxes, rows: Rows) -> Solutions:
    """Look for the nearest valid combinations in rings: all that change k attributes, for growing k.

    A box stays open when its next ring is too long; ``least`` says how many attributes that one changes.
    """
    columns = np.array(tie.columns)
    own, counts = rows[:, columns], boxes.counts[:, columns]
    outside = ~boxes.inside(rows)[:, columns]
    out = Solutions.blank(tie, len(rows), OPEN)
    out.least += outside.sum(axis=1)
    limit = RING if tie.table is None else len(tie.table)
    patterns, pattern = np.unique(outside, axis=0, return_inverse=True)
    for p, must in enumerate(patterns):
        todo = np.flatnonzero(pattern.ravel() == p)
        others = np.flatnonzero(~must)
        fixed = counts[np.ix_(todo, np.flatnonzero(must))].prod(axis=1, dtype=np.float64)
        lengths = _lengths(counts[np.ix_(todo, others)] - 1) * fixed[:, None]
        for extra in range(len(others) + 1):
            near = lengths[:, extra] + math.comb(len(others), extra) * SUBSET <= limit
            todo, lengths = todo[near], lengths[near]
            if not len(todo):
                break
            found, codes = _ring(tie, boxes[todo], own[todo], must, extra)
            out.codes[todo[found]], out.state[todo[found]] = codes, FOUND
            left = np.ones(len(todo), dtype=bool)
            left[found] = False
            todo, lengths = todo[left], lengths[left]
            out.least[todo] += 1
        out.state[todo] = NONE
    return out


def _lengths(choices: Numbers) -> npt.NDArray[np.float64]:
    """Count the ways to choose k columns and one of the choices of each, for every k: symmetric polynomials."""
    out = np.zeros((len(choices), choices.shape[1] + 1))
    out[:, 0] = 1
    for j in range(choices.shape[1]):
        out[:, 1 : j + 2] += out[:, : j + 1] * choices[:, j : j + 1]
    return out


def _ring(tie: Tie, boxes: Boxes, own: Rows, must: Mask, extra: int) -> tuple[Numbers, Rows]:
    """Return which boxes have a valid combination in this ring, and the nearest of each."""
    owners, codes = [np.zeros(0, dtype=np.int64)], [own[:0]]
    for chosen in itertools.combinations(np.flatnonzero(~must), extra):
        changing = must.copy()
        changing[list(chosen)] = True
        for which, found in _judged(tie, boxes, own, must, changing):
            owners.append(which)
            codes.append(found)
    owner, code = np.concatenate(owners), np.concatenate(codes)
    # One candidate for each choice of columns; of each box's the least distance, then the smallest codes.
    order = np.lexsort((*code.T[::-1], tie.distance(code, own[owner]), owner))
    found, first = np.unique(owner[order], return_index=True)
    return found.astype(np.int64), code[order[first]]


def _judged(tie: Tie, boxes: Boxes, own: Rows, must: Mask, changing: Mask) -> Iterator[tuple[Numbers, Rows]]:
    """Change the same columns of all boxes in every way; give the nearest valid combination of each, in pieces."""
    places, keeps = np.flatnonzero(changing), ~must[changing]
    columns = np.array(tie.columns)[places]
    # A column that need not change has its own code among the allowed ones; here it takes another.
    choices = boxes.counts[:, columns] - keeps
    sizes = choices.prod(axis=1)
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = ends[first] - sizes[first]
        last = max(first + 1, int(np.searchsorted(ends, before + CHUNK, side="right")))
        owner = np.repeat(np.arange(first, last), sizes[first:last])
        number = np.arange(len(owner)) + before - (ends - sizes)[owner]
        codes = own[owner]
        for k in range(len(places) - 1, -1, -1):
            number, digit = np.divmod(number, choices[owner, k])
            i, j = places[k], columns[k]
            if tie.space.ordered[j]:
                code = boxes.low[owner, j] + digit
                codes[:, i] = code + (keeps[k] & (code >= codes[:, i]))
            else:
                codes[:, i] = _listed(boxes.codes(j), own[:, i] if keeps[k] else None)[owner, digit]
        valid = tie.valid(codes)
        yield _firsts(tie, owner[valid], codes[valid], own)
        first = last


def _listed(allowed: Mask, other_than: npt.NDArray[np.int32] | None) -> Numbers:
    """List each box's codes of a nominal column, ascending; behind them those that are not allowed."""
    if other_than is not None:
        allowed = allowed.copy()
        allowed[np.arange(len(allowed)), other_than] = False
    return np.argsort(~allowed, axis=1, stable=True)


def _firsts(tie: Tie, owner: Numbers, codes: Rows, own: Rows) -> tuple[Numbers, Rows]:
    """Of each owner's combinations, which come by ascending codes, the first at the least distance."""
    which, starts, lengths = np.unique(owner, return_index=True, return_counts=True)
    if not len(which):
        return which, codes
    distance = tie.distance(codes, own[owner])
    least = np.repeat(np.minimum.reduceat(distance, starts), lengths)
    at = np.flatnonzero(distance == least)
    return which, codes[at[np.unique(owner[at], return_index=True)[1]]]


def scan(tie: Tie, boxes: Boxes, rows: Rows) -> Solutions:
    """Look for the nearest valid combinations in the list of all."""
    assert tie.table is not None
    own = rows[:, list(tie.columns)]
    out = Solutions.blank(tie, len(rows), NONE)
    # More than any distance, so that one number orders by changes first; the list is ascending, so ties by codes.
    change = 1 + int(tie.space.sizes[list(tie.columns)].sum())
    for part, inside in _members(tie, boxes):
        codes = own[part]
        score = np.zeros(inside.shape, dtype=np.int64)
        for i, j in enumerate(tie.columns):
            gaps = np.abs(tie.table[:, i] - codes[:, i : i + 1])
            score += np.where(gaps > 0, change + (gaps if tie.space.ordered[j] else 1), 0)
        score[~inside] = np.iinfo(np.int64).max
        best = score.argmin(axis=1)
        found = inside[np.arange(len(best)), best]
        at = np.arange(len(rows))[part][found]
        out.codes[at], out.state[at] = tie.table[best[found]], FOUND
    return out


def choose(tie: Tie, boxes: Boxes, bits: npt.NDArray[np.uint64]) -> Solutions:
    """Draw one of the valid combinations of each box, all equally likely, by random bits."""
    assert tie.table is not None
    out = Solutions.blank(tie, len(boxes), NONE)
    for part, inside in _members(tie, boxes):
        ranks = np.cumsum(inside, axis=1)
        count = ranks[:, -1]
        number = bits[part] % np.maximum(count, 1).astype(np.uint64)
        at = np.arange(len(boxes))[part][count > 0]
        out.codes[at] = tie.table[(ranks > number[:, None].astype(np.int64)).argmax(axis=1)][count > 0]
        out.state[at] = FOUND
    return out


def _members(tie: Tie, boxes: Boxes) -> Iterator[tuple[slice, Mask]]:
    """Find which of the listed combinations lie in which boxes, some boxes at a time."""
    assert tie.table is not None
    size = max(1, CHUNK // len(tie.table))
    for first in range(0, len(boxes), size):
        part = slice(first, first + size)
        some = boxes[part]
        inside = np.ones((len(some), len(tie.table)), dtype=bool)
        for i, j in enumerate(tie.columns):
            code = tie.table[:, i]
            if tie.space.ordered[j]:
                inside &= (code >= some.low[:, j : j + 1]) & (code <= some.high[:, j : j + 1])
            else:
                inside &= some.codes(j)[:, code]
        yield part, inside
