"""Uniform valid individuals, drawn by a counter.

A sampler returns the draws ``start .. start + n`` of a stream. Attributes that no constraint mentions are drawn
independently; attributes tied together by constraints are drawn from the list of their valid combinations, so that
tight constraints cost nothing and contradictory ones are found at once. Only where such a list would be too long are
individuals drawn freely and invalid ones left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit
from evenhand._rng import Stream
from evenhand.errors import SpaceError
from evenhand.spaces.constraints import Constraint
from evenhand.spaces.expressions import shown
from evenhand.spaces.individuals import Individuals, limbs

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

LISTED = 2**22
"""Combinations of tied attributes up to which the valid ones are listed."""
DECK = 2**32
"""Individuals up to which a space is drawn like a shuffled deck, so that none comes twice."""
HOPELESS = 2**20
"""Draws without one valid individual after which a space is taken to have none."""


@dataclass(frozen=True)
class Digit:
    """One independent part of an individual: some columns, and their valid codes (None: all of one column)."""

    columns: tuple[int, ...]
    count: int
    table: npt.NDArray[np.int32] | None = None


class Sampler:
    """Draws uniform valid individuals of a space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.digits, self.rejects = _digits(space)
        self.count = math.prod(digit.count for digit in self.digits)
        """How many individuals it can draw (valid ones, unless it rejects)."""
        self.deck = self.count <= DECK
        # One 64-bit draw serves each group with a bias below 2**-32.
        self._groups = limbs([(digit, digit.count) for digit in self.digits], 2**32)

    def draw(self, stream: Stream, start: int, n: int, *, repeats: bool = False) -> tuple[Individuals, int]:
        """Return up to ``n`` individuals and the counter after them; fewer when the deck ends.

        With ``repeats`` draws are independent in a small space too: an individual may come twice, and draws never end.
        """
        deck = self.deck and not repeats
        if not self.rejects:
            return self._block(stream, start, n, deck)
        parts: list[Individuals] = []
        found, lost = 0, 0
        while found < n:
            block, end = self._block(stream, start, max(n - found, 1024), deck)
            if not len(block):
                break
            valid = np.flatnonzero(self.space.valid(block.rows))[: n - found]
            # The counter stops right behind the last one taken, where the next call goes on.
            start = end if found + len(valid) < n else start + int(valid[-1]) + 1
            lost = 0 if len(valid) else lost + len(block)
            if lost >= HOPELESS:
                raise SpaceError(
                    f"no valid individual in {lost:,} draws; the constraints contradict each other or are very tight",
                    remedy="loosen them, or narrow the attributes' bounds",
                )
            parts.append(block[valid])
            found += len(valid)
        return (Individuals.join(parts) if parts else self._block(stream, 0, 0, deck)[0]), start

    def _block(self, stream: Stream, start: int, n: int, deck: bool) -> tuple[Individuals, int]:
        if deck:
            n = max(0, min(n, self.count - start))
        counter = np.arange(start, start + n)
        if deck:
            parts = [stream.shuffled(counter, self.count, "deck")] if n else [counter]
            groups = [(self.digits, self.count)]
        else:
            parts = [stream.below(size, "sample", counter, i) for i, (_, size) in enumerate(self._groups)]
            groups = self._groups
        return self._build(parts, groups), start + n

    def _build(self, parts: list[npt.NDArray[np.int64]], groups: list[tuple[list[Digit], int]]) -> Individuals:
        coding = self.space.coding
        if coding.fits and all(digit.table is None for digit in self.digits):
            # Digits are in the order of the ids, so that a group's number is a piece of the id as it stands.
            ids = np.zeros(len(parts[0]), dtype=np.int64)
            for part, (digits, _) in zip(parts, groups, strict=True):
                ids += part * np.int64(coding.radix[digits[-1].columns[0]])
            return Individuals(self.space, ids=ids)
        rows = np.empty((len(parts[0]), len(coding.sizes)), dtype=np.int32)
        for part, (digits, _) in zip(parts, groups, strict=True):
            rest = part
            for digit in reversed(digits):
                rest, index = np.divmod(rest, digit.count)
                if digit.table is None:
                    rows[:, digit.columns[0]] = index
                else:
                    rows[:, list(digit.columns)] = digit.table[index]
        return Individuals(self.space, rows=rows)


def _digits(space: Space) -> tuple[list[Digit], bool]:
    """Split a space into independent parts; return also whether some constraint could not be listed."""
    digits: list[Digit] = []
    rejects = False
    tied = components(space)
    for columns in tied:
        size = math.prod(space.coding.sizes[j] for j in columns)
        if size > LISTED:
            rejects = True
            digits += [Digit((j,), space.coding.sizes[j]) for j in columns]
            continue
        table = _valid_table(space, columns)
        if not len(table):
            raise contradiction(c.text for c in tying(space, columns))
        digits.append(Digit(columns, len(table), table))
    used = {j for columns in tied for j in columns}
    digits += [Digit((j,), space.coding.sizes[j]) for j in space.coding.order if j not in used]
    position = {j: i for i, j in enumerate(space.coding.order)}
    return sorted(digits, key=lambda digit: position[digit.columns[0]]), rejects


def components(space: Space) -> list[tuple[int, ...]]:
    """Group the columns that constraints tie together."""
    groups: list[set[int]] = []
    for constraint in space.constraints:
        group = {space.column(name) for name in constraint.names}
        for other in [g for g in groups if g & group]:
            groups.remove(other)
            group |= other
        groups.append(group)
    return [tuple(sorted(group)) for group in groups if group]


def tying(space: Space, columns: Sequence[int]) -> list[Constraint]:
    """Return the constraints that mention no other columns."""
    names = {space.names[j] for j in columns}
    return [constraint for constraint in space.constraints if names.issuperset(constraint.names)]


def contradiction(texts: Iterable[str]) -> SpaceError:
    """Make the error for constraints that no individual meets.

    >>> print(contradiction(["age > 9"]))
    no valid individual: 'age > 9' cannot hold together; loosen one of them or widen an attribute's bounds
    """
    together = " and ".join(map(shown, texts))
    remedy = "loosen one of them or widen an attribute's bounds"
    return SpaceError(f"no valid individual: {together} cannot hold together", remedy=remedy)


def _valid_table(space: Space, columns: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """List the valid combinations of some columns."""
    sizes, constraints = [space.coding.sizes[j] for j in columns], tying(space, columns)
    work = math.prod(sizes) * sum(constraint.conditions for constraint in constraints)
    where = f"the constraints on {sorted(space.names[j] for j in columns)[:3]}"
    check_limit("constraint_work", work, where, "write fewer or shorter ones")
    codes = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1)
    by_name = {space.names[j]: codes[i] for i, j in enumerate(columns)}
    valid = np.ones(codes.shape[1], dtype=bool)
    cache: dict[str, npt.NDArray[Any]] = {}
    for constraint in constraints:
        valid &= constraint.holds_codes(by_name, cache)
    return np.ascontiguousarray(codes[:, valid].T)
