"""What a proof needs of a space: the members of every family, and exact numbers of valid individuals in boxes.

A *box* is an interval of codes for each free attribute. A *view* is one way of completing the free attributes to a row:
protected values, and the codes that linked attributes take with them. Links make it depend on the individual's own
protected values which views its family has; constraints make views invalid. A *pattern* says which views are valid for
which own values; the space is first split into boxes that have one pattern each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import SpaceError
from evenhand.spaces.individuals import LISTED, components, contradiction, tying
from evenhand.spaces.tabular import Space

Ints: TypeAlias = npt.NDArray[np.int64]
Boxes: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.int32]
VIEWS, ROOTS = 4096, 20_000
"""Maximum number of views, and of boxes with one pattern each."""
INSTEAD = "measure the share with an estimate instead (eh.estimate, or evenhand estimate)"
FAIR, UNFAIR, UNDECIDED, UNTESTABLE, INVALID = range(5)
"""Verdicts about the individuals of a box. Untestable: without a valid counterpart."""


@dataclass(frozen=True)
class View:
    """One way of completing free attributes: protected codes, and new codes of linked attributes by old ones."""

    protected: tuple[int, ...]
    maps: Mapping[int, Codes] = field(default_factory=dict)
    """By position among the free columns."""


@dataclass(frozen=True)
class Pattern:
    """The valid views of each group's families; an empty tuple where its individuals are not valid."""

    families: tuple[tuple[int, ...], ...]

    @cached_property
    def views(self) -> tuple[int, ...]:
        """All views of any family."""
        return tuple(sorted({view for family in self.families for view in family}))


@dataclass(frozen=True, eq=False)
class Root:
    """A box in which every group has one pattern."""

    low: Ints
    high: Ints
    pattern: int


@dataclass(frozen=True, eq=False)
class Tied:
    """Columns that constraints tie together: which combinations of codes of the free ones are valid, for each view."""

    columns: tuple[int, ...]
    """Positions among the free columns."""
    valid: npt.NDArray[np.bool_]
    """With an axis of views first, where the constraints concern what differs between views; otherwise without."""


class Domain:
    """The families of a space.

    Examples
    --------
    >>> from evenhand.spaces.attributes import Integer, Nominal
    >>> space = Space([Integer("age", 1, 9), Nominal("sex", ["F", "M"])], "sex", ["age >= 3 or sex == 'F'"])
    >>> domain = Domain(space)
    >>> [(root.low.tolist(), root.high.tolist()) for root in domain.roots]
    [([0], [1]), ([2], [8])]
    >>> int(domain.uniform.count(np.array([[2]]), np.array([[8]]))[0])
    7
    """

    def __init__(self, space: Space) -> None:
        if space.sampled:
            raise SpaceError(
                f"each individual is compared with a sample of its {space.combinations:,} counterparts",
                remedy=f"raise max_family_size, protect fewer attributes, or {INSTEAD}",
            )
        self.space = space
        self.columns = space.free_columns
        self.sizes = np.array([space.coding.sizes[j] for j in self.columns], dtype=np.int64)
        self.place = {j: i for i, j in enumerate(self.columns)}
        self.combinations = list(itertools.product(*(range(space.coding.sizes[j]) for j in space.protected_columns)))
        self.views, self._families = _views(self)
        self.tied: list[Tied] = []
        """Constraints whose validity is the same for all members of a family."""
        self.varying: list[Tied] = []
        """Constraints that may allow some members of a family only, with an axis of views."""
        for columns in components(space):
            self._add(columns)
        self.single = not (space.links or self.varying)
        """Whether the own protected values of an individual do not matter."""
        self.groups = [tuple(range(len(self.combinations)))] if self.single else [
            (i,) for i in range(len(self.combinations))
        ]  # fmt: skip
        """Own combinations of protected values with a common verdict in every box."""
        self.patterns: list[Pattern] = []
        self.uniform = Measure(self, None)
        self.roots = list(self._roots())

    def _add(self, columns: tuple[int, ...]) -> None:
        linked = {j for dependents in self.space.link_tables.values() for j in dependents}
        free = tuple(j for j in columns if j in self.place)
        varies = len(free) < len(columns) or bool(linked & set(columns))
        size = math.prod(self.space.coding.sizes[j] for j in free) * (len(self.views) if varies else 1)
        names = [self.space.names[j] for j in columns]
        if size > LISTED:
            raise SpaceError(
                f"the constraints on {names[:4]} tie {size:,} combinations together, more than {LISTED:,}",
                remedy=f"narrow these attributes, or {INSTEAD}",
            )
        sizes = [self.space.coding.sizes[j] for j in free]
        codes = np.indices(sizes, dtype=np.int32).reshape(len(sizes), math.prod(sizes))
        valid = []
        for view in self.views if varies else self.views[:1]:
            by_name = dict(zip((self.space.names[j] for j in free), codes, strict=True))
            for i, table in view.maps.items():
                if varies and self.columns[i] in free:
                    by_name[self.space.names[self.columns[i]]] = table[codes[free.index(self.columns[i])]]
            for j, code in zip(self.space.protected_columns, view.protected, strict=True):
                by_name[self.space.names[j]] = np.full(codes.shape[1], code, dtype=np.int32)
            rules = tying(self.space, columns)
            one = reduce(np.logical_and, (rule.holds_codes(by_name) for rule in rules))
            valid.append(np.broadcast_to(one, codes.shape[1]).reshape(sizes))
        places = tuple(self.place[j] for j in free)
        if varies:
            self.varying.append(Tied(places, np.array(valid)))
        else:
            if not valid[0].any():
                raise contradiction(rule.text for rule in tying(self.space, columns))
            self.tied.append(Tied(places, valid[0]))

    def _roots(self) -> Iterator[Root]:
        numbers: dict[Pattern, int] = {}
        todo, found = [(np.zeros_like(self.sizes), self.sizes - 1)], 0
        while todo:
            low, high = todo.pop()
            cut = next(filter(None, (_cut(tied, low, high) for tied in self.varying)), None)
            if cut is None:
                found += 1
                if found > ROOTS:
                    raise SpaceError(
                        f"the constraints divide the space into more than {ROOTS:,} parts by what they allow a family",
                        remedy=INSTEAD,
                    )
                pattern = self._pattern(low)
                yield Root(low, high, numbers.setdefault(pattern, len(numbers)))
                if len(self.patterns) < len(numbers):
                    self.patterns.append(pattern)
                continue
            place, at = cut
            below, above = high.copy(), low.copy()
            below[place], above[place] = at - 1, at
            todo += [(above, high), (low, below)]

    def _pattern(self, low: Ints) -> Pattern:
        ok = np.ones(len(self.views), dtype=bool)
        for tied in self.varying:
            at: Any = (slice(None), *(int(low[i]) for i in tied.columns))
            ok &= tied.valid[at]
        if self.single:
            return Pattern((self._families[0],))
        families = []
        for own, family in enumerate(self._families):
            families.append(tuple(view for view in family if ok[view]) if ok[self.own(own)] else ())
        return Pattern(tuple(families))

    def family(self, group: int) -> tuple[list[int], int]:
        """Return the views of a group's families, before constraints, and the view of its first own values."""
        combination = self.groups[group][0]
        return list(self._families[combination]), self.own(combination)

    def own(self, combination: int) -> int:
        """Return the view that shows an individual with these protected values as it is."""
        return self._families[combination][combination]

    def first_valid(self, low: Ints, high: Ints) -> Ints:
        """Return codes of the free attributes of a valid individual in a box that has one."""
        free = low.astype(np.int64)
        for tied in self.tied:
            inside = tied.valid[tuple(slice(int(low[i]), int(high[i]) + 1) for i in tied.columns)]
            free[list(tied.columns)] += np.argwhere(inside)[0]
        return free

    def rows(self, free: npt.NDArray[Any], combination: int | Ints = 0) -> Codes:
        """Return rows of codes from codes of the free columns, with the own protected values."""
        rows = np.empty((len(free), len(self.space.names)), dtype=np.int32)
        rows[:, self.columns] = free
        rows[:, self.space.protected_columns] = np.array(self.combinations, dtype=np.int32)[combination]
        return rows

    def complete(self, free: npt.NDArray[Any], view: int) -> Codes:
        """Return rows of codes from codes of the free columns, in one view."""
        one = self.views[view]
        rows = self.rows(free)
        for i, table in one.maps.items():
            rows[:, self.columns[i]] = table[free[:, i]]
        rows[:, self.space.protected_columns] = one.protected
        return rows

    def own_of(self, rows: npt.NDArray[Any]) -> Ints:
        """Return the number of the own combination of protected values of rows of codes."""
        own = np.zeros(len(rows), dtype=np.int64)
        for j in self.space.protected_columns:
            own = own * self.space.coding.sizes[j] + rows[:, j]
        return own

    def verdicts(self, known: npt.NDArray[np.int64], pattern: Ints) -> npt.NDArray[np.int8]:
        """Judge boxes of some patterns by the decision of each view, -1 where unknown: one verdict for each group."""
        out = np.full((len(known), len(self.groups)), UNDECIDED, dtype=np.int8)
        largest = np.iinfo(known.dtype).max
        low = np.where(known < 0, largest, known)
        for number in np.unique(pattern):
            rows, done = np.flatnonzero(pattern == number), {}
            for group, family in enumerate(self.patterns[number].families):
                if len(family) < 2:
                    out[rows, group] = UNTESTABLE if family else INVALID
                    continue
                if family not in done:
                    least, most = low[np.ix_(rows, family)].min(axis=1), known[np.ix_(rows, family)].max(axis=1)
                    complete = (known[np.ix_(rows, family)] >= 0).all(axis=1)
                    fair = complete & (least == most)
                    unfair = (most >= 0) & (least < most) & (least != largest)
                    done[family] = np.where(unfair, UNFAIR, np.where(fair, FAIR, UNDECIDED)).astype(np.int8)
                out[rows, group] = done[family]
        return out


def _views(domain: Domain) -> tuple[list[View], list[tuple[int, ...]]]:
    """List all views, and those of the family of each own combination, by the counterpart's combination."""
    space, combinations = domain.space, domain.combinations
    if not space.link_tables:
        every = tuple(range(len(combinations)))
        return [View(one) for one in combinations], [every] * len(combinations)
    if len(combinations) ** 2 > VIEWS:
        raise SpaceError(
            f"links make {len(combinations) ** 2:,} kinds of counterparts, more than {VIEWS:,}",
            remedy=f"protect fewer attributes, or {INSTEAD}",
        )
    views: list[View] = []
    numbers: dict[Any, int] = {}
    families = []
    for own in combinations:
        family = []
        for other in combinations:
            maps: dict[int, Codes] = {}
            for place, (protected, dependents) in (
                (space.protected_columns.index(column), (column, ends)) for column, ends in space.link_tables.items()
            ):
                del protected
                if own[place] == other[place]:
                    continue
                for dependent, table in dependents.items():
                    before = maps.get(domain.place[dependent], np.arange(table.shape[1], dtype=np.int32))
                    maps[domain.place[dependent]] = table[other[place]][before]
            maps = {i: table for i, table in maps.items() if (table != np.arange(len(table))).any()}
            key = (other, tuple((i, maps[i].tobytes()) for i in sorted(maps)))
            if key not in numbers:
                numbers[key] = len(views)
                views.append(View(other, maps))
            family.append(numbers[key])
        families.append(tuple(family))
    return views, families


def _cut(tied: Tied, low: Ints, high: Ints) -> tuple[int, int] | None:
    """Return a column and the code at which a box should be split, if a view is valid for a part of the box only."""
    if not tied.columns:
        return None
    part = tied.valid[(slice(None), *(slice(int(low[i]), int(high[i]) + 1) for i in tied.columns))]
    flat = part.reshape(len(part), -1)
    if (flat.all(axis=1) | ~flat.any(axis=1)).all():
        return None
    best: tuple[int, int, int] | None = None
    for axis, place in enumerate(tied.columns, start=1):
        moved = np.moveaxis(part, axis, 0).reshape(part.shape[axis], -1)
        changes = np.flatnonzero((moved[1:] != moved[:-1]).any(axis=1)) + 1
        if len(changes) and (best is None or len(changes) < best[0]):
            best = len(changes), place, int(low[place] + changes[len(changes) // 2])
    assert best is not None
    return best[1], best[2]


class Measure:
    """Counts the individuals of boxes: uniformly, or each with the product of weights of its values.

    Counts are exact integers: the weights are whole numbers, such as how many rows of the data have a value.
    """

    def __init__(self, domain: Domain, weights: Sequence[npt.NDArray[Any]] | None) -> None:
        self.domain = domain
        sizes = domain.space.coding.sizes
        self.weights = [np.ones(size, dtype=np.int64) for size in sizes] if weights is None else weights
        """The weight of each code of each column of the space."""
        total = math.prod(int(one.sum()) for one in self.weights)
        self.dtype: Any = np.int64 if total < 2**62 else object
        """Counts that do not fit 64 bits are Python's integers."""
        self._prefixes = [self._prefix(domain.columns[i]) for i in range(len(domain.columns))]
        self._tables = [(tied.columns, self._table(tied)) for tied in domain.tied]
        tied = {i for columns, _ in self._tables for i in columns}
        self._loose = [i for i in range(len(domain.columns)) if i not in tied]

    def _prefix(self, column: int) -> npt.NDArray[Any]:
        return np.concatenate([[0], np.cumsum(self.weights[column])]).astype(self.dtype)

    def _table(self, tied: Tied) -> npt.NDArray[Any]:
        """Sum the weights of valid combinations up to each code of each column."""
        out = tied.valid.astype(self.dtype)
        for axis, i in enumerate(tied.columns):
            shape = [1] * out.ndim
            shape[axis] = -1
            out = out * np.asarray(self.weights[self.domain.columns[i]], dtype=self.dtype).reshape(shape)
        for axis in range(out.ndim):
            out = np.cumsum(out, axis=axis)
        return np.pad(out, [(1, 0)] * out.ndim)

    def count(self, low: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Count the valid combinations of free values of each box."""
        out = np.ones(len(low), dtype=self.dtype)
        for i in self._loose:
            out = out * (self._prefixes[i][high[:, i] + 1] - self._prefixes[i][low[:, i]])
        for columns, table in self._tables:
            inside = np.zeros(len(low), dtype=self.dtype)
            for corner in itertools.product((0, 1), repeat=len(columns)):
                at = tuple(high[:, i] + 1 if upper else low[:, i] for i, upper in zip(columns, corner, strict=True))
                sign = -1 if (len(columns) - sum(corner)) % 2 else 1
                inside = inside + sign * table[at]
            out = out * inside
        return out

    def weigh(self, free: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the weight of each of some valid combinations of free values."""
        out = np.ones(len(free), dtype=self.dtype)
        for i, column in enumerate(self.domain.columns):
            out = out * self.weights[column][free[:, i]]
        return out

    @cached_property
    def groups(self) -> list[int]:
        """The weight of each group's own protected values."""
        columns, combinations = self.domain.space.protected_columns, self.domain.combinations

        def weight(combination: tuple[int, ...]) -> int:
            return math.prod(int(self.weights[j][code]) for j, code in zip(columns, combination, strict=True))

        return [sum(weight(combinations[one]) for one in group) for group in self.domain.groups]

    def shares(self, low: npt.NDArray[Any], high: npt.NDArray[Any], verdicts: npt.NDArray[np.int8]) -> list[int]:
        """Return the numbers of individuals in boxes that are fair, unfair, undecided and untestable."""
        counts, out = self.count(low, high), [0, 0, 0, 0]
        for group, weight in enumerate(self.groups):
            for verdict in (FAIR, UNFAIR, UNDECIDED, UNTESTABLE):
                chosen = counts[verdicts[:, group] == verdict]
                # Sums of counts below 2**62 may not fit 64 bits, unless the boxes are disjoint: here they are.
                out[verdict] += weight * int(chosen.sum() if len(chosen) else 0)
        return out
