"""Small worlds whose every individual is known: a space, and a model that looks its answers up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import evenhand as eh
from evenhand import testing as made
from evenhand.search import Problem, Search, judge
from evenhand.spaces.individuals import Individuals


@dataclass
class World:
    space: eh.Space
    table: npt.NDArray[np.int64]
    """The decision of every individual, by id."""
    calls: int = 0
    rows: int = 0
    dies: int | None = None
    """After so many calls it is as if somebody pressed Ctrl-C."""
    data: None = None

    def __call__(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        if self.dies is not None and self.calls >= self.dies:
            raise KeyboardInterrupt
        self.calls += 1
        self.rows += len(X)
        codes = X.astype(np.int32)
        return self.table[self.space.coding.ids(codes)]

    @property
    def model(self) -> Any:
        return Lookup(self)

    @property
    def combinations(self) -> int:
        return self.space.combinations

    def families(self) -> dict[Any, list[npt.NDArray[np.int32]]]:
        """Every test's key and its valid members, written out one by one."""
        out: dict[Any, list[npt.NDArray[np.int32]]] = {}
        sets: dict[Any, frozenset[tuple[int, ...]]] = {}
        for row in self.space.coding.rows(np.arange(self.space.coding.total)):
            members = self._members(row)
            if len(members) >= 2:
                key = self.space.individuals(row[None]).keys[0].item()
                family = frozenset(tuple(m.tolist()) for m in members)
                # One key, one family, from whichever member it is built.
                assert sets.setdefault(key, family) == family
                out[key] = members
        assert len(set(sets.values())) == len(sets)
        return out

    def _members(self, row: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int32]]:
        """The individual and its counterparts, built with plain loops."""
        space = self.space
        out = []
        sizes = [space.coding.sizes[j] for j in space.protected_columns]
        if space.links and not space.valid(row[None])[0]:
            return []
        for combination in np.ndindex(*sizes):
            other = row.copy()
            for j, code in zip(space.protected_columns, combination, strict=True):
                other[j] = code
            for j, dependents in space.link_tables.items():
                if other[j] != row[j]:
                    for dependent, links in dependents.items():
                        other[dependent] = links[other[j], other[dependent]]
            if space.valid(other[None])[0]:
                out.append(other)
        return out

    def unfair_keys(self) -> set[Any]:
        """The keys of all discriminatory tests, by enumeration."""
        found = set()
        for key, members in self.families().items():
            if len({int(self.table[self.space.coding.ids(m[None])[0]]) for m in members}) > 1:
                found.add(key)
        return found

    def test_keys(self) -> set[Any]:
        return set(self.families())


class Lookup(made.Lookup):
    """A world's answers, which the world counts."""

    def __init__(self, world: World) -> None:
        super().__init__(world.space, world.table)
        self.world = world

    def labels(self, X: Any) -> Any:
        return self.world(X)


@dataclass(frozen=True)
class Stretch:
    """A search that tests the individuals of one stretch of the space, by their numbers."""

    start: float
    end: float

    def people(self, space: eh.Space) -> Individuals:
        first, last = (int(share * space.coding.total) for share in (self.start, self.end))
        rows = space.coding.rows(np.arange(first, last))
        return space.individuals(rows[space.valid(rows)])

    def search(self, problem: Problem) -> Search:
        yield from judge(self.people(problem.space))


def keys_of(run: eh.Run) -> list[Any]:
    """The tests of a run's findings, in order."""
    if isinstance(run.space, eh.TextSpace):
        return run.findings["text"].tolist()
    return run.pairs.individuals().keys.tolist() if run.found else []


def random_world(seed: int, most: int, *, patchy: bool = True, nominal: bool = True) -> World:
    """A random space of up to ``most`` individuals and a random table, smooth enough for local searches."""
    return World(*made.random_table(seed, most, patchy=patchy, nominal=nominal))


@st.composite
def worlds(draw: st.DrawFn, most: int = 400, constraints: bool = False) -> World:
    """Any small world, answers included."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=5))
    while int(np.prod(sizes)) > most:
        sizes = sizes[:-1]
    nominal = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    attributes = [made.whole(f"a{j}", size, nom) for j, (size, nom) in enumerate(zip(sizes, nominal, strict=True))]
    count = draw(st.integers(1, max(1, min(2, len(sizes) - 1))))
    protected = [f"a{j}" for j in draw(st.permutations(range(len(sizes))))[:count]]
    texts = []
    if constraints:
        a, b = draw(st.permutations(range(len(sizes))))[:2]
        x, y = draw(st.integers(0, sizes[a] - 1)), draw(st.integers(0, sizes[b] - 1))
        texts = draw(st.sampled_from([[], [f"a{a} != {x} or a{b} == {y}"], [f"not (a{a} == {x} and a{b} != {y})"]]))
    space = eh.Space(attributes, protected=protected, constraints=texts)
    seed = draw(st.integers(0, 2**32 - 1))
    labels = draw(st.integers(1, 3))
    return World(space, np.random.default_rng(seed).integers(0, labels, space.coding.total))
