"""Paired comparisons: tests, intervals and verdicts against references and exact enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import evenhand as eh
from evenhand.measuring.comparisons import Sureness, compare, holm, mcnemar
from evenhand.measuring.tables import Table, spread, tables_of

PAIR = eh.Space([eh.Integer("age", 0, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_mcnemar_is_scipys_binomial_test(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert float(mcnemar(first, second)) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.2))
def test_holm_rejects_what_its_steps_reject(p: list[float], level: float) -> None:
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] * (len(p) - step) >= level:
            break
        rejected.add(i)
    adjusted = holm(p)
    assert {i for i in range(len(p)) if adjusted[i] < level} == rejected
    assert (adjusted >= np.array(p)).all()


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("watched", [False, True])
def test_net_interval_covers(confidence: float, watched: bool) -> None:
    n = 14
    outcomes = [(a, b) for a in range(n + 1) for b in range(n + 1 - a)]
    first, second = (np.array(side) for side in zip(*outcomes, strict=True))
    low, high = Sureness(confidence, 0.01, watched).net(first, second, n)
    for p in [(0.05, 0.05), (0.3, 0.1), (0.5, 0.0), (0.02, 0.6), (0.0, 0.01), (0.4, 0.4)]:
        chance = stats.multinomial.pmf(np.column_stack([first, second, n - first - second]), n, [*p, 1 - sum(p)])
        covered = (low <= p[0] - p[1] + 1e-12) & (p[0] - p[1] <= high + 1e-12)
        assert chance[covered].sum() >= confidence


def verdict(of: int, different: int, first: int, second: int, directed: bool = True, **sure) -> str:
    table = Table(PAIR, (0,))
    table.counts[:, 0] = of, different, first, second
    return compare([table], Sureness(0.95, 0.01, **sure), directed)[0].verdict


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
    made = compare([table], Sureness(0.95, 0.01), True)
    assert len(made) == 28
    assert made[3].p_value == pytest.approx(0.0215, abs=1e-3)
    assert made[3].p_adjusted == pytest.approx(28 * made[3].p_value)
    assert made[3].verdict == "insufficient evidence"
    assert verdict(1000, 10, 9, 1) == "favours first"


def test_which_tables_there_are() -> None:
    attributes = [eh.Integer("hours", 0, 9), eh.Boolean("a"), eh.Nominal("b", range(5)), eh.Integer("c", 0, 72)]
    tables = tables_of(eh.Space(attributes, protected=["a", "b", "c"]))
    assert [table.attributes for table in tables] == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c")]
    assert [len(table.codes) for table in tables] == [2, 5, 5, 10, 10]
    assert tables[2].values(4) == {"c": 72}
    assert tables_of(eh.Space(attributes, protected=["a", "b", "c"], limit=100)) == []
    assert spread(13, 12)[-1] == 11
