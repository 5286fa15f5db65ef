"""Whom a score is averaged over: everyone who differs in protected attributes only, whoever of them is asked about.

Without links these are the combinations of protected values. With links the counterparts of a person are other people
in more than the protected attributes, and who counts as whose counterpart need not go both ways: a female husband's
counterpart is a husband, whose counterpart is a wife. Scores are equal for all of them only if they are equal along
every such chain, so people that a chain joins are *neighbours*. A chain ends among people who have each other as
counterparts; those are the members that scores are averaged over (husband and wife, not the female husband).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import count
from evenhand.errors import SpaceError
from evenhand.spaces.individuals import Rows
from evenhand.spaces.tabular import Space

Shares = tuple[tuple[tuple[Any, ...], float], ...]
"""Combinations of protected values, each with its weight."""
KEEP = -1
"""The code of a value that stays the row's own."""
LARGEST = 2**22
"""The most counterparts that are listed to follow links."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The members of every family, padded to one width.

    ``columns`` are the protected ones, then those that follow them; ``codes`` holds what members have there.
    Family 0 has all combinations and keeps what is linked: of a row whose linked values the space does not know.
    """

    space: Space
    columns: tuple[int, ...]
    codes: Rows
    places: npt.NDArray[np.int64]
    """(families, width): rows of ``codes``."""
    weights: npt.NDArray[np.float64]
    """(families, width): what a member counts; NaN where there is none."""
    lookup: npt.NDArray[np.int64] | None
    """The family of each combination of protected and linked codes, by its number; None without links."""
    sampled: bool
    """Whether there were too many combinations, and some stand for all."""

    def families(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Tell the family of rows, given their codes in ``columns``; a protected code of -1 is taken as the first."""
        if self.lookup is None:
            return np.zeros(len(codes), dtype=np.int64)
        protected = len(self.space.protected_columns)
        known = (codes[:, protected:] >= 0).all(axis=1)
        sizes = [self.space.attributes[j].size for j in self.columns]
        number = np.ravel_multi_index(tuple(np.maximum(codes, 0).T), tuple(sizes))
        return np.where(known, self.lookup[number], 0)


@lru_cache(maxsize=16)
def neighbours_of(space: Space, shares: Shares | None = None) -> Neighbours:
    """List the families of a space; ``shares`` are the combinations that count, by default all of them alike.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> neighbours = neighbours_of(Space([Integer("age", 1, 9), Boolean("sex")], protected="sex"))
    >>> neighbours.codes.tolist(), neighbours.weights.tolist()
    ([[0], [1]], [[0.5, 0.5]])
    """
    chosen, weights, sampled = _chosen(space, shares)
    linked = tuple(j for j in space.free_columns if j not in space.unlinked_columns)
    columns = (*space.protected_columns, *linked)
    plain = np.hstack([chosen, np.full((len(chosen), len(linked)), KEEP, dtype=np.int32)])
    places = np.arange(len(chosen))[None]
    if not linked:
        return Neighbours(space, columns, plain, places, weights[None], None, sampled)
    codes, lookup, members = _joined(space, columns)
    by_combination = {tuple(row): weight for row, weight in zip(chosen.tolist(), weights.tolist(), strict=True)}
    width = max(len(chosen), *(len(rows) for rows in members))
    all_places = np.zeros((len(members) + 1, width), dtype=np.int64)
    all_weights = np.full((len(members) + 1, width), np.nan)
    all_weights[0, : len(chosen)], all_places[0, : len(chosen)] = weights, places
    for family, rows in enumerate(members, 1):
        combinations = [tuple(row) for row in codes[rows, : len(space.protected_columns)].tolist()]
        all_places[family, : len(rows)] = rows + len(plain)
        # Two members with the same protected values share what these count.
        all_weights[family, : len(rows)] = [
            by_combination.get(combination, 0.0) / combinations.count(combination) for combination in combinations
        ]
    return Neighbours(space, columns, np.vstack([plain, codes]), all_places, all_weights, lookup + 1, sampled)


def _chosen(space: Space, shares: Shares | None) -> tuple[Rows, npt.NDArray[np.float64], bool]:
    """Give the combinations that count, in the order of their numbers, what each counts, and whether some are left out.

    Of too many, one is taken from the middle of each of equal stretches; of too many shares the largest.
    """
    sizes = [space.attributes[j].size for j in space.protected_columns]
    total, limit = space.combinations, space.max_family_size
    if shares is None:
        # Python's own numbers: there may be more combinations than 64 bits count.
        step, first = (1, 0) if total <= limit else (total // limit, total // (2 * limit))
        numbers = [place * step + first for place in range(min(total, limit))]
        weights = np.full(len(numbers), 1.0)
    else:
        counted = _numbered(space, shares, sizes)
        if total <= limit:
            # Who counts nothing is asked all the same where nobody else is valid.
            counted = dict.fromkeys(range(total), 0.0) | counted
        largest = sorted(counted, key=lambda number: (-counted[number], number))[:limit]
        numbers = sorted(largest)
        weights = np.array([counted[number] for number in numbers])
        total = len(counted)
    rest, codes = np.array(numbers, dtype=object), np.empty((len(numbers), len(sizes)), dtype=np.int32)
    for i in reversed(range(len(sizes))):
        rest, codes[:, i] = rest // sizes[i], rest % sizes[i]
    return codes, weights / weights.sum(), total > limit


def _numbered(space: Space, shares: Shares, sizes: Sequence[int]) -> dict[int, float]:
    out: dict[int, float] = {}
    for values, weight in shares:
        if len(values) != len(sizes):
            raise SpaceError(f"weights: {values!r} must name a value of each of {', '.join(space.protected)}")
        pairs = zip(space.protected_columns, values, strict=True)
        codes = [space.attributes[j].code(value) for j, value in pairs]
        number = 0
        for code, size in zip(codes, sizes, strict=True):
            number = number * size + int(code)
        if number in out:
            raise SpaceError(f"weights: {values!r} is there twice; name each combination once")
        if not weight >= 0 or not np.isfinite(weight):
            raise SpaceError(f"weights: {values!r} counts {weight!r}; give a finite number, 0 or more")
        out[number] = float(weight)
    if not sum(out.values()) > 0:
        raise SpaceError("weights: nobody counts anything; give at least one combination a weight above 0")
    return out


def _joined(space: Space, columns: tuple[int, ...]) -> tuple[Rows, npt.NDArray[np.int64], list[npt.NDArray[np.int64]]]:
    """Follow links to the end: all codes, the family of each, and the members that each family ends in."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    small = Space(
        [space.attributes[j] for j in columns],
        space.protected,
        links=space.links,
        max_family_size=space.max_family_size,
    )
    total, width = small.coding.total, small.combinations
    if total * width > LARGEST:
        raise SpaceError(
            f"links join {count(total)} combinations of protected and linked values, with {count(width)} counterparts "
            f"each; {LARGEST:,} in all is the most: link or protect less"
        )
    # Numbered as ravel_multi_index does, which need not be the space's own order.
    codes = np.stack(np.unravel_index(np.arange(total), [a.size for a in small.attributes]), axis=1).astype(np.int32)
    family = small.families(small.individuals(codes), 0).rows.reshape(-1, len(columns))
    reached = np.ravel_multi_index(tuple(family.T), tuple(a.size for a in small.attributes))
    start = np.repeat(np.arange(total), width)
    graph = coo_array((np.ones(len(start), dtype=bool), (start, reached)), shape=(total, total)).tocsr()
    kinds, joined = connected_components(graph, directed=True, connection="weak")
    rounds, strong = connected_components(graph, directed=True, connection="strong")
    ends = np.ones(rounds, dtype=bool)
    ends[strong[start[strong[start] != strong[reached]]]] = False
    last = ends[strong]
    return codes, joined.astype(np.int64), [np.flatnonzero(last & (joined == kind)) for kind in range(kinds)]


def as_shares(weights: Mapping[Any, float], space: Space) -> Shares:
    """Write weights by combination (a tuple, or the value itself where one attribute is protected) in one form.

    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> as_shares({True: 3, False: 1}, Space([Integer("age", 1, 9), Boolean("sex")], protected="sex"))
    (((True,), 3.0), ((False,), 1.0))
    """
    if not isinstance(weights, Mapping):
        raise SpaceError(
            'weights must be None, "data" or a mapping of protected values to numbers such as\n'
            f"{{'F': 0.5, 'M': 0.5}} (a tuple for several attributes), got {type(weights).__name__}"
        )
    several = len(space.protected) > 1
    shares = []
    for values, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float, np.integer, np.floating)):
            raise SpaceError(f"weights: {values!r} counts {weight!r}; give a finite number, 0 or more")
        shares.append((values if several and isinstance(values, tuple) else _single(values), float(weight)))
    return tuple(shares)


def _single(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) and len(values) == 1 else (values,)
