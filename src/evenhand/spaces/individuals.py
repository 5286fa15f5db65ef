"""Blocks of individuals: as ids and rows, their families and links, moves to neighbours, and uniform draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit
from evenhand._rng import Bits, Stream, mix
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Mask
from evenhand.spaces.constraints import Constraint, shown

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space

T = TypeVar("T")
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64] | npt.NDArray[np.complex128]


class Individuals:
    """A block of individuals of a space, often thousands.

    If the space has fewer than 2**62 individuals, each is an integer ``id`` (mixed radix, with the protected attributes
    lowest), and the key of its test is the id without them. A move is then an addition, and rows are built only for
    individuals that the model is queried about. Larger spaces store rows and hash the keys; with links, the key is a
    hash of the whole family. The lowest bit of a key is free for the verdict.
    """

    __slots__ = ("_ids", "_keys", "_rows", "space")

    def __init__(
        self, space: Space, *, ids: Ids | None = None, rows: Rows | None = None, keys: Keys | None = None
    ) -> None:
        self.space, self._ids, self._rows, self._keys = space, ids, rows, keys

    def __len__(self) -> int:
        first = self._ids if self._ids is not None else self._rows
        assert first is not None
        return len(first)

    def __getitem__(self, which: Any) -> Individuals:
        """Return some of them, by mask, positions or slice."""
        return Individuals(
            self.space,
            ids=None if self._ids is None else self._ids[which],
            rows=None if self._rows is None else self._rows[which],
            # Keys of ids are cheap to compute again; only hashes are worth keeping.
            keys=None if self._keys is None or self._keys.dtype.kind != "c" else self._keys[which],
        )

    @property
    def ids(self) -> Ids:
        """One integer each; only in spaces that fit."""
        if self._ids is None:
            assert self._rows is not None
            self._ids = self.space.coding.ids(self._rows)
        return self._ids

    @property
    def rows(self) -> Rows:
        """One row of codes each, in the space's column order."""
        if self._rows is None:
            assert self._ids is not None
            self._rows = self.space.coding.rows(self._ids)
        elif self._rows.dtype != np.int32:
            # The stored form is unsigned, which does not work in the arithmetic of moves.
            self._rows = self._rows.astype(np.int32)
        return self._rows

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """One row of the user's numbers each, in the space's column order."""
        if self._rows is None and self.space.numbers is not None:
            return self.space.numbers.of(self.ids)
        return self.space.array(self.rows)

    @property
    def keys(self) -> Keys:
        """Identifies the test of each individual: by the free attributes or, with links, by the whole family."""
        if self._keys is None:
            self._keys = self.space.keys(self)
        return self._keys

    @property
    def stored(self) -> npt.NDArray[Any]:
        """The form in findings and on disk: ids if they fit, otherwise rows of the narrowest integers."""
        return self.ids if self.space.coding.fits else self.rows.astype(self.space.coding.narrowest)

    @classmethod
    def from_stored(cls, space: Space, stored: npt.NDArray[Any]) -> Individuals:
        """Return individuals from their stored form."""
        return cls(space, ids=stored) if space.coding.fits else cls(space, rows=stored)

    @staticmethod
    def join(parts: list[Individuals]) -> Individuals:
        """Concatenate blocks of one space."""
        space = parts[0].space
        if space.coding.fits:
            return Individuals(space, ids=np.concatenate([p.ids for p in parts]))
        return Individuals(space, rows=np.concatenate([p.rows for p in parts]))


class Coding:
    """The mixed-radix numbering of a space's individuals."""

    def __init__(self, sizes: list[int], free: list[int], protected: list[int]) -> None:
        self.order = [*free, *protected]
        self.sizes = sizes
        self.combinations = 1
        for j in protected:
            self.combinations *= sizes[j]
        self.radix = [0] * len(sizes)
        self.total = 1
        for j in reversed(self.order):
            self.radix[j] = self.total
            self.total *= sizes[j]
        self.fits = self.total < 2**62
        self._radix = np.array(self.radix, dtype=np.int64 if self.fits else object)
        self.narrowest = np.min_scalar_type(max(sizes) - 1)
        # Columns, lowest digit first, in groups whose numbers fit 32 bits, which divide much faster.
        self._limbs = limbs([(j, sizes[j]) for j in reversed(self.order)], 2**32 - 1) if self.fits else []

    def ids(self, rows: Rows) -> Ids:
        """Number rows of codes."""
        out: Ids = rows @ self._radix
        return out

    def rows(self, ids: Ids) -> Rows:
        """Rebuild rows of codes from their numbers."""
        out = np.empty((len(ids), len(self.sizes)), dtype=np.int32)
        rest = ids.astype(np.uint64)
        for limb, (columns, size) in enumerate(self._limbs):
            if limb + 1 < len(self._limbs):
                above = rest // np.uint64(size)
                part = (rest - above * np.uint64(size)).astype(np.uint32)
                rest = above
            else:
                part = rest.astype(np.uint32)
            for j in columns[:-1]:
                quotient = part // np.uint32(self.sizes[j])
                out[:, j] = part - quotient * np.uint32(self.sizes[j])
                part = quotient
            out[:, columns[-1]] = part
        return out


LOOKED_UP = 2**12
"""The most combinations of the values of several columns that are looked up together."""
LARGEST = 2**16
"""The most values of a column that is looked up."""


class Numbers:
    """The numbers of individuals from their ids, several columns at a time: one lookup for each group of columns.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> Numbers(space).of(np.array([1, 4])).tolist()
    [[1.0, 1.0], [3.0, 0.0]]
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        free = [(j, space.coding.sizes[j]) for j in reversed(space.free_columns)]
        self._groups = [self._table(columns, size) for columns, size in limbs(free, LOOKED_UP)]

    def _table(self, columns: list[int], size: int) -> tuple[int, int, npt.NDArray[np.void]]:
        """Return how many combinations a group has, its first column, and the numbers of each combination.

        Columns are in order, lowest digit first. A protected one between them gets its numbers later.
        """
        rows, rest = np.zeros((size, len(self._space.names)), dtype=np.int32), np.arange(size)
        for j in columns:
            rest, rows[:, j] = np.divmod(rest, self._space.coding.sizes[j])
        numbers = np.ascontiguousarray(self._space.array(rows)[:, columns[-1] : columns[0] + 1])
        return size, columns[-1], numbers.view(f"V{numbers.strides[0]}").ravel()

    def of(self, ids: Ids) -> npt.NDArray[np.float64]:
        """Return the numbers of individuals, in the space's column order."""
        space = self._space
        tests = ids // space.coding.combinations
        own, rest = ids - tests * space.coding.combinations, tests.view(np.uint64)
        out = np.empty((len(ids), len(space.names)))
        for size, first, table in self._groups:
            above: Bits = rest // np.uint64(size)
            values = table.take((rest - above * np.uint64(size)).view(np.int64))
            np.ndarray(len(ids), table.dtype, out.data, first * out.itemsize, out.strides[:1])[:] = values
            rest = above
        for j in space.protected_columns:
            out[:, j] = space.protected_numbers[:, j].take(own)
        return out


def limbs(parts: Iterable[tuple[T, int]], most: int) -> list[tuple[list[T], int]]:
    """Group parts with their sizes, in order, so that the product of the sizes of a group is at most ``most``."""
    groups: list[tuple[list[T], int]] = []
    current: list[T] = []
    product = 1
    for part, size in parts:
        if current and product * size > most:
            groups.append((current, product))
            current, product = [], 1
        current.append(part)
        product *= size
    return [*groups, (current, product)]


def hashed(rows: npt.NDArray[Any]) -> npt.NDArray[np.complex128]:
    """Hash rows of codes to 105-bit keys.

    A key is a complex number of two whole halves, because NumPy sorts and searches those lexicographically; the lowest
    bit stays free. With 10^8 keys, the chance that any two collide is below 10^-15.
    """
    left = np.full(len(rows), 0x243F6A8885A308D3, dtype=np.uint64)
    right = np.full(len(rows), 0x13198A2E03707344, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for j in range(rows.shape[1]):
            code = rows[:, j].astype(np.uint64) + np.uint64((j + 1) << 32)
            left = mix(left ^ mix(code))
            right = mix(right + mix(code ^ np.uint64(0xA4093822299F31D0)))
    return complex_keys(left, right)


def complex_keys(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.complex128]:
    """Pack two hash words into keys whose lowest bit is free."""
    out = np.empty(len(left), dtype=np.complex128)
    out.real = left >> np.uint64(11)
    out.imag = (right >> np.uint64(12)) << np.uint64(1)
    return out


class TabularFamilies:
    """The families of ``n`` individuals, with ``width`` places each.

    ``valid`` marks the places that are queried (None: all); ``own`` is each individual's place in its family;
    ``combinations`` has the protected values of each place, shared by all families or for each family.
    """

    def __init__(
        self,
        space: Space,
        individuals: Individuals,
        combinations: Ids,
        own: Ids,
        rows: Rows | None = None,
        valid: Mask | None = None,
    ) -> None:
        self.space, self.individuals = space, individuals
        self.combinations, self.own, self.valid = combinations, own, valid
        self.width = combinations.shape[-1]
        self._rows = rows

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, which: npt.NDArray[Any]) -> TabularFamilies:
        """Return some of the families."""
        return TabularFamilies(
            self.space,
            self.individuals[which],
            self.combinations if self.combinations.ndim == 1 else self.combinations[which],
            self.own[which],
            None if self._rows is None else self._rows[which],
            None if self.valid is None else self.valid[which],
        )

    @property
    def testable(self) -> Mask | None:
        """Which families have at least two valid members (None: all)."""
        return None if self.valid is None else self.valid.sum(axis=1) >= 2

    @property
    def places(self) -> Ids:
        """Number of rows that each family uses."""
        return np.full(len(self), self.width) if self.valid is None else self.valid.sum(axis=1)

    @property
    def rows(self) -> Rows:
        """Every place's codes, (n, width, attributes)."""
        if self._rows is None:
            rows, rest = self.individuals.rows, self.combinations
            self._rows = np.empty((len(rows), self.width, rows.shape[1]), dtype=np.int32)
            self._rows[:] = rows[:, None, :]
            for j in reversed(self.space.protected_columns):
                rest, self._rows[:, :, j] = np.divmod(rest, self.space.coding.sizes[j])
        return self._rows

    @property
    def asked(self) -> Rows:
        """The rows that the model is asked, family after family."""
        flat = self.rows.reshape(-1, len(self.space.names))
        return flat if self.valid is None else flat[self.valid.ravel()]

    def array(self) -> npt.NDArray[np.float64]:
        """The rows that the model is asked, as numbers."""
        if self._rows is not None or self.combinations.ndim > 1:
            return self.space.array(self.asked)
        # Numbers are built once per individual, then copied to its places.
        out = np.repeat(self.individuals.numbers, self.width, axis=0)
        values = self.space.protected_numbers
        for place in range(self.width):
            for j in self.space.protected_columns:
                out[place :: self.width, j] = values[place, j]
        return out

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Arrange answers as (family, place, ...); a place that was not queried repeats the individual's own answer."""
        shape = (len(self), self.width, *answers.shape[1:])
        if self.valid is None:
            return answers.reshape(shape)
        position = np.cumsum(self.valid.ravel()).reshape(self.valid.shape) - 1
        own = position[np.arange(len(self)), self.own]
        return answers[np.where(self.valid, position, own[:, None])]

    def most_different(self, places: Ids) -> npt.NDArray[Any]:
        """Return one member of each family in its stored form."""
        return self.members(np.arange(len(self)), places).stored

    def members(self, which: Ids, place: Ids) -> Individuals:
        """Return one member of each of some families; a place that was not queried gives the individual itself."""
        if self.valid is not None:
            place = np.where(self.valid[which, place], place, self.own[which])
        if self._rows is not None or not self.space.coding.fits:
            return Individuals(self.space, rows=self.rows[which, place])
        ids, total = self.individuals.ids[which], self.space.combinations
        combinations = self.combinations[place] if self.combinations.ndim == 1 else self.combinations[which, place]
        # Division is far faster than the remainder.
        return Individuals(self.space, ids=ids // total * total + combinations)


def families(space: Space, individuals: Individuals, seed: int) -> TabularFamilies:
    """Build the counterparts of individuals, over all combinations of protected values or a sample of them.

    The sample is a function of (seed, key): one combination from each of ``max_family_size`` equal strata, including
    the individual's own. If there are too many combinations for 64 bits, draws are independent.
    """
    plain = (_combined if space.combinations < 2**62 else _drawn)(space, individuals, seed)
    if not (space.links or space.constraints):
        return plain
    rows, own, valid = plain.rows, plain.own, None
    if space.links:
        _follow(space, individuals.rows, rows, own)
    if space.constraints:
        valid = space.valid(rows.reshape(-1, rows.shape[2])).reshape(len(individuals), plain.width)
        here = np.arange(len(individuals))
        if space.links:
            # Linked counterparts are made from the individual itself, so an invalid individual has none.
            valid &= valid[here, own][:, None]
        own = np.where(valid[here, own], own, valid.argmax(axis=1))
    return TabularFamilies(space, individuals, plain.combinations, own, rows, valid)


def _combined(space: Space, individuals: Individuals, seed: int) -> TabularFamilies:
    """Yield all combinations by number, or one from each stratum."""
    total, size = space.combinations, space.max_family_size
    if space.has_ids:
        # Division is far faster than the remainder.
        own = individuals.ids - individuals.ids // total * total
    else:
        own = np.zeros(len(individuals), dtype=np.int64)
        for j in space.protected_columns:
            own = own * space.coding.sizes[j] + individuals.rows[:, j]
    if total <= size:
        return TabularFamilies(space, individuals, np.arange(total), own)
    # Python integers, because 64 bits are too few for some products.
    edges = np.array([place * total // size for place in range(size + 1)], dtype=np.int64)
    combinations = edges[:-1] + (_draws(space, individuals, seed) % np.diff(edges).astype(np.uint64)).astype(np.int64)
    place = np.searchsorted(edges[1:], own, side="right")
    combinations[np.arange(len(own)), place] = own
    return TabularFamilies(space, individuals, combinations, place)


def _drawn(space: Space, individuals: Individuals, seed: int) -> TabularFamilies:
    """Draw each protected value independently; with so many combinations, two draws are hardly ever equal."""
    draws, size = _draws(space, individuals, seed), space.max_family_size
    own = (draws[:, 0] % np.uint64(size)).astype(np.int64)
    rows = np.repeat(individuals.rows[:, None, :], size, axis=1)
    for i, j in enumerate(space.protected_columns):
        rows[:, :, j] = mix(draws ^ np.uint64(i + 1)) % np.uint64(space.coding.sizes[j])
    rows[np.arange(len(individuals)), own] = individuals.rows
    # Places are identified by rows, not by combinations.
    places = np.broadcast_to(np.arange(size), (len(individuals), size))
    return TabularFamilies(space, individuals, places, own, rows)


def _draws(space: Space, individuals: Individuals, seed: int) -> npt.NDArray[np.uint64]:
    """Return one draw for each individual and place, a function of seed and key."""
    keys = np.ascontiguousarray(individuals.keys)
    # A key may have several words.
    words = keys.view(np.uint64).reshape(len(individuals), keys.dtype.itemsize // 8)[:, 0]
    places = np.arange(space.max_family_size, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return mix(np.asarray(mix(words ^ Stream(seed).bits("counterp", 0, 0))[:, None] + places, dtype=np.uint64))


def _follow(space: Space, rows: Rows, expanded: Rows, own: Ids) -> None:
    """Change linked attributes where a protected one has changed."""
    for protected, dependents in space.link_tables.items():
        changed = expanded[:, :, protected] != rows[:, None, protected]
        for dependent, table in dependents.items():
            followed = table[expanded[:, :, protected], expanded[:, :, dependent]]
            expanded[:, :, dependent] = np.where(changed, followed, expanded[:, :, dependent])
    expanded[np.arange(len(rows)), own] = rows


Links = Mapping[str, Mapping[str, Mapping[Any, Mapping[Any, Any]]]]
"""{protected: {free attribute: {new value of the protected one: {old: new}}}}"""


def link_tables(space: Space) -> dict[int, dict[int, npt.NDArray[np.int32]]]:
    """Return, by protected and dependent column, the new code for each (new protected code, old code)."""
    tables: dict[int, dict[int, npt.NDArray[np.int32]]] = {}
    _check_links(space)
    for name, dependents in space.links.items():
        source = space.attributes[space.column(name)]
        for dependent, by_value in dependents.items():
            target = space.attributes[space.column(dependent)]
            check_limit("link_cells", source.size * target.size, f"the link from {name!r} to {dependent!r}")
            table = np.tile(np.arange(target.size, dtype=np.int32), (source.size, 1))
            for value, mapping in by_value.items():
                for old, new in mapping.items():
                    table[source.code(value), target.code(old)] = target.code(new)
            tables.setdefault(space.column(name), {})[space.column(dependent)] = table
    return tables


def _check_links(space: Space) -> None:
    level: list[Any] = [space.links]
    for _ in range(4):
        for mapping in level:
            if not isinstance(mapping, Mapping):
                raise _wrong_links("must have nested mappings", mapping)
        level = [inner for mapping in level for inner in mapping.values()]
    if space.links and space.sampled:
        # A sampled family depends on the individual it is built from, so one test would count many times.
        problem = f"must be at least {space.combinations:,}, because links need all counterparts"
        remedy = "raise it, or protect fewer attributes"
        raise SpaceError(problem, parameter="max_family_size", value=space.max_family_size, remedy=remedy)
    for name, dependents in space.links.items():
        if name not in space.protected:
            raise _wrong_links("must start at a protected attribute", name)
        for dependent in dependents:
            if dependent in space.protected:
                raise _wrong_links("must end at a free attribute", dependent)


def _wrong_links(must: str, value: Any) -> SpaceError:
    form = "write {protected: {free attribute: {new value: {old: new}}}}"
    return SpaceError(must, parameter="links", value=value, remedy=form)


class Moves:
    """All moves of a space, one per column: which attribute, and how its code changes.

    Attribute by attribute in the space's order; an ordered one goes a step down, then a step up; a nominal one goes to
    every other value. Steps out of the domain are left out; a missing value of an ordered attribute does not move.
    """

    def __init__(self, space: Space) -> None:
        moves = [
            (j, bool(space.ordered[j]), change)
            for j in space.free_columns
            for change in ((-1, 1) if space.ordered[j] else range(int(space.sizes[j]) - 1))
        ]
        self.columns = np.array([j for j, _, _ in moves], dtype=np.int64)
        self.ordered = np.array([ordered for _, ordered, _ in moves], dtype=bool)
        self.changes = np.array([change for _, _, change in moves], dtype=np.int64)
        self.present = space.present[self.columns]
        self.count = max(1, len(moves))
        self.radix = np.array([space.coding.radix[j] for j in self.columns]) if space.coding.fits else None

    def shifts(self, codes: Rows) -> Ids:
        """Changes of codes, one row per individual, or one for all if no attribute is nominal."""
        if self.ordered.all():
            return self.changes[None, :]
        # A move of a nominal attribute is a number among its other values; values from its own on are shifted by one.
        others = self.changes + (self.changes >= codes)
        return np.where(self.ordered, self.changes, others - codes)

    def inside(self, codes: Rows) -> Mask:
        """Which moves stay in the domain."""
        room = np.where(self.changes < 0, codes > 0, codes < self.present - 1)
        return ~self.ordered | (room & (codes < self.present))


def neighbours(space: Space, individuals: Individuals) -> Individuals:
    """Return all individuals one move away, parent by parent."""
    moves = space.move_table
    codes = individuals.rows[:, moves.columns]
    shifts, inside = moves.shifts(codes), moves.inside(codes)
    if moves.radix is not None:
        return Individuals(space, ids=(individuals.ids[:, None] + shifts * moves.radix)[inside])
    parent, move = np.nonzero(inside)
    out = individuals.rows[parent]
    out[np.arange(len(out)), moves.columns[move]] += np.broadcast_to(shifts, inside.shape)[inside].astype(np.int32)
    return Individuals(space, rows=out)


def step(space: Space, rows: Rows, columns: Ids, down: Mask, bits: Bits) -> Rows:
    """Move one free attribute of each row: one step down or up and clipped; a nominal one to a drawn other value."""
    out = rows.copy()
    here = np.arange(len(rows))
    code = rows[here, columns]
    present = space.present[columns]
    walked = np.clip(code + np.where(down, -1, 1), 0, present - 1)
    walked = np.where(code < present, walked, code)
    jumped = other_value(code, space.sizes[columns], bits)
    out[here, columns] = np.where(space.ordered[columns], walked, jumped)
    return out


def other_value(code: npt.NDArray[Any], sizes: Ids, bits: Bits) -> Ids:
    """Draw a different value, if there is one."""
    others = np.maximum(sizes - 1, 1).astype(np.uint64)
    return (code + 1 + (bits % others).astype(np.int64)) % sizes


def jumps(space: Space, rows: Rows, stream: Stream, walkers: Ids, number: int) -> Rows | None:
    """Draw another value for every nominal free attribute of each row; None if the space has no such attribute."""
    nominal = [j for j in space.free_columns if not space.ordered[j]]
    if not nominal:
        return None
    out = rows.copy()
    for j in nominal:
        out[:, j] = other_value(rows[:, j], space.sizes[j : j + 1], stream.bits(f"jump{j}", walkers, number))
    return out


LISTED = 2**22
"""Maximum number of combinations of tied attributes for listing the valid ones."""
DECK = 2**32
"""Maximum number of individuals of a space for drawing without repetition."""
HOPELESS = 2**20
"""Number of draws without a valid individual after which a space is assumed to have none."""


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
        """Number of individuals it can draw (valid ones, unless it rejects)."""
        self.deck = self.count <= DECK
        # One 64-bit draw serves each group with a bias below 2**-32.
        self._groups = limbs([(digit, digit.count) for digit in self.digits], 2**32)

    def draw(self, stream: Stream, start: int, n: int, *, repeats: bool = False) -> tuple[Individuals, int]:
        """Return up to ``n`` individuals and the counter after them; fewer if the space is exhausted.

        With ``repeats``, draws are also independent in a small space: an individual may occur twice, and draws never
        end.
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
            # The counter stops right after the last individual, where the next call continues.
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
            # Digits are in the order of the ids, so that a group's number is a part of the id.
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
    """Split a space into independent parts; return also whether a constraint could not be listed."""
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
    """Return the error for constraints that no individual meets."""
    broken = [shown(text) for text in texts]
    together, one = (" together", "one of them") if len(broken) > 1 else ("", "it")
    remedy = f"loosen {one} or widen an attribute's bounds"
    return SpaceError(f"no valid individual: {' and '.join(broken)} cannot hold{together}", value=broken, remedy=remedy)


def _valid_table(space: Space, columns: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """List the valid combinations of some columns."""
    sizes, constraints = [space.coding.sizes[j] for j in columns], tying(space, columns)
    work = math.prod(sizes) * sum(constraint.conditions for constraint in constraints)
    where = f"the constraints on {sorted(space.names[j] for j in columns)[:3]}"
    check_limit("constraint_work", work, where, "write fewer or shorter constraints")
    codes = np.indices(sizes, dtype=np.int32).reshape(len(sizes), -1)
    by_name = {space.names[j]: codes[i] for i, j in enumerate(columns)}
    valid = np.ones(codes.shape[1], dtype=bool)
    cache: dict[str, npt.NDArray[Any]] = {}
    for constraint in constraints:
        valid &= constraint.holds_codes(by_name, cache)
    return np.ascontiguousarray(codes[:, valid].T)
