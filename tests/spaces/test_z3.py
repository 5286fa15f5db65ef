"""The solver's formulas hold exactly when the constraints do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenhand.errors import SpaceError
from evenhand.spaces.attributes import Boolean, Integer, Nominal, Ordinal, Real
from evenhand.spaces.constraints import parse
from evenhand.spaces.solve import Formulas
from tests.helpers import optional
from tests.spaces.test_constraints import ATTRIBUTES, conditions


def agreement(text, attributes, rows):
    """Ask the solver about rows of codes; return what it and the constraint say, and whether they must agree."""
    z3 = optional("z3")
    from z3 import z3util

    rule = parse(text, attributes)
    own = [a for a in attributes if a.name in rule.names]
    solver = z3.Solver(ctx=z3.Context())
    solver.set("rlimit", 300_000)
    codes = [z3.Int(f"c{j}", solver.ctx) for j in range(len(own))]
    formulas = Formulas(own, codes)
    solver.add(formulas.formula(rule), *formulas.facts)
    columns = [rows[:, attributes.index(a)] for a in own]
    solved = []
    for values in zip(*[column.tolist() for column in columns], strict=True):
        solver.push()
        solver.add(*[code == value for code, value in zip(codes, values, strict=True)])
        solved.append(solver.check())
        solver.pop()
    truth = rule.holds_codes({a.name: column for a, column in zip(own, columns, strict=True)})
    pairs = [(a == z3.sat, bool(holds)) for a, holds in zip(solved, truth, strict=True) if a != z3.unknown]
    # What may be rounded is an unknown real number; without any, formulas and constraints agree everywhere.
    unknowns = [v for fact in formulas.facts for v in z3util.get_vars(fact)]
    return pairs, not any(z3.is_real(v) for v in unknowns)


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much])
@given(conditions, st.integers(0, 2**32 - 1))
def test_any_constraint(condition, seed):
    sizes = [a.size for a in ATTRIBUTES]
    rows = np.random.default_rng(seed).integers(0, sizes, (8, len(sizes)))
    try:
        pairs, exact = agreement(f"age >= 0 and ({condition[0]})", ATTRIBUTES, rows)
    except SpaceError as error:
        assert "cannot be translated" in str(error)
        assume(False)
    for solvable, holds in pairs:
        assert solvable if holds else not (solvable and exact)


SMALL = [
    Integer("a", -2, 4),
    Integer("b", 1, 9, step=3, missing=True),
    Real("r", -0.5, 0.5, step=0.25, missing=True),
    Ordinal("o", ["low", "mid", "high"], missing=True),
    Ordinal("q", ["low", "mid", "high"]),
    Nominal("n", ["x", "y", "z"], missing=True),
    Nominal("m", ["z", "w"]),
    Boolean("t", missing=True),
    Boolean("u"),
]


@pytest.mark.parametrize(
    "text",
    [
        "a < b",
        "a * b >= 3 - a",
        "a // b == 0 or a % b == 1",
        "b // a >= -2 or missing(b % a)",
        "a + r > b * r",
        "a / 4 + r != 0.25",
        "a // r <= 3",
        "r % 0.25 == 0 implies a % 2 == 0",
        "a % -3 < b",
        "a // -3 < r",
        "(a - b) // 0 is missing and missing(a % 0)",
        "a - r in [0.5, 1, -2.25]",
        "a + b not in [3, 5]",
        "missing(a + b) or not a < b",
        "o <= q",
        "o != q",
        "n == m",
        "n != m",
        "not n == m",
        "t == u",
        "if t then o in ['low', 'high']",
        "a in [1, 3] and n not in ['x'] and r is not missing",
        "-2 <= a < b <= 7",
        "1 < 2 or a < b",
        "(1 / 4 == 0.25) and a < b",
    ],
)
def test_exact_constraints_on_every_combination(text):
    names = parse(text, SMALL).names
    sizes = [a.size if a.name in names else 1 for a in SMALL]
    rows = np.indices(sizes).reshape(len(sizes), -1).T
    pairs, exact = agreement(text, SMALL, rows)
    assert exact
    assert len(pairs) == len(rows)
    assert all(solvable == holds for solvable, holds in pairs)


TENTHS = [Real("x", -0.3, 0.5, step=0.1, missing=True), Real("y", 0.1, 1, step=0.3), Integer("k", -2, 3)]


@pytest.mark.parametrize(
    "text",
    ["x + y <= 0.3", "x * k == 0.3", "k / y > x", "y / k > x", "y // x == 2", "y % x < 0.1", "x - y * 3 != k * 0.1"],
)
def test_rounded_constraints_on_every_combination(text):
    sizes = [a.size for a in TENTHS]
    rows = np.indices(sizes).reshape(len(sizes), -1).T
    pairs, exact = agreement(text, TENTHS, rows)
    assert not exact
    assert len(pairs) == len(rows)
    assert all(solvable for solvable, holds in pairs if holds)
    # Only where the floats of both sides lie within a rounding of each other does the solver see more.
    assert np.mean([solvable != holds for solvable, holds in pairs]) < 0.3


def test_conditions_on_long_attributes_are_calculated():
    long = [Integer("a", 0, 10**6), Real("r", 0, 1000, step=0.001), Integer("b", 0, 3)]
    rows = np.random.default_rng(0).integers(0, [10**6, 10**6, 3], (100, 3))
    rows[:50, 0] //= 10**5
    for text in ("a % 2 == 1", "a // 10 in [0, 3, 7]", "r >= 0.5 or a < 10"):
        pairs, _ = agreement(text, long, rows)
        assert len(pairs) == 100
        assert all(solvable == holds for solvable, holds in pairs)


def test_many_intervals_are_calculated():
    codes = np.arange(5000)[:, None]
    pairs, exact = agreement("a % 3 == 1", [Integer("a", 0, 4999)], codes[::37])
    assert exact
    assert all(solvable == holds for solvable, holds in pairs)
