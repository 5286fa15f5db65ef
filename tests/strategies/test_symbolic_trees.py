"""Paths of local trees, against all possible splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.strategies import symbolic
from evenhand.strategies.symbolic import DOWN, IS, IS_NOT, UP, Neighbourhood, paths


def holds(predicate: Any, codes: Any) -> Any:
    """Whether codes meet a predicate, column by column."""
    j, kind, code, _ = predicate
    column = codes[..., int(j)]
    return {UP: column > code, DOWN: column <= code, IS: column == code, IS_NOT: column != code}[int(kind)]


def gini(y: Any, w: Any) -> float:
    """Weight times impurity."""
    total = w.sum()
    return float(total - sum(np.square(w[y == c].sum()) for c in np.unique(y)) / total) if total else 0.0


def best_split(space: eh.Space, codes: Any, y: Any, w: Any) -> float:
    """The least impurity that any split of one attribute leaves."""
    left = np.inf
    for j in range(codes.shape[1]):
        for code in np.unique(codes[:, j]):
            side = codes[:, j] <= code if space.ordered[j] else codes[:, j] == code
            if side.any() and not side.all():
                left = min(left, gini(y[side], w[side]) + gini(y[~side], w[~side]))
    return left


@st.composite
def neighbourhoods(draw: st.DrawFn) -> Any:
    sizes = draw(st.lists(st.integers(2, 7), min_size=2, max_size=4))
    nominal = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    space = eh.Space(
        [
            eh.Nominal(f"a{j}", range(size)) if named else eh.Integer(f"a{j}", 0, size - 1)
            for j, (size, named) in enumerate(zip(sizes, nominal, strict=True))
        ],
        protected="a0",
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    pops, count, classes = draw(st.integers(1, 4)), draw(st.integers(2, 40)), draw(st.integers(1, 3))
    around = rng.integers(0, sizes, (pops, count, len(sizes))).astype(np.int32)
    labels = rng.integers(0, classes, (pops, count))
    weights = rng.random((pops, count)) + 0.01 if draw(st.booleans()) else np.ones((pops, count))
    return space, around[:, 0].copy(), around, labels, weights


@settings(max_examples=150)
@given(neighbourhoods(), st.integers(1, 6))
def test_every_split_on_the_path_is_the_best_one(made: Any, depth: int) -> None:
    space, rows, around, labels, weights = made
    got = paths(space, rows, around, labels, weights, depth)
    for i in range(len(rows)):
        inside = np.ones(labels.shape[1], dtype=bool)
        for level in range(depth):
            predicate = got[i, level]
            y, w, codes = labels[i, inside], weights[i, inside], around[i, inside]
            best = best_split(space, codes, y, w)
            if predicate[0] < 0:
                # The tree ends where one label is left, or nothing can be told apart.
                assert len(np.unique(y)) == 1 or best == np.inf
                assert (got[i, level:, 0] < 0).all()
                break
            assert holds(predicate, rows[i])
            side = holds(predicate, codes)
            assert gini(y[side], w[side]) + gini(y[~side], w[~side]) == pytest.approx(best, abs=1e-9)
            assert predicate[3] == pytest.approx(max(w[y == c].sum() for c in np.unique(y)) / w.sum())
            inside[np.flatnonzero(inside)[~side]] = False


@pytest.mark.parametrize("seed", range(5))
def test_the_path_is_the_one_of_scikit_learns_tree(seed: int) -> None:
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(seed)
    space = eh.Space([eh.Integer(f"a{j}", 0, 99) for j in range(6)], protected="a0")
    rows = rng.integers(0, 100, (10, 6)).astype(np.int32)
    around = Neighbourhood(space, 800).draw(rows, Stream(seed), np.arange(10))
    weights = rng.random((10, 800)) + 0.1
    labels = (np.sin(around @ rng.normal(size=6) / 40) > 0).astype(np.int64)
    got = paths(space, rows, around, labels, weights, 4)
    for i in range(10):
        tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(around[i], labels[i], weights[i]).tree_
        node, level = 0, 0
        while tree.children_left[node] >= 0:
            down = rows[i, tree.feature[node]] <= tree.threshold[node]
            expected = (tree.feature[node], DOWN if down else UP, np.floor(tree.threshold[node]))
            assert tuple(got[i, level, :3]) == expected
            assert got[i, level, 3] == pytest.approx(tree.value[node, 0].max())
            node, level = (tree.children_left[node] if down else tree.children_right[node]), level + 1
        assert level == 4 or got[i, level, 0] < 0


def test_many_values_are_binned_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    space = eh.Space([eh.Integer("a", 0, 999), eh.Integer("b", 0, 9)], protected="b")
    around = rng.integers(0, [1000, 10], (3, 200, 2)).astype(np.int32)
    labels = (around[:, :, 0] > 417).astype(np.int64)
    plain = paths(space, around[:, 0], around, labels, np.ones((3, 200)), 5)
    monkeypatch.setattr(symbolic, "MANY", 5)
    assert (paths(space, around[:, 0], around, labels, np.ones((3, 200)), 5) == plain).all()


def test_neighbours_are_valid_codes_around_the_individual() -> None:
    space = eh.Space(
        [
            eh.Integer("a", 0, 100),
            eh.Integer("b", 0, 10, missing=True),
            eh.Nominal("c", ["x", "y", "z"]),
            eh.Boolean("d"),
        ],
        protected="d",
    )
    rows = space.sampler.draw(Stream(1), 0, 30)[0].rows
    near = Neighbourhood(space, 400)
    around = near.draw(rows, Stream(0), np.arange(30))
    assert ((around >= 0) & (around < space.sizes)).all()
    assert (around[:, 0] == rows).all()
    gone = rows[:, 1] == space.present[1]
    assert gone.any()
    assert (around[gone, :, 1] == space.present[1]).all()
    assert (around[~gone, :, 1] < space.present[1]).all()
    kept = (around[:, 1:, 2] == rows[:, None, 2]).mean()
    assert 0.45 < kept < 0.55
    weights = near.weights(rows, around)
    assert (weights[:, 0] == 1).all()
    assert ((weights > 0) & (weights <= 1)).all()
    # Draws depend on the number of the pop alone.
    assert (near.draw(rows[7:8], Stream(0), np.array([7])) == around[7:8]).all()


@given(st.integers(0, 10**6))
def test_only_tied_attributes_of_invalid_neighbours_change(seed: int) -> None:
    attributes = [eh.Integer(name, 0, 9) for name in "abc"] + [eh.Nominal("n", list("xyz")), eh.Boolean("p")]
    space = eh.Space(attributes, protected="p", constraints=["a + b <= 9", "n != 'x' or c > 3"])
    near, rng = Neighbourhood(space, 40), np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, space.sizes) for _ in range(30)]).T.astype(np.int32)
    rows = rows[space.valid(rows)]
    pops = np.arange(len(rows))
    drawn, (around, weights) = near.draw(rows, Stream(seed), pops), near.sample(rows, Stream(seed), pops)
    assert space.valid(around.reshape(-1, 5)).all()
    assert (weights > 0).all()
    for j in range(5):
        valid = space.valid(drawn.reshape(-1, 5)).reshape(weights.shape)
        assert (around[..., j] == drawn[..., j])[valid].all()
    assert (around[..., 4] == drawn[..., 4]).all()
    tied = around[..., 0] + around[..., 1] != drawn[..., 0] + drawn[..., 1]
    assert (drawn[..., 0] + drawn[..., 1] > 9)[tied].all()


def test_large_attributes_are_drawn_around_the_individual_and_everywhere() -> None:
    space = eh.Space([eh.Integer("a", 0, 2_000_000_000), eh.Nominal("n", range(100_000)), eh.Boolean("p")], "p")
    around = Neighbourhood(space, 4000).draw(np.array([[1_900_000_000, 0, 0]]), Stream(0), np.array([0]))[0]
    assert around[:, 0].min() > 0
    assert (around[:, 0] > 1_900_000_000).mean() > 0.3
    assert around[:, 1].max() > 90_000
