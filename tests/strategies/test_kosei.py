from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from tests.worlds import World, keys_of, random_world, worlds


def sequential(
    world: World, samples: int, seed: int, per_seed: int | None = None, pops: int | None = None, rounds: int = 1
) -> tuple[list[Any], int]:
    """KOSEI as its paper states it, one individual at a time: what was found, in order, and how many were judged.

    With several rounds the local search is a program of its own, which is stopped after so many tests and goes on
    where it was.
    """
    space = world.space
    judged: set[Any] = set()
    found: list[Any] = []
    worklist: deque[np.ndarray] = deque()

    def judge(row: np.ndarray) -> bool | None:
        key = space.individuals(row[None]).keys[0].item()
        if key in judged:
            return None
        members = world._members(row)
        if len(members) < 2:
            return None
        judged.add(key)
        unfair = len({int(world.table[space.coding.ids(m[None])[0]]) for m in members}) > 1
        if unfair:
            found.append(key)
        return unfair

    def local() -> Iterator[None]:
        nonlocal pops
        while worklist and pops != 0:
            popped = worklist.popleft()
            pops = None if pops is None else pops - 1
            for j in space.free_columns:
                size, code = space.coding.sizes[j], int(popped[j])
                moves = [code - 1, code + 1] if space.ordered[j] else [c for c in range(size) if c != code]
                for target in moves:
                    if not 0 <= target < size:
                        continue
                    other = popped.copy()
                    other[j] = target
                    verdict = judge(other)
                    if verdict:
                        worklist.append(other)
                    if verdict is not None:
                        yield

    dealt = seeds = local_tests = 0
    search: Iterator[None] = iter(())
    for number in range(rounds):
        drawn, dealt = space.sampler.draw(Stream(seed), dealt, samples * 2**number)
        for row in drawn.rows:
            if judge(row):
                worklist.append(row)
                seeds += 1
        last = number == rounds - 1 or not len(drawn)
        allowed = [math.inf if last else 8 * len(drawn)]
        if per_seed is not None:
            allowed.append(per_seed * seeds - local_tests)
        here = 0
        while here < min(allowed):
            if next(search, "over") == "over":
                search = local()
                if next(search, "over") == "over":
                    break
            here += 1
        local_tests += here
        if not len(drawn):
            break
    return found, len(judged)


@settings(max_examples=80, deadline=None)
@given(
    worlds(constraints=True),
    st.integers(1, 30),
    st.integers(0, 5),
    st.sampled_from([1, 2, 3, 4096]),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 12),
    st.integers(1, 4),
)
def test_same_findings_in_the_same_order_as_the_paper(
    world: World, samples: int, seed: int, wave: int, per_seed: int | None, pops: int | None, rounds: int
) -> None:
    strategy = eh.Kosei(samples=samples, wave=wave, per_seed=per_seed, pops=pops, rounds=rounds)
    run = eh.audit(world.model, world.space, strategy=strategy, seed=seed)
    found, judged = sequential(world, samples, seed, per_seed, pops, rounds)
    assert keys_of(run) == found
    assert run.tests == judged


@pytest.mark.parametrize("seed", range(3))
def test_same_order_on_larger_spaces(seed: int) -> None:
    world = random_world(seed + 10, 20_000)
    run = eh.audit(world.model, world.space, strategy=eh.Kosei(samples=20, wave=64, rounds=1), seed=seed)
    assert keys_of(run) == sequential(world, 20, seed)[0]


@pytest.mark.parametrize("seed", range(4))
def test_finds_exactly_the_individuals_connected_to_seeds(seed: int) -> None:
    world = random_world(seed + 20, 100_000, nominal=False)
    run = eh.audit(world.model, world.space, strategy=eh.Kosei(samples=10, rounds=1), seed=seed, budget=eh.Budget())
    labels = world.table.reshape(-1, world.space.combinations)
    unfair = (labels != labels[:, :1]).any(axis=1)
    # Flood fill over the grid of free attributes, written out with SciPy's labelling of connected components.
    from scipy.ndimage import label

    shape = [world.space.coding.sizes[j] for j in world.space.free_columns]
    components = label(unfair.reshape(shape))[0].ravel()
    start = world.space.sampler.draw(Stream(seed), 0, 10)[0].keys // 2
    reached = set(components[start][unfair[start]])
    expected = [2 * i for i in np.flatnonzero(unfair) if components[i] in reached]
    assert sorted(keys_of(run)) == expected


@pytest.mark.parametrize("setting", [{"samples": 0}, {"per_seed": 0}, {"pops": -1}, {"wave": None}])
def test_wrong_settings_are_named(setting: dict[str, object]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Kosei(**setting)  # type: ignore[arg-type]
    assert caught.value.parameter == next(iter(setting))
