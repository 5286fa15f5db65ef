"""Regions with hundreds of attributes: screening loses nothing, and rows are spent on relevant attributes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.regions import KINDS, planted
from scipy.stats import chi2_contingency

import evenhand as eh
from evenhand._rng import Stream
from evenhand.explanations import rule_learning
from evenhand.explanations.rule_learning import beginnings, propose

WIDE = eh.Space(
    [
        *(eh.Integer(f"x{j}", 0, 99) if j % 2 else eh.Nominal(f"x{j}", list("abcdef")) for j in range(200)),
        eh.Boolean("sex"),
    ],
    protected="sex",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(3))
def test_a_close_look_at_all_columns_finds_no_more(kind: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = planted(kind, number)
    rows = model.space.sampler.draw(Stream(number), 0, 2_000)[0].rows
    other = rows.copy()
    other[:, -1] = 1 - other[:, -1]
    unfair = model.labels(model.space.array(rows)) != model.labels(model.space.array(other))
    found = propose(model.space, rows, unfair)
    monkeypatch.setattr(rule_learning, "CLOSELY", 10_000)
    assert found == propose(model.space, rows, unfair)


@pytest.mark.parametrize("most", [2**20, 20_000])
def test_informative_pairs_of_attributes_are_found(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_learning, "PAIR_CELLS", most)
    space = eh.Space([*(eh.Boolean(f"x{j}") for j in range(40)), eh.Boolean("sex")], protected="sex")
    rows = space.sampler.draw(Stream(0), 0, 1_000)[0].rows
    unfair = (rows[:, 31] != rows[:, 38]) & (np.arange(1_000) % 3 > 0)
    rule, column = beginnings(space, rows, unfair)[0]
    assert (rule.conditions[0][0], column) == (31, 38)


def test_the_best_pair_has_the_most_informative_table() -> None:
    space = eh.Space([*(eh.Nominal(f"x{j}", list("abcd")) for j in range(7)), eh.Boolean("sex")], protected="sex")
    rows = space.sampler.draw(Stream(5), 0, 3_000)[0].rows
    unfair = ((rows[:, 2] + rows[:, 5]) % 4 == 0) | (rows[:, 1] + rows[:, 6] == 3)
    told = {}
    for i, j in combinations(space.free_columns, 2):
        table = np.zeros((2, 16))
        np.add.at(table, (unfair.astype(int), rows[:, i] * 4 + rows[:, j]), 1)
        told[i, j] = chi2_contingency(table, lambda_="log-likelihood", correction=False)[0]
    found = [(rule.conditions[0][0], column) for rule, column in beginnings(space, rows, unfair)]
    assert list(dict.fromkeys(found)) == sorted(told, key=lambda pair: -told[pair])[: rule_learning.PAIRS]


@pytest.mark.slow
def test_rules_on_the_last_columns_are_exact_within_the_row_limit() -> None:
    def model(frame: pd.DataFrame) -> Any:
        return frame["sex"] & (frame["x187"] >= 63) & frame["x190"].isin(["b", "e"]) & (frame["x195"] <= 70)

    run = eh.audit(model, WIDE, "themis", eh.Budget(tests=1_000))
    found = eh.regions(run, max_regions=3, samples=5_000, rows=120_000)
    assert [region.words for region in found] == ["x187 >= 63 and x190 is b or e and x195 <= 70"]
    assert found[0].rate == 1
    assert found[0].outside.rate == 0
    # What the difference depends on is told of every attribute, by as many individuals as the rows allow.
    assert len(found.interactions) == 200
    assert {it.name for it in found.interactions if it.ends.rate > 0} == {"x187", "x190", "x195"}
