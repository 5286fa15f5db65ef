"""Populations: who is drawn and how often, independently of block sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy import stats

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import DataError
from evenhand.estimates.populations import Everyone, NearDraws, RowDraws, check_weights
from evenhand.search import EachRow, UniformDraws
from tests.worlds import World, worlds

SPACE = eh.Space(
    [eh.Integer("a", 0, 3), eh.Nominal("b", ["x", "y", "z"]), eh.Boolean("s")],
    protected="s",
    constraints=["a > 0 or b == 'x'"],
)


def take_all(population, n, block):
    at, parts = 0, []
    while sum(map(len, parts)) < n:
        people, at = population.take(at, min(block, n - sum(map(len, parts))))
        if not len(people):
            break
        parts.append(people.rows)
    return np.concatenate(parts)


def people_of(space):
    rows = space.coding.rows(np.arange(space.coding.total))
    return space.individuals(rows[space.valid(rows)])


def populations(space):
    people, stream = people_of(space), Stream(3)
    yield UniformDraws(space, stream)
    yield EachRow(people, stream)
    yield RowDraws(people, stream)
    yield RowDraws(people, stream, np.arange(1.0, len(people) + 1))
    yield NearDraws(RowDraws(people, stream), 2)


@pytest.mark.parametrize("number", range(5))
def test_block_size_has_no_effect_and_all_are_valid(number: int) -> None:
    population = list(populations(SPACE))[number]
    whole, pieces = take_all(population, 15, 15), take_all(population, 15, 4)
    assert whole.tolist() == pieces.tolist()
    assert SPACE.valid(whole).all()


def test_uniform_draws_are_uniform_and_independent() -> None:
    rows = take_all(UniformDraws(SPACE, Stream(0)), 20_000, 5_000)
    counts = np.unique(SPACE.coding.ids(rows), return_counts=True)[1]
    assert len(counts) == len(people_of(SPACE))
    assert stats.chisquare(counts).pvalue > 1e-3
    first, second = SPACE.coding.ids(rows[:-1]), SPACE.coding.ids(rows[1:])
    assert stats.chi2_contingency(stats.contingency.crosstab(first, second).count).pvalue > 1e-3


def test_rows_come_once_and_drawn_rows_as_often_as_they_weigh() -> None:
    people = people_of(SPACE)
    rows = take_all(EachRow(people, Stream(1)), 100, 7)
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, people.rows.tolist()))
    weights = np.where(np.arange(len(people)) % 2, 3.0, 1.0)
    weights[4] = 0
    drawn = SPACE.coding.ids(take_all(RowDraws(people, Stream(1), weights), 20_000, 20_000))
    counts = (drawn[:, None] == people.ids).sum(axis=0)
    assert counts[4] == 0
    heavy = weights > 0
    expected = 20_000 * weights[heavy] / weights.sum()
    assert stats.chisquare(counts[heavy], expected).pvalue > 1e-3


def test_near_moves_free_attributes_by_at_most_its_steps() -> None:
    space = eh.Space([eh.Integer(name, 0, 99) for name in "abc"] + [eh.Nominal("s", ["x", "y", "z"])], protected="s")
    start = space.individuals(np.array([[50, 50, 50, 1]]))
    for steps in (1, 3):
        rows = take_all(NearDraws(RowDraws(start, Stream(0)), steps), 500, 500)
        moved = np.abs(rows[:, :3] - 50).sum(axis=1)
        assert moved.max() == steps
        assert (rows[:, 3] == 1).all()
        assert ((moved - steps) % 2 == 0).all()


@given(worlds(constraints=True))
def test_everyone_is_every_test_once(world: World) -> None:
    space = world.space
    rows = take_all(Everyone(space, Stream(5)), space.tests, 7)
    free = rows[:, space.free_columns]
    assert len(np.unique(free, axis=0)) == len(free) == space.tests
    singles = take_all(Everyone(space, Stream(5), singly=True), space.coding.total, 10**6)
    assert sorted(map(tuple, singles.tolist())) == sorted(map(tuple, people_of(space).rows.tolist()))


@pytest.mark.parametrize(
    "weights", [[1, 2], [1, -1, 1], [1, np.nan, 1], [0, 0, 5], "w", ["a", "b", "c"], [[1, 1, 1]], [np.inf, 1, 1]]
)
def test_wrong_weights(weights) -> None:
    with pytest.raises(DataError, match="weights"):
        check_weights(weights, {"v": [1, 2, 3]}, np.array([0, 1]), 3)


def test_weights_by_name_and_of_rows_that_are_left() -> None:
    assert check_weights("v", {"v": [1, 2, np.nan]}, np.array([1, 0]), 3).tolist() == [1, 0.5]
