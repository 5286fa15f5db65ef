"""Paired comparisons: tests, intervals and verdicts against references and exact enumeration."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import evenhand as eh
from evenhand.estimates.favoured import Comparison, Confidence, compare, mcnemar
from evenhand.estimates.pair_counts import Table, Weighted, spread, tables_of
from evenhand.estimates.result import line as in_words

PAIR = eh.Space([eh.Integer("age", 0, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_mcnemar_is_scipys_binomial_test(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert float(mcnemar(first, second)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("watched", [False, True])
def test_net_interval_covers(confidence: float, watched: bool) -> None:
    n = 14
    outcomes = [(a, b) for a in range(n + 1) for b in range(n + 1 - a)]
    first, second = (np.array(side) for side in zip(*outcomes, strict=True))
    low, high = Confidence(confidence, 0.01, watched).net(first, second, n)
    for p in [(0.05, 0.05), (0.3, 0.1), (0.5, 0.0), (0.02, 0.6), (0.0, 0.01), (0.4, 0.4)]:
        chance = stats.multinomial.pmf(np.column_stack([first, second, n - first - second]), n, [*p, 1 - sum(p)])
        covered = (low <= p[0] - p[1] + 1e-12) & (p[0] - p[1] <= high + 1e-12)
        assert chance[covered].sum() >= confidence


def verdict(of: int, different: int, first: int, second: int, directed: bool = True, **sure) -> str:
    table = Table(PAIR, (0,))
    table.counts[:, 0] = of, different, first, second
    return compare([table], Confidence(0.95, 0.01, **sure), directed)[0].verdict


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1000, 40, 35, 5), "favours first"),
        ((1000, 40, 5, 35), "favours second"),
        ((1000, 400, 201, 199), "both ways"),
        ((1000, 6, 4, 2), "insufficient evidence"),
        ((1000, 0, 0, 0), "none found"),
        ((100, 0, 0, 0), "insufficient evidence"),
        ((0, 0, 0, 0), "insufficient evidence"),
        ((1000, 3, 0, 0), "different"),
    ],
)
def test_verdicts(counts: tuple[int, int, int, int], expected: str) -> None:
    assert verdict(*counts) == expected


def test_verdicts_without_a_wanted_decision_and_of_everyone() -> None:
    assert verdict(1000, 40, 0, 0, directed=False) == "different"
    assert verdict(10, 1, 1, 0, exact=True) == "favours first"
    assert verdict(10, 2, 1, 1, exact=True) == "both ways"
    assert verdict(10, 0, 0, 0, exact=True) == "none found"
    assert verdict(1000, 10, 9, 1) == "favours first"
    assert verdict(1000, 10, 9, 1, watched=True) == "insufficient evidence"


def test_many_comparisons_raise_the_bar() -> None:
    where = eh.Space([eh.Integer("age", 0, 9), eh.Nominal("race", range(8))], protected="race")
    table = Table(where, (0,))
    table.counts[:, :] = np.array([1000, 10, 5, 5])[:, None]
    table.counts[:, 3] = 1000, 10, 9, 1
    made = compare([table], Confidence(0.95, 0.01), True)
    assert len(made) == 28
    assert made[3].p_value == pytest.approx(0.0215, abs=1e-3)
    assert made[3].verdict == "insufficient evidence"
    assert verdict(1000, 10, 9, 1) == "favours first"


RACE = eh.Space([eh.Integer("age", 0, 9), eh.Nominal("race", range(3))], protected="race")


@st.composite
def counted(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Draw three comparisons: pairs, those that differ, those in which the first and the second are favoured."""
    rows = []
    for _ in range(3):
        first, second, other = draw(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5)))
        different = first + second + other
        rows.append((draw(st.integers(different, different + 3000)), different, first, second))
    return rows


def compared(rows: list[tuple[int, int, int, int]], sure: Confidence, weighted: bool = False) -> list[Comparison]:
    table = Table(RACE, (0,))
    table.counts[:, :] = np.array(rows).T
    if weighted:
        # Every row weighs 1, so that the squares are the counts.
        table.weighted = Weighted(3)
        table.weighted.squares[:, :] = table.weighted.rows[:, :] = table.counts
        table.weighted.heaviest[:, :] = 1.0
    return compare([table], sure, True)


@given(counted(), st.sampled_from([0.8, 0.95, 0.99]), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.0, 3.0]))
def test_the_word_follows_from_the_interval_that_is_shown(
    rows: list[tuple[int, int, int, int]], confidence: float, watched: bool, exact: bool, misjudged: float
) -> None:
    sure = Confidence(confidence, 0.01, watched, exact and not misjudged, misjudged)
    for c in compared(rows, sure):
        line = in_words(c)
        if c.net_low is None or c.net_high is None or c.first_favoured is None:
            assert "favoured" not in line
            continue
        net = re.search(r"net [-0-9.]+%(?: \(([-0-9.]+)% to ([-0-9.]+)%\))?", line)
        assert net is not None
        shown = [float(end) for end in net.groups() if end is not None] or [100 * abs(c.net or 0.0)]
        assert (" favoured over " in line) == (shown[0] > 0 or shown[-1] < 0)
        assert (c.verdict == "favours first") == (c.net_low > 0)
        assert (c.verdict == "favours second") == (c.net_high < 0)
        if c.verdict in ("none found", "both ways"):
            assert c.net_low <= 0 <= c.net_high


@given(counted())
def test_equal_weights_give_the_same_words_as_none(rows: list[tuple[int, int, int, int]]) -> None:
    sure = Confidence(0.95, 0.01)
    plain, weighted = compared(rows, sure), compared(rows, sure, weighted=True)
    assert [c.verdict for c in plain] == [c.verdict for c in weighted]


def test_net_intervals_hold_for_all_comparisons_at_once() -> None:
    n, p = 12, (0.25, 0.1)
    outcomes = [(a, b) for a in range(n + 1) for b in range(n + 1 - a)]
    first, second = (np.array(side) for side in zip(*outcomes, strict=True))
    chance = stats.multinomial.pmf(np.column_stack([first, second, n - first - second]), n, [*p, 1 - sum(p)])
    missed = []
    for a, b in outcomes:
        made = compared([(n, a + b, a, b)] * 3, Confidence(0.95, 0.01))[0]
        assert made.net_low is not None
        assert made.net_high is not None
        missed.append(not made.net_low - 1e-12 <= p[0] - p[1] <= made.net_high + 1e-12)
    assert 3 * chance[np.array(missed)].sum() <= 0.05


def test_which_tables_there_are() -> None:
    attributes = [eh.Integer("hours", 0, 9), eh.Boolean("a"), eh.Nominal("b", range(5)), eh.Integer("c", 0, 72)]
    tables = tables_of(eh.Space(attributes, protected=["a", "b", "c"]))
    assert [table.attributes for table in tables] == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c")]
    assert [len(table.codes) for table in tables] == [2, 5, 5, 10, 10]
    assert tables[2].values(4) == {"c": 72}
    assert tables_of(eh.Space(attributes, protected=["a", "b", "c"], max_family_size=100)) == []
    assert spread(13, 12)[-1] == 11
