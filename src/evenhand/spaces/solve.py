"""Finds members of boxes that meet the space's constraints: the nearest to given individuals, or random ones.

Attributes that constraints bind together are a tie. Ties are independent, so each is solved alone, by enumeration or,
where that would take too long, by z3. Nearest means three numbers, compared in this order: how many attributes change;
the distance, which is the difference of codes for an ordered attribute and 1 for a nominal one that changes; the codes
themselves, in the space's order. The first two add up over ties, so the nearest combinations of all ties make the
nearest individual.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand._validate import check_int
from evenhand.errors import MissingExtra, SpaceError
from evenhand.spaces.attributes import Attribute, Integer, Mask, Real
from evenhand.spaces.constraints import (
    COMPARE,
    And,
    Arithmetic,
    Column,
    Columns,
    Compare,
    Condition,
    Constraint,
    Literal,
    Member,
    Missing,
    Not,
    Or,
    Value,
    listed,
    shown,
    walk,
)
from evenhand.spaces.individuals import Rows, components, contradiction, hashed, tying

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

Numbers = npt.NDArray[np.int64]
OPEN, FOUND, NONE, TIMEOUT = range(4)
"""The state of a box: nothing known; its nearest combination; that it has none; that the solver gave up."""
RING = 2**17
"""Maximum combinations for enumerating a ring if the tie is not listed; beyond it, a solver is faster."""
SUBSET = 2**9
"""Combinations that could be judged in the time that one more choice of attributes takes."""
CHUNK = 2**20
"""Combinations judged at a time."""
LIMIT_MS = 1000
"""Maximum duration of one call of the solver, in milliseconds."""
ATTEMPTS = 8
"""Draws after which a valid combination is chosen from the list or solved for."""
UNSATISFIABLE, GIVEN_UP = -1, -2
"""Codes in place of an individual: there is none, or the solver gave up."""
_ERROR = Fraction(1, 2**52)
"""Twice what one rounding can do, relative to the result."""
_TINY = Fraction(1, 2**1000)
"""More than what a rounding can do near zero."""
_HUGE = 2**1000
"""Beyond this a calculation may overflow, which makes it missing."""
_WHOLE = 2**50
"""Quotients below this have an exact floor."""
JUDGED = 2**17
"""Codes of a numeric attribute up to which conditions on it alone are judged code by code."""
INTERVALS = 64
"""Intervals of codes that such a condition may have; beyond them it is translated as a calculation."""
WORK = 1000
"""Units of z3's own count of work in a millisecond; measured, 700 to 2800."""
LONGEST_MS = 1_000_000
"""The longest limit; z3 counts work in 32 bits."""
PATIENCE = 4
"""Factor of its limit that a call may take by the clock, if the count of work does not stop it."""
REFUSED = 200
"""Solutions of the formulas that break a constraint, by a rounding, in a row after which a box is given up."""


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
        # Equal to one value means different from all others; two different values leave nothing.
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
        """The start of the codes of a nominal attribute in ``allowed``, by column."""
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
    """Split a space's constraints into ties."""
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
        """Return solutions without any codes."""
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


@dataclass(frozen=True)
class Solved:
    """Members of boxes."""

    rows: Rows
    """One row of codes a box; in every column ``UNSATISFIABLE`` where the box was proved to have no valid member, or
    ``GIVEN_UP`` where the solver reached its limit."""

    @property
    def found(self) -> Mask:
        """Which boxes have a member."""
        return np.asarray(self.rows[:, 0] >= 0)

    @property
    def unsatisfiable(self) -> int:
        """How many boxes were proved to have no valid member."""
        return int((self.rows[:, 0] == UNSATISFIABLE).sum())

    @property
    def timeouts(self) -> int:
        """How many boxes the solver gave up at its limit."""
        return int((self.rows[:, 0] == GIVEN_UP).sum())


def check_solvable(space: Space) -> None:
    """Raise if the solver may be needed but is missing, or cannot use the constraints."""
    for tie in ties(space):
        if tie.table is None:
            Solver(tie, LIMIT_MS)


def solve_nearest(boxes: Boxes, rows: Rows, *, limit_ms: int = LIMIT_MS) -> Solved:
    """Find the valid member of box ``i`` nearest to row ``i``.

    Nearest is the member that changes the fewest attributes; of those, the one at the least distance (differences of
    codes of ordered attributes, 1 for a nominal one that changes); of those, the one with the smallest codes in the
    space's order. So the answer does not depend on the technique.

    Rows need neither lie in the boxes nor be valid. ``limit_ms`` is how long one call of the solver may take, counted
    as work, so that repeated runs give up at the same places. Only constraints on more than four million combinations
    need the solver.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer("age", 0, 9), Integer("hours", 0, 9), Nominal("sex", ["F", "M"])]
    >>> space = Space(attributes, protected=["sex"], constraints=["hours <= age"])
    >>> low = Boxes.all(space, 2).restrict([0, 1], [0, 0], [3, -1], [True, True])
    >>> solved = solve_nearest(low, np.array([[7, 5, 1], [7, 5, 1]], dtype=np.int32))
    >>> solved.rows.tolist(), solved.unsatisfiable
    ([[3, 3, 1], [-1, -1, -1]], 1)
    """
    out, state = boxes.nearest(rows), _known(boxes)
    # The clamped row is, column by column, the best that its box has. Where it is valid it is therefore the best of
    # the valid members, which are some of all; and so for the columns of each tie alone.
    for tie in ties(boxes.space):
        which = _broken(tie, out, state)
        if len(which):
            _enter(tie, which, _nearest(tie, boxes[which], rows[which], limit_ms), out, state)
    return _result(out, state)


def solve_any(boxes: Boxes, stream: Stream, walkers: npt.ArrayLike, step: int, *, limit_ms: int = LIMIT_MS) -> Solved:
    """Find a random valid member of each box.

    Members are drawn; attributes whose draw breaks a constraint are drawn again, some times, and then chosen from the
    list of their valid combinations: all valid members of a box are equally likely. Only where constraints tie more
    than four million combinations together, so that there is no list, they become the nearest to what was drawn.

    Draws depend on the stream, one number a box (``walkers``), and the step.

    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> attributes = [Integer("age", 0, 9), Integer("hours", 0, 9), Nominal("sex", ["F", "M"])]
    >>> space = Space(attributes, protected=["sex"], constraints=["hours == age + 9"])
    >>> solve_any(Boxes.all(space, 3), Stream(0), np.arange(3), 0).rows[:, :2].tolist()
    [[0, 9], [0, 9], [0, 9]]
    """
    numbers = np.broadcast_to(np.asarray(walkers), len(boxes))
    out, state = boxes.draw(stream, numbers, step), _known(boxes)
    for tie in ties(boxes.space):
        columns = np.array(tie.columns)
        which = _broken(tie, out, state)
        for attempt in range(1, ATTEMPTS):
            drawn = boxes[which].draw(stream, numbers[which], step, attempt=attempt, columns=columns)
            out[which[:, None], columns] = drawn
            which = which[~tie.valid(drawn)]
        if not len(which):
            continue
        if tie.table is None:
            solved = _nearest(tie, boxes[which], out[which], limit_ms)
        else:
            solved = choose(tie, boxes[which], stream.bits(f"tie{columns[0]}", numbers[which], step))
        _enter(tie, which, solved, out, state)
    return _result(out, state)


def _known(boxes: Boxes) -> npt.NDArray[np.int8]:
    return np.where(boxes.empty, NONE, FOUND).astype(np.int8)


def _broken(tie: Tie, rows: Rows, state: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Find the individuals, not lost yet, that break a constraint of the tie."""
    which = np.flatnonzero(state == FOUND)
    return which[~tie.valid(rows[which[:, None], np.array(tie.columns)])]


def _nearest(tie: Tie, boxes: Boxes, rows: Rows, limit_ms: int) -> Solutions:
    out = rings(tie, boxes, rows)
    rest = np.flatnonzero(out.state == OPEN)
    if len(rest):
        if tie.table is not None:
            solved = scan(tie, boxes[rest], rows[rest])
        else:
            # A new solver for every call, because what a solver has learned changes where it gives up, and a resumed
            # run reads earlier solutions from its log.
            solved = Solver(tie, limit_ms).nearest(boxes[rest], rows[rest], out.least[rest])
        out.codes[rest], out.state[rest] = solved.codes, solved.state
    return out


def _enter(tie: Tie, which: npt.NDArray[np.int64], solved: Solutions, rows: Rows, state: npt.NDArray[np.int8]) -> None:
    rows[which[:, None], np.array(tie.columns)] = solved.codes
    state[which] = solved.state


def _result(rows: Rows, state: npt.NDArray[np.int8]) -> Solved:
    rows[state == NONE] = UNSATISFIABLE
    rows[state == TIMEOUT] = GIVEN_UP
    return Solved(rows)


def import_z3() -> Any:
    """Import z3; if it is missing, raise an error that names the extra."""
    try:
        import z3
    except ImportError as error:
        raise MissingExtra("z3-solver", "symbolic", "solving constraints on very many combinations") from error
    return z3


class Number(NamedTuple):
    """A value: its term, the condition for being missing, and properties if it is not missing."""

    term: Any
    missing: tuple[Any, ...]
    low: Fraction
    high: Fraction
    grid: Fraction | None = None
    """All values are multiples of this power of two, and exact; None if they may be rounded."""
    apart: Fraction | None = None
    """No value but zero itself is nearer to zero than this; None if that is not known."""

    @property
    def largest(self) -> Fraction:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def smallest(self) -> Fraction | None:
        """The smallest absolute value other than zero, if it is known."""
        return max(self.low, -self.high) if self.low > 0 or self.high < 0 else self.apart


class Terms:
    """Translates calculations with some attributes; ``facts`` are the conditions on the new unknowns."""

    def __init__(self, attributes: Sequence[Attribute], codes: Sequence[Any]) -> None:
        self.z3 = import_z3()
        self.attributes = {a.name: a for a in attributes}
        self.codes = dict(zip(self.attributes, codes, strict=True))
        self.context = codes[0].ctx
        self.facts: list[Any] = []
        self._text = ""
        self._numbers: dict[Value, Number] = {}

    def number(self, node: Value) -> Number:
        """Translate a calculation; equal ones share their unknowns."""
        if node not in self._numbers:
            match node:
                case Literal(value):
                    exact = Fraction(float(value))
                    grid = _grid(exact)
                    self._numbers[node] = Number(self.constant(exact), (), exact, exact, grid, grid)
                case Column(name):
                    self._numbers[node] = self._column(self.attributes[name], self.codes[name])
                case Arithmetic(op, left, right):
                    self._numbers[node] = self._calculated(op, self.number(left), self.number(right))
        return self._numbers[node]

    def constant(self, value: Fraction) -> Any:
        """Return a number as a term."""
        if value.denominator == 1:
            return self.z3.IntVal(value.numerator, self.context)
        return self.z3.Q(value.numerator, value.denominator, self.context)

    def _column(self, attribute: Attribute, code: Any) -> Number:
        assert isinstance(attribute, Integer | Real)
        low, step = Fraction(attribute.low), Fraction(attribute.step or 1)
        high = low + step * (attribute.present - 1)
        missing = (code == attribute.present,) if attribute.has_missing else ()
        term = code if step == 1 else self.constant(step) * code
        term = self.constant(low) + term if low else term
        grid = min(_grid(low), _grid(step))
        decimals = (attribute._decimals or 0) if isinstance(attribute, Real) else 0
        # Rounding to decimals changes nothing while the shifted number is a whole one that a float can be.
        most = abs(low) + step * attribute.present
        if most * 10**decimals <= 2**53 * min(grid, Fraction(1)):
            return Number(term, missing, low, high, grid, grid)
        nearest = min(max(math.floor(-low / step), 0), attribute.present - 1)
        around = np.arange(max(nearest - 2, 0), min(nearest + 3, attribute.present))
        values = np.abs(attribute.decode(around).astype(np.float64))
        apart = Fraction(float(values[values > 0].min())) if (values > 0).any() else None
        return self._near(term, missing, low, high, 8 * _ERROR * most)._replace(apart=apart)

    def _calculated(self, op: str, a: Number, b: Number) -> Number:
        missing = a.missing + b.missing
        if op == "*":
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            grid = a.grid * b.grid if a.grid and b.grid else None
            return self._rounded(a.term * b.term, missing, min(corners), max(corners), grid)
        if op in "+-":
            grid = min(a.grid, b.grid) if a.grid and b.grid else None
            if op == "+":
                return self._rounded(a.term + b.term, missing, a.low + b.low, a.high + b.high, grid)
            return self._rounded(a.term - b.term, missing, a.low - b.high, a.high - b.low, grid)
        if b.low <= 0 <= b.high:
            missing += (b.term == 0,)
        if b.low == b.high == 0:
            # Always missing, so that the value does not matter.
            return Number(self.constant(Fraction(0)), missing, Fraction(0), Fraction(0), Fraction(1), Fraction(1))
        if b.smallest is None:
            raise self._error("it divides by a rounded calculation that may come arbitrarily near zero")
        most = a.largest / b.smallest
        return self._divided(a, b, missing, most) if op == "/" else self._floored(op, a, b, missing, most)

    def _divided(self, a: Number, b: Number, missing: tuple[Any, ...], most: Fraction) -> Number:
        if b.low == b.high:
            # A power of two divides without rounding.
            grid = a.grid / abs(b.low) if a.grid and _grid(b.low) == abs(b.low) else None
            ends = sorted((a.low / b.low, a.high / b.low))
            return self._rounded(a.term * self.constant(1 / b.low), missing, ends[0], ends[1], grid)
        self._check(most)
        term = self._unknown(self.z3.Real)
        error = self.constant(_ERROR * a.largest + _TINY * b.largest)
        rest = term * b.term - a.term
        self.facts.append(self.z3.Implies(b.term != 0, self.z3.And(rest <= error, -error <= rest)))
        return Number(term, missing, -2 * most, 2 * most)

    def _floored(self, op: str, a: Number, b: Number, missing: tuple[Any, ...], most: Fraction) -> Number:
        """Translate ``//`` and ``%``, which NumPy builds on the exact remainder of two floats."""
        if most > _WHOLE:
            raise self._error(f"its quotients may exceed {_WHOLE:.0e}")
        term = self._unknown(self.z3.Int)
        rest = a.term - term * b.term
        upward = self.z3.And(rest >= 0, rest < b.term)
        downward = self.z3.And(rest <= 0, rest > b.term)
        if b.low >= 0:
            self.facts.append(self.z3.Implies(b.term > 0, upward))
        elif b.high <= 0:
            self.facts.append(self.z3.Implies(b.term < 0, downward))
        else:
            self.facts.append(self.z3.And(self.z3.Implies(b.term > 0, upward), self.z3.Implies(b.term < 0, downward)))
        if op == "//":
            one = Fraction(1)
            return Number(term, missing, -most - 1, most + 1, one, one)
        grid = min(a.grid, b.grid) if a.grid and b.grid else None
        return self._rounded(rest, missing, min(b.low, Fraction(0)), max(b.high, Fraction(0)), grid)

    def _rounded(
        self, term: Any, missing: tuple[Any, ...], low: Fraction, high: Fraction, grid: Fraction | None
    ) -> Number:
        """Take a result as it is if it is exactly a float, else as an unknown near it."""
        largest = max(abs(low), abs(high))
        self._check(largest)
        if grid is not None and grid >= _TINY and largest <= grid * 2**53:
            return Number(term, missing, low, high, grid, grid)
        return self._near(term, missing, low, high, _ERROR * largest + _TINY)

    def _near(self, term: Any, missing: tuple[Any, ...], low: Fraction, high: Fraction, error: Fraction) -> Number:
        unknown, bound = self._unknown(self.z3.Real), self.constant(error)
        self.facts.append(self.z3.And(unknown - term <= bound, term - unknown <= bound))
        return Number(unknown, missing, low - error, high + error)

    def _unknown(self, sort: Any) -> Any:
        return sort(f"u{len(self.facts)}", self.context)

    def _check(self, largest: Fraction) -> None:
        if largest > _HUGE:
            raise self._error("its numbers may grow beyond 1e300")

    def _error(self, why: str) -> SpaceError:
        remedy = "write it with smaller numbers or without the division, or narrow its attributes"
        return SpaceError(
            f"the constraint {shown(self._text)} cannot be translated for the solver: {why}", remedy=remedy
        )


def _grid(value: Fraction) -> Fraction:
    """Return the largest power of two that divides a number."""
    return Fraction(value.numerator & -value.numerator, value.denominator) if value else Fraction(1)


class Formulas(Terms):
    """Translates constraints on some attributes, whose codes are given as integer unknowns of the solver."""

    def formula(self, constraint: Constraint) -> Any:
        """Translate a constraint; raise if its calculations have no bounds."""
        self._text = constraint.text
        return self.condition(constraint.tree)

    def intervals(self, code: Any, mask: npt.NDArray[np.bool_]) -> Any:
        """Return the condition that a code is one of those in the mask."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False]))))
        spans = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        return self._any([code == a if a + 1 == b else self._all(code >= a, code < b) for a, b in spans])

    def condition(self, node: Condition) -> Any:
        """Translate a condition."""
        alone = self._alone(node)
        if alone is not None:
            return alone
        match node:
            case And(parts):
                return self._all(*[self.condition(part) for part in parts])
            case Or(parts):
                return self._any([self.condition(part) for part in parts])
            case Not(part):
                return self.z3.Not(self.condition(part))
            case Missing(operand):
                return self._any(list(self.number(operand).missing))
            case Member(operand, values):
                number = self.number(operand)
                options = [number.term == self.constant(Fraction(float(value))) for value in values]
                return self._present(self._any(options), number)
            case Compare(op, left, right):
                if listed(left, self.attributes) is not None:
                    return self._listed(op, left, right)
                a, b = self.number(left), self.number(right)
                return self._present(COMPARE[op](a.term, b.term), a, b)

    def _alone(self, node: Condition) -> Any:
        """Judge a condition on at most one attribute code by code; None if that would be too long."""
        names = {part.name for part in walk(node) if isinstance(part, Column)}
        if len(names) > 1:
            return None
        attribute = self.attributes[next(iter(names), next(iter(self.attributes)))]
        numeric = isinstance(attribute, Integer | Real)
        if numeric and attribute.size > JUDGED:
            return None
        with np.errstate(all="ignore"):
            truth = Columns([attribute], {attribute.name: np.arange(attribute.size)}, coded=True).truth(node)
        mask = np.broadcast_to(np.asarray(truth, dtype=bool), attribute.size)
        if numeric and np.count_nonzero(np.diff(mask)) > 2 * INTERVALS:
            return None
        return self.intervals(self.codes[attribute.name], mask)

    def _listed(self, op: str, left: Value, right: Value) -> Any:
        """Compare two attributes with listed values."""
        first, second = listed(left, self.attributes), listed(right, self.attributes)
        assert first is not None
        assert second is not None
        a, b = self.codes[first.name], self.codes[second.name]
        present = [code < own.present for code, own in ((a, first), (b, second)) if own.has_missing]
        if first.values == second.values:
            return self._all(COMPARE[op](a, b), *present)
        common = [(first._index[value], k) for k, value in enumerate(second.values) if value in first._index]
        same = self._any([self._all(a == i, b == k) for i, k in common])
        return self._all(same if op == "==" else self.z3.Not(same), *present)

    def _present(self, truth: Any, *numbers: Number) -> Any:
        return self._all(truth, *[self.z3.Not(when) for number in numbers for when in number.missing])

    def _all(self, *parts: Any) -> Any:
        return parts[0] if len(parts) == 1 else self.z3.And(*parts)

    def _any(self, parts: list[Any]) -> Any:
        if not parts:
            return self.z3.BoolVal(False, self.context)
        return parts[0] if len(parts) == 1 else self.z3.Or(*parts)


class GaveUp(Exception):
    """The solver reached its limit without an answer."""


class Solver:
    """Solves boxes of one tie; the domain and the constraints are added once, each box is pushed and popped.

    The limit counts z3's work and not time, so that a repeated run gives up at the same places. The clock is a second,
    wider limit.
    """

    def __init__(self, tie: Tie, limit_ms: int) -> None:
        check_int("limit_ms", limit_ms, SpaceError, 1, LONGEST_MS)
        self.z3 = import_z3()
        self.tie = tie
        context = self.z3.Context()
        self.solver = self.z3.Solver(ctx=context)
        # z3 would catch Ctrl-C and report "unknown".
        self.solver.set("ctrl_c", False)
        self.solver.set("rlimit", limit_ms * WORK)
        self.solver.set("timeout", limit_ms * PATIENCE)
        self.codes = [self.z3.Int(f"c{j}", context) for j in tie.columns]
        attributes = [tie.space.attributes[j] for j in tie.columns]
        for code, attribute in zip(self.codes, attributes, strict=True):
            self.solver.add(code >= 0, code < attribute.size)
        self.formulas = Formulas(attributes, self.codes)
        for constraint in tie.constraints:
            self.solver.add(self.formulas.formula(constraint))
        self.solver.add(*self.formulas.facts)
        if self.solver.check() == self.z3.unsat:
            raise contradiction(c.text for c in tie.constraints)

    def nearest(self, boxes: Boxes, rows: Rows, least: Any) -> Solutions:
        """Find the nearest valid combination of each box; ``least`` is how many attributes change at least."""
        out = Solutions.blank(self.tie, len(rows), TIMEOUT)
        for i in range(len(rows)):
            self.solver.push()
            try:
                codes = self._solved(boxes[i : i + 1], rows[i], int(least[i]))
                out.state[i] = NONE if codes is None else FOUND
                out.codes[i] = -1 if codes is None else codes
            except GaveUp:
                pass
            finally:
                self.solver.pop()
        return out

    def _solved(self, box: Boxes, row: npt.NDArray[np.int32], least: int) -> list[int] | None:
        z3, ordered = self.z3, self.tie.space.ordered
        own = row[list(self.tie.columns)].tolist()
        changes, gaps = [], []
        for code, j, mine in zip(self.codes, self.tie.columns, own, strict=True):
            changes.append(z3.If(code == mine, 0, 1))
            if not ordered[j]:
                self.solver.add(self.formulas.intervals(code, box.codes(j)[0]))
                gaps.append(changes[-1])
                continue
            low, high = int(box.low[0, j]), int(box.high[0, j])
            self.solver.add(code >= low, code <= high)
            if mine <= low or mine >= high:
                gaps.append(code - mine if mine <= low else mine - code)
            else:
                gaps.append(z3.If(code >= mine, code - mine, mine - code))
        best = self._find()
        if best is None:
            return None
        best = self._fewest(z3.Sum(changes), own, least, best)
        clamped = box.nearest(row[None])[0, list(self.tie.columns)]
        best = self._least(z3.Sum(gaps), lambda codes: self._distance(codes, own), self._distance(clamped, own), best)
        # The optimum is nearly always the only one; where it is not, each code in turn is made as small as it can be.
        smaller = z3.BoolVal(False, self.solver.ctx)
        for code, value in zip(reversed(self.codes), reversed(best), strict=True):
            smaller = z3.Or(code < value, z3.And(code == value, smaller))
        if self._find(smaller) is None:
            return best
        for i, code in enumerate(self.codes):
            best = self._least(code, operator.itemgetter(i), 0, best)
        return best

    def _fewest(self, changes: Any, own: list[int], least: int, best: list[int]) -> list[int]:
        """Let more and more attributes change; usually the first attempt succeeds."""
        count = sum(a != b for a, b in zip(best, own, strict=True))
        for most in range(least, count):
            found = self._find(changes <= most)
            if found is not None:
                count, best = most, found
                break
        self.solver.add(changes <= count)
        return best

    def _least(self, term: Any, measure: Callable[[list[int]], int], low: int, best: list[int]) -> list[int]:
        """Minimise a term by bisection, and fix it."""
        high = measure(best)
        middle = high - 1
        while low < high:
            found = self._find(term <= middle)
            if found is None:
                low = middle + 1
            else:
                best, high = found, measure(found)
            middle = (low + high) // 2
        self.solver.add(term <= high)
        return best

    def _distance(self, codes: npt.ArrayLike, own: npt.ArrayLike) -> int:
        return int(self.tie.distance(np.asarray(codes, dtype=np.int32), np.asarray(own, dtype=np.int32)))

    def _find(self, *conditions: Any) -> list[int] | None:
        """Find any valid combination under more conditions; None if there is none."""
        switch = self.z3.FreshBool("s", ctx=self.solver.ctx)
        self.solver.add(self.z3.Implies(switch, self.z3.And(self.z3.BoolVal(True, self.solver.ctx), *conditions)))
        for _ in range(REFUSED):
            answer = self.solver.check(switch)
            if answer == self.z3.unsat:
                return None
            if answer == self.z3.unknown:
                raise GaveUp
            model = self.solver.model()
            codes = [model.eval(code, model_completion=True).as_long() for code in self.codes]
            broken = self._broken(codes)
            if not broken:
                return codes
            # A float was rounded: the formulas allow what a constraint does not. Exclude the values of its attributes.
            for columns in broken:
                self.solver.add(self.z3.Or(*[self.codes[i] != codes[i] for i in columns]))
        raise GaveUp

    def _broken(self, codes: list[int]) -> list[list[int]]:
        """The places of the attributes of each constraint that a combination breaks."""
        names = [self.tie.space.names[j] for j in self.tie.columns]
        row = {name: np.array([code]) for name, code in zip(names, codes, strict=True)}
        return [
            [names.index(name) for name in constraint.names]
            for constraint in self.tie.constraints
            if not constraint.holds_codes(row)[0]
        ]
