"""Shrinking with hundreds of attributes: the same distances, the same odd pairs, and few queries."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand._rng import Stream
from evenhand.spaces.realism import EXPECTED, Distance, Realism


@pytest.mark.parametrize("kinds", ["ordered", "nominal", "both", "missing"])
def test_the_nearest_are_nearest_attribute_by_attribute(kinds: str) -> None:
    absent = kinds == "missing"
    free = [eh.Integer(f"i{j}", 0, 9 + j, missing=absent) for j in range(5)] if kinds != "nominal" else []
    if kinds in ("nominal", "both", "missing"):
        free += [eh.Nominal(f"n{j}", range(4), missing=absent) for j in range(4)]
    last = eh.Integer("sex", 0, 1) if kinds == "ordered" else eh.Nominal("sex", ["F", "M"])
    space = eh.Space([*free, last], protected="sex")
    rows, others = (space.sampler.draw(Stream(seed), 0, n)[0].rows for seed, n in ((1, 60), (2, 80)))
    distance = Distance(space)
    order = np.round([distance.order(others, row) for row in rows], 9)
    assert (distance.nearest(rows, others)[:, 0] == order.argmin(axis=1)).all()
    assert (distance.nearest(rows, others, 5) == np.argsort(order, axis=1, kind="stable")[:, :5]).all()
    least = [distance.far(others, row).min() for row in rows]
    assert distance.least(rows, others) == pytest.approx(least)


def test_odd_pairs_are_those_that_are_expected_and_never_there() -> None:
    space = eh.Space(
        [eh.Nominal("a", range(6)), eh.Nominal("b", range(400)), eh.Integer("c", 0, 5), eh.Boolean("sex")], "sex"
    )
    rows = space.sampler.draw(Stream(3), 0, 4_000)[0].rows
    rows[:, 1] = np.where(rows[:, 1] < 200, rows[:, 1] % 5, rows[:, 1])
    rows = rows[~((rows[:, 0] == 2) & (rows[:, 2] == 4)) & ~((rows[:, 0] == 1) & (rows[:, 1] == 3))]
    real = Realism(space, space.individuals(rows))
    asked = space.sampler.draw(Stream(4), 0, 500)[0].rows
    asked[:, 1] = np.where(asked[:, 1] < 300, asked[:, 1] % 5, asked[:, 1])
    odd = np.zeros(len(asked))
    for i, j in combinations(range(4), 2):
        for at, row in enumerate(asked):
            one, other = rows[:, i] == row[i], rows[:, j] == row[j]
            odd[at] += not (one & other).any() and one.sum() * other.sum() / len(rows) >= EXPECTED
    assert odd.sum() > 20
    assert real.likeness(asked).odd == pytest.approx(odd / 6)
    assert [len(real.odd_pairs(row)) for row in asked] == odd.tolist()


def test_many_attributes_are_brought_back_together() -> None:
    space = eh.Space([*(eh.Integer(f"x{j}", 0, 50) for j in range(200)), eh.Boolean("sex")], protected="sex")
    calls = []

    def model(frame: pd.DataFrame) -> Any:
        calls.append(len(frame))
        return frame["sex"] & (frame["x150"] > 40) & (frame["x20"] > 40)

    run = eh.audit(model, space, "themis", eh.Budget(tests=2_000))
    calls.clear()
    examples = eh.examples(run, n=3)
    assert [sorted(example.changed) for example in examples] == [["x150", "x20"]] * len(examples)
    assert {example.changed["x150"][1] for example in examples} == {41}
    # One attribute in each round would be 200 rounds.
    assert len(calls) < 100


@pytest.mark.slow
def test_combined_changes_are_limited() -> None:
    space = eh.Space([*(eh.Integer(f"x{j}", 0, 50) for j in range(200)), eh.Boolean("sex")], protected="sex")

    def model(frame: pd.DataFrame) -> Any:
        return frame["sex"] & (frame[["x9", "x99", "x199"]] > 45).all(axis=1)

    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.integers(0, 40, (50, 200)), columns=[f"x{j}" for j in range(200)]).assign(sex=True)
    run = eh.audit(model, space, "themis", eh.Budget(tests=5_000))
    examples = eh.examples(run, data=data, n=2, rows=100_000)
    for example in examples:
        assert {name: after for name, (_, after) in example.changed.items()} == {"x9": 46, "x99": 46, "x199": 46}
