"""Regions: equal for counterparts, balanced, and dependent only on the space and its data."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.strategies.archive import Partition
from tests.worlds import World, worlds


@settings(max_examples=30, deadline=None)
@given(world=worlds(), seed=st.integers(0, 5))
def test_counterparts_share_a_region(world: World, seed: int) -> None:
    space = world.space
    if space.links:
        return
    regions = Partition(space, seed=seed)
    every = space.coding.rows(np.arange(space.coding.total))
    number = regions.of(every)
    assert number.min() >= 0
    assert number.max() < regions.count
    keys = space.coding.ids(every) // space.coding.combinations
    assert len(np.unique(keys)) == len(np.unique(np.stack([keys, number], axis=1), axis=0))


def test_regions_hold_about_equally_many() -> None:
    data = eh.datasets.load("adult")
    space = data.space()
    people = space.encode(data.train).individuals
    regions = Partition(space, people)
    uniform = space.sampler.draw(Stream(5), 0, 20_000, repeats=True)[0].rows
    shares = [np.bincount(regions.of(rows), minlength=regions.count) / len(rows) for rows in (people.rows, uniform)]
    both = (shares[0] + shares[1]) / 2
    # Of an even partition each region has 1 in 4,096; cuts may be as uneven as 1 to 3.
    assert (both > 0).mean() > 0.9
    assert both.max() < 20 / regions.count


def test_the_same_partition_every_time_and_another_for_another_seed() -> None:
    space = eh.Space([eh.Integer("a", 0, 999), eh.Nominal("b", range(30)), eh.Boolean("member")], protected="member")
    rows = space.sampler.draw(Stream(1), 0, 500)[0].rows
    first = Partition(space).of(rows)
    assert (Partition(space).of(rows) == first).all()
    assert (Partition(space, seed=1).of(rows) != first).any()
    assert len(np.unique(first)) > 250
