"""Nearest and random valid members of boxes, by every technique, against enumeration of small spaces."""

from __future__ import annotations

import contextlib
import re
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import MissingExtra, SpaceError
from evenhand.spaces import individuals as sampling
from evenhand.spaces import solve as enumeration
from evenhand.spaces import solve as solver
from evenhand.spaces.solve import GIVEN_UP, Boxes, solve_any, solve_nearest
from tests.helpers import optional


@contextlib.contextmanager
def technique(name):
    """Solve by the list of valid combinations, by rings around the individual, by the solver, or as usual."""
    with contextlib.ExitStack() as stack:
        if name != "usual":
            stack.enter_context(mock.patch.object(enumeration, "SUBSET", 0 if name == "rings" else 10**9))
            stack.enter_context(mock.patch.object(sampling, "LISTED", 10**9 if name == "list" else 0))
        if name == "solver":
            optional("z3")
            stack.enter_context(mock.patch.object(enumeration, "RING", 0))
        yield


def attribute(name, kind, size, missing, rng):
    match kind:
        case "integer":
            low, step = int(rng.integers(-3, 4)), int(rng.integers(1, 4))
            return eh.Integer(name, low, low + step * (size - 1), step=step, missing=missing)
        case "real":
            step = float(rng.choice([0.1, 0.25, 1 / 3]))
            return eh.Real(name, -step, step * (size - 1.9), step=step, missing=missing)
        case "ordinal":
            return eh.Ordinal(name, range(size), missing=missing)
    return eh.Nominal(name, range(size), missing=missing)


def comparison(attributes, rng):
    """Any comparison of one or two attributes."""
    pick = lambda options: options[rng.integers(len(options))]  # noqa: E731
    numeric = [a.name for a in attributes if a.kind in ("integer", "real")]
    if numeric and rng.random() < 0.6:
        terms = [*numeric, *numeric, "0", "0.1", "2", "0.25"]
        left = f"{pick(numeric)} {pick(['+', '-', '*', '/', '//', '%'])} {pick(terms)}"
        return f"{left} {pick(['<', '<=', '>', '>=', '==', '!='])} {pick(terms)}"
    one = pick(attributes)
    if one.name in numeric or (one.has_missing and rng.random() < 0.3):
        return f"{one.name} is {pick(['', 'not '])}missing"
    others = [a for a in attributes if a.kind == one.kind and a is not one]
    right = pick([*(a.name for a in others), *map(str, one.values)])
    return f"{one.name} {pick(['==', '!='])} {right}"


def condition(attributes, rng):
    parts = [f"{['', 'not '][rng.integers(2)]}({comparison(attributes, rng)})" for _ in range(rng.integers(1, 4))]
    return [" or ", " and "][int(rng.random() < 0.3)].join(parts)


def small_space(rng, how, constrained=True):
    """A random space of at most some thousand individuals, or None where its constraints contradict each other."""
    kinds = ["integer", "real", "ordinal", "nominal"]
    attributes = [
        attribute(f"a{j}", kinds[rng.integers(4)], int(rng.integers(2, 6)), rng.random() < 0.3, rng)
        for j in range(rng.integers(2, 6))
    ]
    texts = [condition(attributes, rng) for _ in range(rng.integers(1, 4) if constrained else 0)]
    with technique(how):
        try:
            return eh.Space(attributes, protected="a0", constraints=texts)
        except SpaceError as error:
            assert str(error).startswith("no valid individual: ")
            return None


def some_boxes(space, rng, n):
    """Boxes of random predicates on any attribute, protected ones too, and individuals that need not be valid."""
    m = int(rng.integers(0, 4 * n))
    columns = rng.integers(0, len(space.names), m)
    boxes = Boxes.all(space, n).restrict(
        rng.integers(0, n, m), columns, rng.integers(0, space.sizes[columns]), rng.random(m) < 0.5
    )
    return boxes, rng.integers(0, space.sizes, (n, len(space.names))).astype(np.int32)


def members(space, boxes):
    """The valid members of each box, in the order of their codes."""
    rows = space.coding.rows(np.arange(space.coding.total))
    rows = rows[space.valid(rows)]
    rows = rows[np.lexsort(rows.T[::-1])]
    return [rows[boxes[np.full(len(rows), i)].inside(rows).all(axis=1)] for i in range(len(boxes))]


def nearest(space, rows, own):
    gaps = np.abs(rows - own)
    distance = np.where(space.ordered, gaps, gaps > 0).sum(axis=1)
    # The sort is stable and the rows ascend, so that equals are in the order of their codes.
    return rows[np.lexsort((distance, (gaps > 0).sum(axis=1)))[0]]


def check(how, seed, n, constrained=True):
    rng = np.random.default_rng(seed)
    space = small_space(rng, how, constrained)
    assume(space is not None and space.coding.total < 10_000)
    boxes, own = some_boxes(space, rng, n)
    inside = members(space, boxes)
    with technique(how):
        try:
            solved = solve_nearest(boxes, own, limit_ms=10_000)
            drawn = solve_any(boxes, Stream(seed), np.arange(n), 3, limit_ms=10_000)
        except SpaceError as error:
            # The solver is asked first whether there is anybody at all.
            assert str(error).startswith("no valid individual: ")
            assert not space.valid(space.coding.rows(np.arange(space.coding.total))).any()
            return
    for result in (solved, drawn):
        assert result.rows.dtype == np.int32
        assert result.timeouts == 0
        assert result.found.tolist() == [len(rows) > 0 for rows in inside]
        assert result.unsatisfiable == n - result.found.sum()
        assert (result.rows[~result.found] == -1).all()
    for i, rows in enumerate(inside):
        if len(rows):
            assert solved.rows[i].tolist() == nearest(space, rows, own[i]).tolist()
            assert (rows == drawn.rows[i]).all(axis=1).any()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["usual", "list", "rings"])
@given(st.integers(0, 2**32 - 1))
def test_nearest_and_random_members_by_enumeration(how, seed):
    check(how, seed, 40)


@given(st.integers(0, 2**32 - 1))
def test_without_constraints(seed):
    check("usual", seed, 40, constrained=False)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_the_solver_by_enumeration(seed):
    check("solver", seed, 8)


def large(*texts, steps=20_000, count=3):
    """A space whose tied attributes cannot be listed."""
    attributes = [eh.Integer(f"a{j}", 0, steps) for j in range(count)] + [eh.Nominal("p", [0, 1])]
    return eh.Space(attributes, protected="p", constraints=texts)


def test_the_solver_in_a_large_space():
    optional("z3")
    space = large("a0 + a1 <= a2", "a2 % 1000 == 7", "p == 0 or a0 >= 3")
    own = np.array([[500, 500, 0, 1]] * 3, dtype=np.int32)
    boxes = Boxes.all(space, 3).restrict([1, 2, 2], [2, 2, 0], [5000, 2500, 2600], [False, True, False])
    solved = solve_nearest(boxes, own)
    # One attribute cannot mend it in the first box: a2 must be at least 1000 and 7 more than thousands.
    assert solved.rows.tolist() == [[500, 500, 1007, 1], [500, 500, 5007, 1], [-1, -1, -1, -1]]
    assert (solved.unsatisfiable, solved.timeouts) == (1, 0)
    assert solve_nearest(boxes, own).rows.tolist() == solved.rows.tolist()


@pytest.mark.slow
def test_the_solver_agrees_with_rings_in_a_large_space():
    optional("z3")
    space = large("a0 + 2 * a1 <= a2", "a0 != a1 or p == 1", "a2 // 10 >= a1 - a0", steps=200)
    boxes, own = some_boxes(space, np.random.default_rng(0), 25)
    with mock.patch.object(enumeration, "RING", 2**22):
        expected = solve_nearest(boxes, own)
    with mock.patch.object(enumeration, "RING", 0):
        solved = solve_nearest(boxes, own)
    assert solved.rows.tolist() == expected.rows.tolist()
    assert (solved.unsatisfiable, solved.timeouts) == (expected.unsatisfiable, 0)


def test_random_members_of_a_large_space_are_valid():
    optional("z3")
    space = large("a0 + a1 == a2", "a0 % 7 == a1 % 7")
    boxes = Boxes.all(space, 20)
    drawn = solve_any(boxes, Stream(0), np.arange(20), 0)
    assert drawn.found.all()
    assert space.valid(drawn.rows).all()
    assert len(np.unique(drawn.rows, axis=0)) > 15


@pytest.mark.parametrize("how", ["usual", "list"])
def test_random_members_are_uniform(how):
    with technique(how):
        space = eh.Space(
            [eh.Integer("a", 0, 19), eh.Integer("b", 0, 19), eh.Nominal("p", [0, 1])],
            protected="p",
            constraints=["a + b == 19 or a == b == 3"],
        )
        box = Boxes.all(space, 1).restrict([0, 0], [0, 1], [9, 2], [True, False])
        drawn = solve_any(box[np.zeros(8800, dtype=int)], Stream(1), np.arange(8800), 0)
    assert drawn.found.all()
    pairs, counts = np.unique(drawn.rows, axis=0, return_counts=True)
    # Ten sums of 19 and the one exception, each for both values of p.
    assert len(pairs) == 22
    assert (np.abs(counts - 400) < 5 * np.sqrt(400)).all()


@pytest.mark.parametrize("how", ["usual", "list", "rings", "solver"])
def test_one_box_is_solved_alike_in_any_company(how):
    rng = np.random.default_rng(5)
    with technique(how):
        space = eh.Space(
            [eh.Integer("a", 0, 9), eh.Integer("b", 0, 9), eh.Nominal("c", range(4)), eh.Nominal("p", [0, 1])],
            protected="p",
            constraints=["a + b > 9 or c == 2", "p == 0 or a % 3 == 1"],
        )
        boxes, own = some_boxes(space, rng, 30)
        whole = solve_nearest(boxes, own)
        drawn = solve_any(boxes, Stream(4), np.arange(30), 2)
        for i in range(0, 30, 3):
            some = slice(i, i + 3)
            assert solve_nearest(boxes[some], own[some]).rows.tolist() == whole.rows[some].tolist()
            part = solve_any(boxes[some], Stream(4), np.arange(30)[some], 2)
            assert part.rows.tolist() == drawn.rows[some].tolist()


def test_no_boxes():
    space = large("a0 < a1")
    assert solve_nearest(Boxes.all(space, 0), np.zeros((0, 4), dtype=np.int32)).rows.shape == (0, 4)
    assert solve_any(Boxes.all(space, 0), Stream(0), [], 0).unsatisfiable == 0


CUBES = "a0 * a0 * a0 + a1 * a1 * a1 == a2 * a2 * a2 and a0 > 0 and a1 > 0"


def test_timeouts_are_counted_and_repeat():
    optional("z3")
    space = large(CUBES)
    own = np.array([[5, 6, 7, 0]] * 3, dtype=np.int32)
    with mock.patch.object(enumeration, "RING", 0):
        solved = solve_nearest(Boxes.all(space, 3), own, limit_ms=20)
        again = solve_nearest(Boxes.all(space, 3), own, limit_ms=20)
        drawn = solve_any(Boxes.all(space, 3), Stream(0), np.arange(3), 0, limit_ms=20)
    assert not solved.found.any()
    assert (solved.rows == GIVEN_UP).all()
    assert (solved.timeouts, solved.unsatisfiable) == (3, 0)
    assert (again.timeouts, drawn.timeouts) == (3, 3)


def test_the_smallest_limit():
    optional("z3")
    space = large("a0 + a1 <= a2", "a2 % 1000 == 7")
    own = np.array([[900, 900, 0, 1]] * 4, dtype=np.int32)
    with mock.patch.object(enumeration, "RING", 0):
        solved = solve_nearest(Boxes.all(space, 4), own, limit_ms=1)
    assert solved.found.sum() + solved.timeouts == 4
    assert (solved.rows[solved.found] == [900, 900, 2007, 1]).all()


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, 10**7, None])
def test_wrong_limits_are_refused(limit):
    optional("z3")
    with mock.patch.object(enumeration, "RING", 0), pytest.raises(SpaceError, match="limit_ms must be an integer"):
        solve_nearest(Boxes.all(large("a0 < a1"), 1), np.zeros((1, 4), dtype=np.int32), limit_ms=limit)


def test_rounding_borders_are_refused_by_the_constraint():
    """0.1 + 0.2 is not 0.3 in floats: what true numbers allow there is no solution."""
    optional("z3")
    attributes = [eh.Real(name, 0, 1, step=0.1) for name in "abc"] + [eh.Nominal("p", [0, 1])]
    with technique("solver"):
        space = eh.Space(attributes, protected="p", constraints=["a + b == c"])
        boxes = Boxes.all(space, 1).restrict([0] * 4, [0, 0, 1, 1], [1, 0, 2, 1], [True, False, True, False])
        assert solve_nearest(boxes, np.array([[1, 2, 3, 0]], dtype=np.int32)).unsatisfiable == 1
        with mock.patch.object(solver, "REFUSED", 1):
            assert solve_nearest(boxes, np.array([[1, 2, 3, 0]], dtype=np.int32)).timeouts == 1


def test_contradictory_constraints_of_a_large_space():
    optional("z3")
    space = large("a0 < a1", "a1 < a2", "a2 < a0")
    with pytest.raises(SpaceError, match="no valid individual: 'a0 < a1' and 'a1 < a2' and 'a2 < a0' cannot hold"):
        solve_nearest(Boxes.all(space, 1), np.zeros((1, 4), dtype=np.int32))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a0 * 1e200 * a1 * 1e200 > a2", "beyond 1e300"),
        ("a0 / (a1 * 0.1 - a2 * 0.1) > 3", "arbitrarily near zero"),
        (f"a0 // (a1 * {2.0**-60}) > a2", "quotients"),
    ],
)
def test_constraints_that_cannot_be_translated(text, why):
    optional("z3")
    boxes = Boxes.all(large(text, "a0 + a1 + a2 == 3"), 1)
    message = f"the constraint {re.escape(repr(text))} cannot be translated for the solver: .*{why}"
    with pytest.raises(SpaceError, match=message), mock.patch.object(enumeration, "RING", 0):
        solve_nearest(boxes, np.array([[1, 1, 2, 0]], dtype=np.int32))


def test_without_z3(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    own = np.array([[5, 0, 0, 0]], dtype=np.int32)
    small = large("a0 <= a1 and a1 <= a2", steps=50)
    assert solve_nearest(Boxes.all(small, 1), own).rows.tolist() == [[0, 0, 0, 0]]
    space = large("a0 <= a1", "a1 <= a2")
    assert solve_nearest(Boxes.all(space, 1), own).rows.tolist() == [[0, 0, 0, 0]]
    # Two attributes of twenty thousand values must change.
    boxes = Boxes.all(space, 1).restrict([0], [0], [3], [False])
    with pytest.raises(MissingExtra, match=r"z3-solver.*evenhand\[symbolic\]"):
        solve_nearest(boxes, own)
