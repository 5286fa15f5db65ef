from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand._rng import Stream
from evenhand.search import Problem, Query
from evenhand.spaces.individuals import Individuals
from evenhand.strategies.boundary import Crowd
from tests.worlds import World, random_world


def bisected(world: World, start: np.ndarray, end: np.ndarray, order: list[int]) -> list[np.ndarray] | None:
    """The two neighbours on a path between which the decision changes, found step by step; None: it does not."""
    space = world.space

    def decide(row: np.ndarray) -> int:
        return int(world.table[space.coding.ids(row[None])[0]])

    first = decide(start)
    if decide(end) == first:
        return None
    path, columns = [start.copy()], [j for j in order if start[j] != end[j]]
    for j in columns:
        row = path[-1].copy()
        row[j] = end[j]
        path.append(row)
    low, high = 0, len(columns)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if decide(path[middle]) == first else (low, middle)
    one, other, j = path[low].copy(), path[high].copy(), columns[low]
    while space.ordered[j] and abs(int(one[j]) - int(other[j])) > 1:
        row = one.copy()
        row[j] = (one[j] + other[j]) // 2
        if decide(row) == first:
            one = row
        else:
            other = row
    return [one, other]


@pytest.mark.parametrize("seed", range(6))
def test_ends_are_those_of_a_plain_bisection(seed: int) -> None:
    world = random_world(seed + 40, 40_000)
    space, strategy = world.space, eh.Boundary(people=60, donors=4, block=16)
    problem = Problem(space, Stream(seed))
    tested: list[np.ndarray] = []
    labelled = 0
    search = strategy.search(problem)
    answer: Any = None
    expected: list[np.ndarray] = []
    shadow = Crowd(problem, 4)
    shadow_search = shadow.grow(60)
    query = next(shadow_search)
    with pytest.raises(StopIteration):
        shadow_search.send(decide(world, query))
    for row in zip(*shadow.paths(16), strict=True):
        number, start, end, _ = row
        free = list(space.free_columns)
        order = sorted(free, key=lambda j: float(problem.stream.unit("order", number, j)[0]))
        ends = bisected(world, start, end, order)
        expected += ends or []
        assert (start[space.protected_columns] == end[space.protected_columns]).all()
    while not tested:
        query = search.send(answer)
        if query.kind == "test":
            assert query.individuals is not None
            tested = list(query.individuals.rows)
        else:
            labelled += len(query.individuals or [])
            answer = decide(world, query)
    wanted = {space.individuals(row[None]).keys[0].item() for row in expected}
    assert {space.individuals(row[None]).keys[0].item() for row in tested} == wanted
    assert labelled >= 60


def decide(world: World, query: Query) -> np.ndarray:
    individuals = query.individuals
    assert isinstance(individuals, Individuals)
    return world.table[individuals.ids]


def test_paths_lead_to_near_people_with_another_decision() -> None:
    world = random_world(3, 40_000)
    problem = Problem(world.space, Stream(0))
    crowd = Crowd(problem, 2)
    search = crowd.grow(200)
    query = next(search)
    with pytest.raises(StopIteration):
        search.send(decide(world, query))
    people, labels = query.individuals.rows, decide(world, query)  # type: ignore[union-attr]
    _, start, end, decision = crowd.paths(50)
    free = world.space.free_columns
    for i in range(50):
        others = people[labels != decision[i]]
        apart = (others[:, free] != start[i, free]).sum(axis=1)
        own = (end[i, free] != start[i, free]).sum()
        assert own <= np.sort(apart)[1]


def test_finds_an_effect_so_weak_that_uniform_individuals_show_none() -> None:
    space = eh.Space([eh.Integer(name, 0, 999) for name in "abc"] + [eh.Boolean("p")], protected="p")

    def weak(X: np.ndarray) -> np.ndarray:
        return X[:, :3].sum(axis=1) + 0.7 * X[:, 3] > 1500.5

    model = eh.wrap(weak, input="array")
    budget = eh.Budget(rows=4000)
    assert eh.audit(model, space, eh.Boundary(), budget).found > 100
    assert eh.audit(model, space, eh.Themis(), budget).found < 10


@pytest.mark.parametrize("setting", [{"people": 0}, {"donors": 0}, {"block": None}])
def test_wrong_settings_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Boundary(**setting)
    assert caught.value.parameter == next(iter(setting))
