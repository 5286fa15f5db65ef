"""Small worlds whose every individual is known: a space, and a model that looks its answers up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import evenhand as eh
from evenhand.search import Search
from evenhand.space.individuals import Individuals


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
        """Every test's key and its legal members, written out one by one."""
        out: dict[Any, list[npt.NDArray[np.int32]]] = {}
        sets: dict[Any, frozenset[tuple[int, ...]]] = {}
        for row in self.space.coding.rows(np.arange(self.space.coding.total)):
            members = self._members(row)
            if len(members) >= 2:
                key = self.space.individuals(row[None]).keys[0].item()
                family = frozenset(tuple(m.tolist()) for m in members)
                # One key, one family: whoever of it one starts from.
                assert sets.setdefault(key, family) == family
                out[key] = members
        assert len(set(sets.values())) == len(sets)
        return out

    def _members(self, row: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int32]]:
        """The individual and its counterparts, built with plain loops."""
        space = self.space
        out = []
        sizes = [space.coding.sizes[j] for j in space.protected_columns]
        if space.links and not space.legal(row[None])[0]:
            return []
        for combination in np.ndindex(*sizes):
            other = row.copy()
            for j, code in zip(space.protected_columns, combination, strict=True):
                other[j] = code
            for j, dependents in space.link_tables.items():
                if other[j] != row[j]:
                    for dependent, links in dependents.items():
                        other[dependent] = links[other[j], other[dependent]]
            if space.legal(other[None])[0]:
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


class Lookup(eh.Model):
    """A world's answers as labels, or as scores whose highest is the label."""

    name, input, has_scores, decides = "lookup", "array", True, True

    def __init__(self, world: World) -> None:
        self.world = world
        self.classes = np.arange(max(2, int(world.table.max()) + 1))

    def labels(self, X: Any) -> Any:
        return self.world(X)

    def scores(self, X: Any) -> Any:
        labels = self.world(X)
        # Smooth in between, so that there is something to differentiate.
        level = np.sin(X @ np.arange(1, X.shape[1] + 1)[:, None] + np.arange(len(self.classes))) / 4
        return level + (labels[:, None] == np.arange(len(self.classes)))


@dataclass(frozen=True)
class Stretch:
    """A search that tests the individuals of one stretch of the space, by their numbers."""

    start: float
    end: float

    def people(self, space: eh.Space) -> Individuals:
        first, last = (int(share * space.coding.total) for share in (self.start, self.end))
        rows = space.coding.rows(np.arange(first, last))
        return space.individuals(rows[space.legal(rows)])

    def search(self, problem: eh.Problem) -> Search:
        yield from eh.test(self.people(problem.space))


def keys_of(run: eh.Run) -> list[Any]:
    """The tests of a run's findings, in order."""
    if isinstance(run.space, eh.TextSpace):
        return run.findings["text"].tolist()
    return run.pairs.individuals().keys.tolist() if run.found else []


def whole(name: str, size: int, nominal: bool) -> eh.Integer | eh.Nominal:
    # Values equal codes, so that a lookup needs no translation.
    return eh.Nominal(name, range(size)) if nominal else eh.Integer(name, 0, size - 1)


def random_world(seed: int, most: int, *, patchy: bool = True, nominal: bool = True) -> World:
    """A random space of up to ``most`` individuals and a random table, smooth enough for local searches."""
    rng = np.random.default_rng(seed)
    attributes = []
    total = 1
    while total < most and len(attributes) < 7:
        size = int(rng.integers(2, 9))
        if total * size > most:
            break
        total *= size
        attributes.append(whole(f"a{len(attributes)}", size, nominal and rng.random() < 0.4))
    names = [a.name for a in attributes]
    protected = list(rng.choice(names, size=int(rng.integers(1, min(3, len(names)))), replace=False))
    space = eh.Space(attributes, protected=[str(p) for p in protected])
    rows = space.coding.rows(np.arange(space.coding.total))
    weights = rng.normal(size=rows.shape[1])
    score = np.sin(rows @ weights) if patchy else rows @ weights - np.median(rows @ weights)
    return World(space, (score > rng.normal() * 0.5).astype(np.int64))


@st.composite
def worlds(draw: st.DrawFn, most: int = 400, constraints: bool = False) -> World:
    """Any small world, answers included."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=5))
    while int(np.prod(sizes)) > most:
        sizes = sizes[:-1]
    nominal = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    attributes = [whole(f"a{j}", size, nom) for j, (size, nom) in enumerate(zip(sizes, nominal, strict=True))]
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
