"""Families and neighbours: what differs from an individual in protected attributes only, or by one move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._files import check_limit
from evenhand._rng import Bits, Stream, mix
from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Mask
from evenhand.spaces.individuals import Ids, Individuals, Rows

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space


class TabularFamilies:
    """The counterparts of ``n`` individuals, ``width`` places each.

    ``valid`` marks the places that are asked (None: all); ``own`` is each individual's place in its family;
    ``combinations`` names the protected values of a place, for all families alike or for each.
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
        """How many rows each family asks."""
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
        # Numbers are built once for each individual, then copied to its places.
        out = np.repeat(self.space.array(self.individuals.rows), self.width, axis=0)
        values = self.space.protected_numbers
        for place in range(self.width):
            for j in self.space.protected_columns:
                out[place :: self.width, j] = values[place, j]
        return out

    def to_grid(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Line answers up as (family, place, ...); a place that was not asked repeats the individual's own answer."""
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
        """Return one member of each of some families; a place that was not asked stands for the individual itself."""
        if self.valid is not None:
            place = np.where(self.valid[which, place], place, self.own[which])
        if self._rows is not None or not self.space.coding.fits:
            return Individuals(self.space, rows=self.rows[which, place])
        ids = self.individuals.ids[which]
        combinations = self.combinations[place] if self.combinations.ndim == 1 else self.combinations[which, place]
        return Individuals(self.space, ids=ids - ids % self.space.coding.combinations + combinations)


def families(space: Space, individuals: Individuals, seed: int) -> TabularFamilies:
    """Build the counterparts of individuals, over all combinations of protected values or a sample of them.

    The sample is a function of (seed, key): one combination from each of ``max_family_size`` equal strata, the
    individual's own among them; where 64 bits do not number the combinations, independent draws.
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
            # Linked counterparts are made from the individual itself, so an invalid one has none.
            valid &= valid[here, own][:, None]
        own = np.where(valid[here, own], own, valid.argmax(axis=1))
    return TabularFamilies(space, individuals, plain.combinations, own, rows, valid)


def _combined(space: Space, individuals: Individuals, seed: int) -> TabularFamilies:
    """Go through the combinations by number, or through one from each stratum."""
    total, size = space.combinations, space.max_family_size
    if space.has_ids:
        own = individuals.ids % total
    else:
        own = np.zeros(len(individuals), dtype=np.int64)
        for j in space.protected_columns:
            own = own * space.coding.sizes[j] + individuals.rows[:, j]
    if total <= size:
        return TabularFamilies(space, individuals, np.arange(total), own)
    # Python's own numbers: 64 bits do not hold every product.
    edges = np.array([place * total // size for place in range(size + 1)], dtype=np.int64)
    combinations = edges[:-1] + (_draws(space, individuals, seed) % np.diff(edges).astype(np.uint64)).astype(np.int64)
    place = np.searchsorted(edges[1:], own, side="right")
    combinations[np.arange(len(own)), place] = own
    return TabularFamilies(space, individuals, combinations, place)


def _drawn(space: Space, individuals: Individuals, seed: int) -> TabularFamilies:
    """Draw each protected value by itself; among so many combinations, two draws are hardly ever alike."""
    draws, size = _draws(space, individuals, seed), space.max_family_size
    own = (draws[:, 0] % np.uint64(size)).astype(np.int64)
    rows = np.repeat(individuals.rows[:, None, :], size, axis=1)
    for i, j in enumerate(space.protected_columns):
        rows[:, :, j] = mix(draws ^ np.uint64(i + 1)) % np.uint64(space.coding.sizes[j])
    rows[np.arange(len(individuals)), own] = individuals.rows
    # Places have no combinations to be named by, only their rows.
    places = np.broadcast_to(np.arange(size), (len(individuals), size))
    return TabularFamilies(space, individuals, places, own, rows)


def _draws(space: Space, individuals: Individuals, seed: int) -> npt.NDArray[np.uint64]:
    """Return one draw for each individual and place, a function of seed and key."""
    keys = np.ascontiguousarray(individuals.keys)
    # A key may be of several words.
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
    """Return, by protected and dependent column, the code that each (new protected code, old code) turns into."""
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
                form = "{protected: {free attribute: {new value: {old: new}}}}"
                raise SpaceError(f"must have the form {form}", parameter="links", value=mapping)
        level = [inner for mapping in level for inner in mapping.values()]
    if space.links and space.sampled:
        # A sampled family depends on the individual that it is built from, so one test would count many times.
        raise SpaceError(
            f"must be at least {space.combinations:,}, because links need all counterparts",
            parameter="max_family_size",
            value=space.max_family_size,
            remedy="raise it, or protect fewer attributes",
        )
    for name, dependents in space.links.items():
        if name not in space.protected:
            raise SpaceError("must start at a protected attribute", parameter="links", value=name)
        for dependent in dependents:
            if dependent in space.protected:
                raise SpaceError("must end at a free attribute", parameter="links", value=dependent)


class Moves:
    """All moves of a space, one a column: which attribute, and how its code changes.

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
        """Changes of code, one row for each individual, or one for all where no attribute is nominal."""
        if self.ordered.all():
            return self.changes[None, :]
        # The change of a nominal attribute counts its other values: those from its own on are one further.
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
    """Draw a value other than the own one, where there is another."""
    others = np.maximum(sizes - 1, 1).astype(np.uint64)
    return (code + 1 + (bits % others).astype(np.int64)) % sizes


def jumps(space: Space, rows: Rows, stream: Stream, walkers: Ids, number: int) -> Rows | None:
    """Draw another value for every nominal free attribute of each row; None where the space has no such attribute."""
    nominal = [j for j in space.free_columns if not space.ordered[j]]
    if not nominal:
        return None
    out = rows.copy()
    for j in nominal:
        out[:, j] = other_value(rows[:, j], space.sizes[j : j + 1], stream.bits(f"jump{j}", walkers, number))
    return out
