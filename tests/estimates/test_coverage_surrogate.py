from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import balanced_accuracy_score
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand._rng import Stream
from evenhand.estimates.coverage import FOLDS, WIDEST, Inputs, Surrogate, _curve, _grow, imitate
from tests.worlds import World, random_world, worlds


def drawn(world: World, n: int) -> Any:
    return world.space.sampler.draw(Stream(5), 0, n)[0].rows


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_curve_is_that_of_trees_grown_one_by_one(seed: int) -> None:
    world = random_world(seed, 30_000)
    rows = drawn(world, 900)
    seen, said = Inputs(world.space)(rows), world(rows)
    first, second = slice(600), slice(600, 900)
    weights = 1 / (2 * np.bincount(said[second]))[said[second]]
    curve = _curve(_grow(seen[first], said[first]), seen[second], said[second], weights)
    assert len(curve) > 10
    for leaves in {2, 3, 4, 7, 20, len(curve) - 1, len(curve)}:
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, class_weight="balanced", random_state=0)
        tree.fit(seen[first], said[first])
        expected = balanced_accuracy_score(said[second], tree.predict(seen[second]))
        assert curve[leaves - 1] == pytest.approx(expected)


@pytest.mark.parametrize("seed", [1, 4])
def test_the_size_is_the_best_of_all_by_cross_validation(seed: int) -> None:
    world = random_world(seed, 3_000)
    rows = drawn(world, 100)
    seen, said = Inputs(world.space)(rows), world(rows)
    fold = np.arange(100) % FOLDS

    def validated(leaves: int) -> float:
        told = np.empty_like(said)
        for f in range(FOLDS):
            told[fold == f] = _grow(seen[fold != f], said[fold != f], leaves).predict(seen[fold == f])
        return float(balanced_accuracy_score(said, told))

    done = imitate(world.space, rows, said)
    accuracies = [validated(leaves) for leaves in range(2, 45)]
    assert done.accuracy == pytest.approx(max(accuracies))
    assert done.leaves == 2 + int(np.argmax(np.round(accuracies, 9)))


@settings(max_examples=25, deadline=None)
@given(world=worlds())
def test_of_a_whole_space_the_tree_is_the_model(world: World) -> None:
    rows = world.space.coding.rows(np.arange(world.space.coding.total))
    said = world(rows)
    done = imitate(world.space, rows, said, whole=True)
    assert done.accuracy == 1
    assert (done.tree.predict(done.inputs(rows)) == np.unique(said, return_inverse=True)[1]).all()
    leaf = done.leaf(rows)
    assert len(set(leaf.tolist())) == done.leaves
    assert leaf.max() < done.nodes


def tree_of(space: eh.Space, decide: Any) -> Surrogate:
    rows = space.coding.rows(np.arange(space.coding.total))
    return imitate(space, rows, decide(rows), whole=True)


def test_nominal_values_are_separated_from_all_others() -> None:
    for nominal, leaves in ((True, 2), (False, 3)):
        values = eh.Nominal("work", range(9)) if nominal else eh.Integer("work", 0, 8)
        space = eh.Space([values, eh.Boolean("member")], protected="member")
        assert tree_of(space, lambda rows: rows[:, 0] == 4).leaves == leaves


def test_missing_values_are_separated_from_all_others() -> None:
    space = eh.Space([eh.Integer("age", 1, 9, missing=True), eh.Boolean("member", missing=True)], protected="member")
    assert Inputs(space)(np.array([[9, 1], [8, 2]])).tolist() == [[9, 1, 1, 0], [8, 2, 0, 1]]
    assert tree_of(space, lambda rows: (rows[:, 0] > 2) & (rows[:, 0] < 9)).leaves == 3


def test_two_nominal_values_are_one_column() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    assert Inputs(space)(np.array([[3, 0], [3, 1]])).tolist() == [[3, 0], [3, 1]]


def test_a_very_wide_nominal_attribute_is_not_seen() -> None:
    space = eh.Space([eh.Nominal("a", range(WIDEST + 1)), eh.Nominal("b", range(WIDEST + 1))], protected="a")
    rows = space.sampler.draw(Stream(0), 0, 500)[0].rows
    done = imitate(space, rows, rows[:, 0] % 2)
    assert done.leaves == 1
    assert done.accuracy == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("whole", [True, False])
def test_a_model_that_decides_all_alike_has_one_leaf(whole: bool) -> None:
    rows = drawn(random_world(1, 3000), 200)
    done = imitate(random_world(1, 3000).space, rows, np.zeros(200), whole)
    assert (done.leaves, done.nodes, done.accuracy) == (1, 1, 1)


def test_the_commonest_decision_alone_is_not_accurate() -> None:
    world = random_world(2, 30_000)
    rows = drawn(world, 2000)
    # One in fifty, by nothing that a tree could see: who always says no is right on 98 %.
    noise = np.random.default_rng(0).random(2000) < 0.02
    assert imitate(world.space, rows, noise).accuracy < 0.6


def test_a_decision_seen_once_cannot_be_validated() -> None:
    world = random_world(2, 30_000)
    rows = drawn(world, 200)
    once = np.arange(200) == 17
    assert imitate(world.space, rows, once).accuracy <= 0.5
