from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.search import Problem
from tests.worlds import World, random_world, worlds


def sequential(
    world: World, variant: str, samples: int, steps: int, seed: int, rate: float, rounds: int, stray: float
) -> list[Any]:
    """AEQUITAS as its paper states it: every individual visited, in order, one at a time.

    The random numbers are the run's own, so that the two can be compared step by step.
    """
    space, stream = world.space, Stream(seed)
    visited = []

    def unfair(row: np.ndarray) -> bool:
        labels = {int(world.table[space.coding.ids(m[None])[0]]) for m in world._members(row)}
        return len(labels) > 1

    free = space.free_columns
    choice = [1 / len(free)] * len(free)
    down = [0.5] * len(free)
    known: set[Any] = set()
    walker, dealt = -1, 0

    def visit(row: np.ndarray) -> bool:
        visited.append(row.tolist())
        known.add(space.individuals(row[None]).keys[0].item())
        return unfair(row)

    def sampled(count: int) -> list[np.ndarray]:
        nonlocal dealt
        drawn, dealt = space.sampler.draw(stream, dealt, count)
        fresh = [space.individuals(row[None]).keys[0].item() not in known for row in drawn.rows]
        # Of two that differ in protected attributes only, the first is the seed.
        keys = drawn.keys.tolist()
        return [row for i, row in enumerate(drawn.rows) if visit(row) and fresh[i] and keys[i] not in keys[:i]]

    starts = (start for number in range(rounds) for start in sampled(samples * 2**number))
    for start in starts:
        walker += 1
        row = start.copy()
        for step in range(steps):
            draw, p, total = stream.unit("choice", walker, step)[0] * np.cumsum(choice)[-1], 0, choice[0]
            while draw >= total and p < len(free) - 1:
                p += 1
                total = np.cumsum(choice)[p]
            goes_down = stream.unit("down", walker, step)[0] < down[p]
            moved, j = row.copy(), free[p]
            size = space.coding.sizes[j]
            if space.ordered[j]:
                moved[j] = min(max(row[j] + (-1 if goes_down else 1), 0), size - 1)
            else:
                moved[j] = (row[j] + 1 + int(stream.bits("jump", walker, step)[0] % np.uint64(size - 1))) % size
            before, row = row, moved if space.valid(moved[None])[0] else row
            found = visit(row)
            if variant != "random":
                down[p] = min(down[p] + rate, 1) if goes_down == found else max(down[p] - rate, 0)
            if variant == "full" and found:
                choice[p] += rate
                choice = [c / sum(choice) for c in choice]
            if not found and stream.unit("stray", walker, step)[0] >= stray:
                row = before
    return visited


def visits(world: World, strategy: eh.Aequitas, seed: int) -> list[Any]:
    """What a strategy asks about, in order, with verdicts from the table."""
    from evenhand._keyset import Memo
    from evenhand.search import Verdicts

    search = strategy.search(Problem(world.space, Stream(seed)))
    visited: list[Any] = []
    memo = Memo()
    answer = None
    while True:
        try:
            query = search.send(answer)
        except StopIteration:
            return visited
        block = query.individuals
        visited += block.rows.tolist()
        fresh = memo.fresh(block.keys)
        labels = [
            {int(world.table[world.space.coding.ids(m[None])[0]]) for m in world._members(block.rows[i])} for i in fresh
        ]
        unfair = np.array([len(found) > 1 for found in labels], dtype=bool)
        memo.add(block.keys[fresh], unfair)
        answer = Verdicts(block, fresh, unfair, memo)


@settings(max_examples=40, deadline=None)
@given(
    worlds(constraints=True),
    st.sampled_from(["random", "semi", "full"]),
    st.integers(1, 12),
    st.integers(1, 25),
    st.integers(0, 9),
    st.sampled_from([0.001, 0.2]),
    st.integers(1, 3),
    st.sampled_from([0.0, eh.Aequitas.PROGRAM, eh.Aequitas.PRINTED]),
)
def test_width_one_is_the_paper_step_by_step(
    world: World, variant: Any, samples: int, steps: int, seed: int, rate: float, rounds: int, stray: float
) -> None:
    rates = {"direction_rate": rate, "choice_rate": rate}
    strategy = eh.Aequitas(variant, samples, steps, width=1, rounds=rounds, stray=stray, **rates)
    assert visits(world, strategy, seed) == sequential(world, variant, samples, steps, seed, rate, rounds, stray)


def test_random_walks_do_not_depend_on_the_width() -> None:
    world = random_world(5, 5000)
    narrow, wide = (
        eh.audit(
            world.model, world.space, strategy=eh.Aequitas("random", 30, 40, width=w, rounds=2), budget=eh.Budget()
        )
        for w in (1, 64)
    )
    assert set(narrow.pairs.individuals().keys.tolist()) == set(wide.pairs.individuals().keys.tolist())


@pytest.mark.slow
def test_directed_walks_find_more_than_random_ones() -> None:
    # Only a high first attribute discriminates: walks that learn not to lower it stay inside.
    space = eh.Space([*(eh.Integer(f"a{j}", 0, 19) for j in range(4)), eh.Integer("sex", 0, 1)], protected="sex")
    rows = space.coding.rows(np.arange(space.coding.total))
    world = World(space, np.where(rows[:, 0] >= 16, rows[:, 4], 0))
    rates = {"direction_rate": 0.01, "choice_rate": 0.001}

    def success(variant: Any, stray: float) -> float:
        strategy, budget = eh.Aequitas(variant, 50, 400, stray=stray, **rates), eh.Budget(tests=3000)
        runs = [eh.audit(world.model, space, strategy, budget, seed=i) for i in range(5)]
        return float(np.mean([run.success_rate for run in runs]))

    random, semi, full = (success(variant, eh.Aequitas.PRINTED) for variant in ("random", "semi", "full"))
    assert random < semi
    assert random < full
    # A walk that never leaves needs no such help.
    assert success("full", 0) > success("full", eh.Aequitas.PROGRAM) > full


@pytest.mark.parametrize(
    "setting",
    [
        {"variant": "none"},
        {"steps": 0},
        {"width": 0},
        {"samples": "9"},
        {"direction_rate": 0},
        {"choice_rate": -1.0},
        {"stray": 1.5},
    ],
)
def test_wrong_settings_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Aequitas(**setting)
    assert caught.value.parameter == next(iter(setting))
