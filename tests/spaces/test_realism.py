"""The fast search for near people, against comparing everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.spaces.realism import Distance, Realism, Tree
from tests.worlds import random_world


def rows_of(space: eh.Space, seed: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, space.sizes, size=(n, len(space.names))).astype(np.int32)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), people=st.integers(1, 60), missing=st.booleans(), radius=st.floats(0, 4))
def test_within_a_radius(seed: int, people: int, missing: bool, radius: float) -> None:
    rng = np.random.default_rng(seed)
    attributes = [
        eh.Nominal(f"a{j}", range(int(rng.integers(2, 9))))
        if rng.random() < 0.6
        else eh.Integer(f"a{j}", 0, int(rng.integers(1, 40)), missing=missing)
        for j in range(7)
    ]
    space = eh.Space([*attributes, eh.Boolean("member")], protected="member")
    others, rows = rows_of(space, seed, people), rows_of(space, seed + 1, 80)
    expected = Distance(space).least(rows, others) <= radius + 1e-9
    assert Tree(space, others).within(rows, radius).tolist() == expected.tolist()


def test_about_the_nearest_by_some_columns() -> None:
    space = eh.Space([eh.Integer("a", 0, 99), eh.Nominal("b", range(9)), eh.Boolean("member")], protected="member")
    others, rows = rows_of(space, 1, 200), rows_of(space, 2, 50)
    found = Tree(space, others, space.free_columns).nearest(rows, 5)
    free = Distance(space).parts(rows[:, None], others[None])[:, :, space.free_columns].sum(axis=2)
    assert found.shape == (50, 5)
    # The search may look twice as far as the very nearest.
    at = np.take_along_axis(free, found, axis=1)
    assert (at[:, 0] <= 2 * free.min(axis=1) + 1e-9).all()
    assert (np.diff(at, axis=1) >= -1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_realistic_agrees_with_likeness(seed: int) -> None:
    space = random_world(seed, 30_000).space
    real = Realism(space, space.individuals(rows_of(space, 9, 300)))
    rows = rows_of(space, seed, 400)
    every = real.likeness(rows).realistic
    assert real.realistic(rows).tolist() == every.tolist()
    assert not (real.realistic(rows, thorough=False) & ~every).any()


def test_a_quick_look_overlooks_few() -> None:
    data = eh.datasets.load("german")
    space = data.space()
    people = space.encode(data.train).individuals
    real, rows = Realism(space, people), people.rows.copy()
    rows[:, 1] = np.roll(rows[:, 1], 7)
    assert real.realistic(rows, thorough=False).sum() >= 0.95 * real.realistic(rows).sum()


def test_real_people_of_adult_are_realistic_and_uniform_ones_are_not() -> None:
    data = eh.datasets.load("adult")
    space = data.space()
    people = space.encode(data.train).individuals
    real = Realism(space, people)
    assert real.realistic(people.rows[:2000]).mean() > 0.85
    assert real.realistic(rows_of(space, 0, 2000)).mean() < 0.01


def test_many_values_are_compared_without_a_tree() -> None:
    space = eh.Space([eh.Nominal("city", range(900)), eh.Boolean("member")], protected="member")
    people = space.individuals(np.stack([np.arange(900), np.arange(900) % 2], axis=1).astype(np.int32))
    tree = Tree(space, people.rows)
    assert tree.within(rows_of(space, 0, 20), 0).mean() < 1
    assert tree.within(people.rows, 0).all()
    assert tree.nearest(people.rows, 1)[:, 0].tolist() == list(range(900))
