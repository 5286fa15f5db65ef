"""Ties: attributes that constraints bind together, and their legal combinations near a given one, by enumeration.

Attributes of different ties, and those of none, do not know of each other, so each tie is mended alone. What is
nearest is told by three numbers, compared in this order: how many attributes change; the distance, which is the
difference of codes for an ordered attribute and 1 for a nominal one that changes; the codes themselves, in the space's
order. The first two add up over ties, and an order of pairs that survives additions is least in the sum where it is
least in every part; so the nearest combination of each tie makes the nearest individual.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evenhand.space.boxes import Boxes, Mask
from evenhand.space.constraints import Constraint
from evenhand.space.individuals import Rows
from evenhand.space.sampling import components

if TYPE_CHECKING:
    from evenhand.space.tabular import Space

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
    """Some columns, the constraints that bind them, and their legal combinations where those could be listed."""

    space: Space
    columns: tuple[int, ...]
    constraints: tuple[Constraint, ...]
    table: Rows | None

    def legal(self, codes: Rows) -> Mask:
        """Tell which combinations meet the constraints."""
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

    >>> from evenhand.space import Integer, Space
    >>> attributes = [Integer(name, 0, 3) for name in "abc"]
    >>> [tie.columns for tie in ties(Space(attributes, protected="b", constraints=["a < c"]))]
    [(0, 2)]
    """
    tables = {digit.columns: digit.table for digit in space.sampler.digits if digit.table is not None}
    out = []
    for columns in components(space):
        names = {space.names[j] for j in columns}
        bound = tuple(c for c in space.constraints if names.issuperset(c.names))
        out.append(Tie(space, columns, bound, tables.get(columns)))
    return out


@dataclass
class Mended:
    """Combinations of a tie for some boxes: the codes where found, what is known, and the changes still possible."""

    codes: Rows
    state: npt.NDArray[np.int8]
    least: Numbers

    @classmethod
    def blank(cls, tie: Tie, n: int, state: int) -> Mended:
        """Begin with no codes at all."""
        codes = np.full((n, len(tie.columns)), -1, dtype=np.int32)
        return cls(codes, np.full(n, state, dtype=np.int8), np.zeros(n, dtype=np.int64))


def rings(tie: Tie, boxes: Boxes, rows: Rows) -> Mended:
    """Look for the nearest legal combinations in rings: all that change k attributes, for growing k.

    A box leaves as open when its next ring is too long; ``least`` says how many attributes that one changes.
    """
    columns = np.array(tie.columns)
    own, counts = rows[:, columns], boxes.counts[:, columns]
    outside = ~boxes.inside(rows)[:, columns]
    out = Mended.blank(tie, len(rows), OPEN)
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
    """Return which boxes have a legal combination in this ring, and the nearest of each."""
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
    """Change the same columns of all boxes in every way; give the nearest legal combination of each, in pieces."""
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
        legal = tie.legal(codes)
        yield _firsts(tie, owner[legal], codes[legal], own)
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
