"""Boxes: predicates as sets of codes, against enumeration of small spaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import SpaceError
from evenhand.spaces.solve import Boxes


def attribute(name, kind, size, missing):
    if kind == "nominal":
        return eh.Nominal(name, range(size), missing=missing)
    return eh.Ordinal(name, range(size), missing=missing) if kind == "ordinal" else eh.Integer(name, 0, size - 1)


KINDS = st.tuples(st.sampled_from(["nominal", "ordinal", "integer"]), st.integers(2, 4), st.booleans())


@st.composite
def cases(draw, most=12):
    """A small space with boxes of it, and the predicates that made them."""
    kinds = draw(st.lists(KINDS, min_size=2, max_size=4))
    space = eh.Space([attribute(f"a{j}", *kind) for j, kind in enumerate(kinds)], protected="a0")
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m = int(rng.integers(0, 5 * n))
    which, columns = rng.integers(0, n, m), rng.integers(0, len(kinds), m)
    values, truth = rng.integers(0, space.sizes[columns]), rng.random(m) < 0.5
    predicates = list(zip(which.tolist(), columns.tolist(), values.tolist(), truth.tolist(), strict=True))
    return space, Boxes.all(space, n).restrict(which, columns, values, truth), predicates, rng


def everybody(space):
    return space.coding.rows(np.arange(space.coding.total))


def meets(space, row, predicates, i):
    """Judge a row as plainly as can be."""
    return all(
        ((row[j] <= v) if space.ordered[j] else (row[j] == v)) == truth for b, j, v, truth in predicates if b == i
    )


def members(space, boxes):
    """The rows in each box, in the order of their codes."""
    rows = everybody(space)
    rows = rows[np.lexsort(rows.T[::-1])]
    return [rows[boxes[np.full(len(rows), i)].inside(rows).all(axis=1)] for i in range(len(boxes))]


@given(cases())
def test_boxes_hold_the_individuals_that_meet_their_predicates(case):
    space, boxes, predicates, _ = case
    inside = members(space, boxes)
    for i, rows in enumerate(inside):
        expected = [row.tolist() for row in everybody(space) if meets(space, row, predicates, i)]
        assert sorted(rows.tolist()) == sorted(expected)
        assert boxes.empty[i] == (not expected)
        if expected:
            assert boxes.counts[i].prod() == len(expected)
            assert boxes.counts[i].tolist() == [len(set(c)) for c in rows.T.tolist()]


@given(cases())
def test_equal_keys_are_equal_sets(case):
    space, boxes, _, _ = case
    sets = [rows.tobytes() for rows in members(space, boxes)]
    keys = boxes.keys.tolist()
    for i, j in np.ndindex(len(boxes), len(boxes)):
        assert (keys[i] == keys[j]) == (sets[i] == sets[j])


@given(cases())
def test_nearest_by_enumeration(case):
    space, boxes, _, rng = case
    own = rng.integers(0, space.sizes, (len(boxes), len(space.names))).astype(np.int32)
    nearest = boxes.nearest(own)
    assert nearest.dtype == np.int32
    for i, rows in enumerate(members(space, boxes)):
        if not len(rows):
            assert (nearest[i] == -1).all()
            continue
        gaps = np.abs(rows - own[i])
        distance = np.where(space.ordered, gaps, gaps > 0).sum(axis=1)
        # The sort is stable and the rows ascend, so that equals are in the order of their codes.
        best = np.lexsort((distance, (gaps > 0).sum(axis=1)))[0]
        assert nearest[i].tolist() == rows[best].tolist()


@given(cases(), st.integers(0, 100))
def test_draws_lie_inside_and_depend_on_the_walker_alone(case, step):
    space, boxes, _, _ = case
    walkers = np.arange(len(boxes)) + 5
    drawn = boxes.draw(Stream(1), walkers, step)
    assert (boxes.inside(drawn).all(axis=1) | boxes.empty).all()
    assert (drawn[boxes.empty] == -1).all()
    for i in range(len(boxes)):
        assert boxes[i : i + 1].draw(Stream(1), walkers[i : i + 1], step).tolist() == drawn[i : i + 1].tolist()
    columns = [len(space.names) - 1, 0]
    assert (boxes.draw(Stream(1), walkers, step, columns=columns) == drawn[:, columns]).all()


def test_draws_are_uniform():
    space = eh.Space([eh.Integer("a", 0, 9), eh.Nominal("n", range(5)), eh.Nominal("p", [0, 1])], protected="p")
    box = Boxes.all(space, 1).restrict([0, 0, 0], [0, 0, 1], [6, 1, 2], [True, False, False])
    drawn = box[np.zeros(20_000, dtype=int)].draw(Stream(3), np.arange(20_000), 0)
    pairs, counts = np.unique(drawn[:, :2], axis=0, return_counts=True)
    assert len(pairs) == 5 * 4
    assert (np.abs(counts - 1000) < 5 * np.sqrt(1000)).all()
    again = box[np.zeros(20_000, dtype=int)].draw(Stream(3), np.arange(20_000), 0, attempt=1)
    assert (again != drawn).any(axis=1).mean() > 0.9


def test_restricting_copies_boxes_and_combines():
    space = eh.Space([eh.Integer("a", 0, 9), eh.Nominal("p", [0, 1, 2])], protected="p")
    everyone = Boxes.all(space, 1)
    one = everyone.restrict([0], [0], [4], [True]).restrict([0], [1], [1], [False])
    both = everyone.restrict([0, 0], [0, 1], [4, 1], [True, False])
    assert everyone.counts.tolist() == [[10, 3]]
    assert one.keys[0] == both.keys[0] != everyone.keys[0]
    assert one.counts.tolist() == [[5, 2]]


def test_thresholds_between_and_outside_codes():
    space = eh.Space([eh.Integer("a", 0, 9), eh.Nominal("p", [0, 1])], protected="p")
    boxes = Boxes.all(space, 4).restrict([0, 1, 2, 3], [0] * 4, [3.5, 3.5, -7, 99], [True, False, True, True])
    assert boxes.low[:2, 0].tolist() == [0, 4]
    assert boxes.high[:2, 0].tolist() == [3, 9]
    assert boxes.empty.tolist() == [False, False, True, False]
    assert boxes.counts[3].tolist() == [10, 2]


def test_a_missing_value_is_the_largest_code():
    space = eh.Space([eh.Integer("a", 0, 3, missing=True), eh.Nominal("p", [0, 1])], protected="p")
    boxes = Boxes.all(space, 2).restrict([0, 1], [0, 0], [3, 3], [False, True])
    assert boxes.inside(np.array([[4, 0], [4, 0]], dtype=np.int32))[:, 0].tolist() == [True, False]


def test_real_attributes_cost_nothing():
    space = eh.Space([eh.Real("r", 0, 1, step=1e-6), eh.Nominal("p", [0, 1])], protected="p")
    boxes = Boxes.all(space, 3).restrict([0], [0], [500_000], [False])
    assert boxes.allowed.shape == (3, 2)
    assert boxes.counts[0, 0] == 500_000


def test_without_nominal_attributes():
    space = eh.Space([eh.Integer("a", 0, 3), eh.Boolean("p")], protected="p")
    boxes = Boxes.all(space, 2).restrict([0], [1], [0], [True])
    assert boxes.keys[0] != boxes.keys[1]
    assert boxes.nearest(np.array([[1, 1], [1, 1]], dtype=np.int32)).tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize("code", [-1, 3, 0.5])
def test_codes_outside_the_domain_are_refused(code):
    space = eh.Space([eh.Integer("a", 0, 3), eh.Nominal("p", [0, 1, 2])], protected="p")
    with pytest.raises(SpaceError, match=f"on 'p' must be codes from 0 to 2, got {code:.1f}"):
        Boxes.all(space, 1).restrict([0], [1], [code], [True])
