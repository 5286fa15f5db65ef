from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.search import Problem
from evenhand.strategies.archive import Partition, Pool
from tests.worlds import World, keys_of, worlds


class Sequential:
    """The archive as its docstring states it, one individual at a time, with dictionaries and loops."""

    def __init__(self, world: World, strategy: eh.Archive, seed: int, data: Any) -> None:
        self.world, self.space, self.strategy, self.stream = world, world.space, strategy, Stream(seed)
        self.people = [] if data is None else list(world.space.encode(data).individuals.rows)
        encoded = None if data is None else world.space.encode(data).individuals
        self.partition = Partition(self.space, encoded, int(self.stream.bits("regions", 0, 0)[0] >> np.uint64(1)))
        self.regions: dict[int, list[np.ndarray]] = {}
        self.judged: set[Any] = set()
        self.found: list[Any] = []
        uniform = self.space.sampler.draw(self.stream, 0, 4096, repeats=True)[0].rows
        self.donors = self.people or list(uniform)

    def bits(self, phase: str, walker: int, number: int) -> int:
        return int(self.stream.bits(phase, walker, number)[0])

    def unit(self, phase: str, walker: int, number: int) -> float:
        return float(self.stream.unit(phase, walker, number)[0])

    def judge(self, rows: list[np.ndarray]) -> int:
        new, found = 0, []
        for row in rows:
            key = self.space.individuals(row[None]).keys[0].item()
            members = self.world._members(row)
            if key in self.judged or len(members) < 2:
                continue
            self.judged.add(key)
            new += 1
            if len({int(self.world.table[self.space.coding.ids(m[None])[0]]) for m in members}) > 1:
                self.found.append(key)
                found.append(row)
        for row in found:
            kept = self.regions.setdefault(int(self.partition.of(row[None])[0]), [])
            if len(kept) < self.strategy.per_region:
                kept.append(row)
        return new

    def change(
        self, row: np.ndarray, count: int, walker: int, number: int, given: bool, phase: str
    ) -> np.ndarray | None:
        space, out = self.space, row.copy()
        for change in range(count):
            j = space.free_columns[self.bits(f"{phase}-c{change}", walker, number) % len(space.free_columns)]
            bits, code, present = self.bits(f"{phase}-v{change}", walker, number), int(out[j]), int(space.present[j])
            if given:
                out[j] = self.donors[bits % len(self.donors)][j]
            elif not space.ordered[j]:
                size = int(space.sizes[j])
                out[j] = (code + 1 + bits % max(size - 1, 1)) % size
            elif code < present:
                unit = self.unit(f"{phase}-s{change}", walker, number)
                far = min(max(round(abs(math.tan(math.pi * (unit - 0.5)))), 1), max(present // 4, 1))
                out[j] = min(max(code + (-far if unit < 0.5 else far), 0), present - 1)
        return out if space.valid(out[None])[0] else None

    def children(self, number: int, order: list[int]) -> list[np.ndarray]:
        out = []
        for walker in range(self.strategy.block):
            kept = self.regions[order[self.bits("region", walker, number) % len(order)]]
            parent = kept[int(self.unit("place", walker, number) * len(kept))]
            count = 1 + self.bits("changes", walker, number) % 2
            child = self.change(parent, count, walker, number, number % 2 == 1, "vary")
            out += [] if child is None else [child]
        return out

    def starts(self, number: int) -> list[np.ndarray]:
        out, block = list[np.ndarray](), self.strategy.block
        for walker in range(block if self.people else 0):
            at = number * block + walker
            which = int(self.stream.shuffled(np.array([at % len(self.people)]), len(self.people), "nearby")[0])
            count = at // len(self.people) % 3
            child = self.change(self.people[which], count, walker, number * block, True, "near")
            out += [] if child is None else [child]
        return out

    def run(self, blocks: int) -> None:
        drawn, new = 0, True
        for number in range(blocks):
            # A dictionary remembers in which order its regions came; of one block the lower number comes first.
            order = self.order
            if new and (len(order) >= 8 or (order and number % 2)):
                children = self.children(number, order)
                new = 4 * self.judge(children) >= len(children)
            else:
                sample, drawn = self.space.sampler.draw(self.stream, drawn, self.strategy.block)
                if not len(sample):
                    return
                self.judge(self.starts(number) + list(sample.rows))
                new = True
            self.order += sorted(set(self.regions) - set(self.order))

    order: list[int]


@settings(max_examples=40, deadline=None)
@given(worlds(constraints=True), st.integers(1, 40), st.integers(1, 3), st.integers(0, 5), st.integers(0, 30))
def test_same_findings_in_the_same_order_as_one_by_one(
    world: World, block: int, per_region: int, seed: int, people: int
) -> None:
    strategy = eh.Archive(block=block, per_region=per_region)
    sampler = world.space.sampler
    data = world.space.frame(sampler.draw(Stream(99), 0, people, repeats=True)[0].rows) if people else None
    reference = Sequential(world, strategy, seed, data)
    reference.order = []
    reference.run(12)
    if not reference.judged:
        return
    budget = eh.Budget(tests=len(reference.judged))
    run = eh.audit(world.model, world.space, strategy, budget, seed, data=data)
    assert keys_of(run) == reference.found


def test_parents_come_evenly_from_all_regions_with_findings() -> None:
    space = eh.Space([eh.Integer("a", 0, 9999), eh.Boolean("p")], protected="p")
    problem = Problem(space, Stream(0))
    pool = Pool(problem, per_region=4)
    rows = np.stack([np.r_[np.full(5000, 3), 5000, 9000], np.zeros(5002)], axis=1).astype(np.int32)
    assert pool.add(rows) == 3
    assert pool.add(rows) == 0
    drawn = pool.draw(problem.stream, 3000, 0)[:, 0]
    assert set(drawn) == {3, 5000, 9000}
    assert min(np.bincount(drawn)[[3, 5000, 9000]]) > 900


@pytest.mark.parametrize("seed", range(3))
def test_reaches_more_regions_than_a_worklist(seed: int) -> None:
    space = eh.Space([eh.Integer(name, 0, 99) for name in "abcd"] + [eh.Boolean("p")], protected="p")

    def islands(X: np.ndarray) -> np.ndarray:
        return (X[:, 4] > 0) & ((X[:, :4] // 10).sum(axis=1) % 9 == 0)

    reached = {}
    partition = Partition(space)
    for strategy in (eh.Kosei(), eh.Archive()):
        run = eh.audit(eh.wrap(islands, input="array"), space, strategy, eh.Budget(tests=5000), seed)
        reached[type(strategy)] = len(np.unique(partition.of(run.pairs.individuals().rows)))
    assert reached[eh.Archive] > 2 * reached[eh.Kosei]


@pytest.mark.parametrize("setting", [{"block": 0}, {"per_region": 0}, {"block": 1.5}])
def test_wrong_settings_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Archive(**setting)
    assert caught.value.parameter == next(iter(setting))
