"""Rules in words and as sets; drawing from them is uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.explanations.rule_learning import Rule, Source, information, price, propose, segment

SPACE = eh.Space(
    [
        eh.Integer("age", 18, 90, missing=True),
        eh.Ordinal("grade", ["low", "middle", "high"]),
        eh.Nominal("work", ["a", "b", "c", "d"], missing=True),
        eh.Boolean("member"),
        eh.Boolean("sex"),
    ],
    protected="sex",
)


@pytest.mark.parametrize(
    ("column", "codes", "words"),
    [
        (0, (2, 72), "age >= 20"),
        (0, (2, 73), "age >= 20 or missing"),
        (0, (0, 2), "age <= 20"),
        (0, (2, 4), "age 20 to 22"),
        (0, (2, 2), "age = 20"),
        (0, (73, 73), "age missing"),
        (0, (0, 72), "age not missing"),
        (1, (1, 2), "grade >= middle"),
        (2, (0, 4), "work is a or missing"),
        (2, (1, 2, 3, 4), "work is not a"),
        (2, (4,), "work = missing"),
        (3, (1, 1), "member"),
        (3, (0, 0), "not member"),
        (3, (0, 1), "everybody"),
    ],
)
def test_words(column: int, codes: tuple[int, ...], words: str) -> None:
    assert Rule(SPACE).where(column, codes).words == words


@st.composite
def rules(draw: st.DrawFn, space: eh.Space) -> Rule:
    rule = Rule(space)
    for column in draw(st.sets(st.sampled_from(space.free_columns), max_size=3)):
        size = int(space.sizes[column])
        if space.ordered[column]:
            low, high = sorted(draw(st.tuples(*[st.integers(0, size - 1)] * 2)))
            rule = rule.where(column, (low, high))
        else:
            chosen = draw(st.sets(st.integers(0, size - 1), min_size=1))
            rule = rule.where(column, tuple(sorted(chosen)))
    return rule


TIED = eh.Space(
    [eh.Integer("a", 0, 5), eh.Nominal("b", range(3)), eh.Integer("c", 0, 3), eh.Boolean("sex")],
    protected="sex",
    constraints=["a >= c", "not (sex and a == 5)"],
)


@settings(max_examples=40)
@given(rules(TIED), rules(TIED), st.integers(0, 100))
def test_draws_are_all_the_valid_members_and_the_share_is_right(rule: Rule, other: Rule, seed: int) -> None:
    rows = TIED.coding.rows(np.arange(TIED.coding.total))
    rows = rows[TIED.valid(rows)]
    source = Source(TIED, seed)
    wanted = {tuple(row) for row in rows[rule.inside(rows) & ~other.inside(rows)].tolist()}
    drawn = [tuple(row) for row in source.inside(rule, 3000, [other]).rows.tolist()]
    assert set(drawn) <= wanted
    if len(drawn) == 3000:
        assert set(drawn) == wanted
    assert source.share(rule) == pytest.approx(rule.inside(rows).mean())
    outside = source.outside([rule], 500).rows
    assert not rule.inside(outside).any()
    assert (rule.both(other).inside(rows) == (rule.inside(rows) & other.inside(rows))).all()


@settings(max_examples=40)
@given(rules(TIED))
def test_global_tree_is_as_informative_as_any_rule(rule: Rule) -> None:
    rows = np.repeat(TIED.coding.rows(np.arange(TIED.coding.total)), 20, axis=0)
    unfair = rule.inside(rows)
    learnt = propose(TIED, rows, unfair)
    told = information(unfair.sum(), unfair.sum(), len(rows), unfair.sum()) - price(rule)
    if learnt is None:
        assert told <= 0 or not unfair.any() or unfair.all()
    else:
        assert (learnt.inside(rows) == unfair).all()


@given(st.lists(st.floats(-60, 60), min_size=1, max_size=12))
def test_a_segment_is_the_best_run_without_a_deep_valley(scores: list[float]) -> None:
    def worth(start: int, end: int) -> float:
        sums = np.cumsum([0.0, *scores[start : end + 1]])
        deepest = (np.maximum.accumulate(sums) - sums).max()
        return -1.0 if deepest > 16 else sums[-1] - 8 * ((start > 0) + (end < len(scores) - 1))

    runs = [(i, j) for i in range(len(scores)) for j in range(i, len(scores))]
    best = max(worth(*run) for run in runs)
    found = segment(np.array(scores))
    if found is None:
        assert best <= 1e-9
    else:
        assert worth(*found) == pytest.approx(best)
