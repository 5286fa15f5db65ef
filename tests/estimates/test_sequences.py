"""Intervals that may be watched: the chance that they are ever wrong, worked out exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand.estimates.intervals import clopper_pearson, hypergeometric
from evenhand.estimates.sequences import LOW_RATES, anytime, anytime_of_rows, anytime_test


def ever_wrong(share: float, n: int, confidence: float, bounds) -> float:
    """The chance that an interval excludes the true share at any moment up to n: exact, over all paths."""
    alive, wrong = np.array([1.0]), 0.0
    for m in range(1, n + 1):
        alive = np.append(alive * (1 - share), 0) + np.append(0, alive * share)
        low, high = bounds(np.arange(m + 1), m, confidence)
        out = (share < low) | (share > high)
        wrong += alive[out].sum()
        alive[out] = 0
    return wrong


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
def test_anytime_is_seldom_ever_wrong(share: float, confidence: float) -> None:
    assert ever_wrong(share, 200, confidence, anytime) <= 1 - confidence


def test_watching_breaks_the_interval_for_a_fixed_sample() -> None:
    assert ever_wrong(0.1, 300, 0.95, clopper_pearson) > 0.1


@pytest.mark.parametrize("unfair", [0, 1, 5, 30])
def test_anytime_of_rows_is_seldom_ever_wrong(unfair: int) -> None:
    size, confidence, wrong = 60, 0.9, 0.0
    alive = np.array([1.0])
    for m in range(1, size + 1):
        k = np.arange(m)
        chance = np.clip((unfair - k) / (size - m + 1), 0, 1)
        alive = np.append(alive * (1 - chance), 0) + np.append(0, alive * chance)
        low, high = anytime_of_rows(np.arange(m + 1), m, size, confidence)
        out = (unfair / size < low - 1e-12) | (unfair / size > high + 1e-12)
        wrong += alive[out].sum()
        alive[out] = 0
    assert wrong <= 1 - confidence
    assert alive.sum() == pytest.approx(1 - wrong)


@given(st.integers(1, 10**5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.55, 0.999))
def test_anytime_is_where_the_mixture_is_ahead_by_the_confidence(counts: tuple[int, int], confidence: float) -> None:
    k, n = counts
    border = stats.betabinom.logpmf(k, n, *LOW_RATES) + np.log(1 - confidence)
    ends = anytime(k, n, confidence)
    assert ends[0] <= k / n <= ends[1]
    for end in ends:
        if 0 < end < 1:
            # Close to 1 the next number that there is lies further off than the tolerance.
            around = stats.binom.logpmf(k, n, [np.nextafter(end, 0), end, np.nextafter(end, 1)])
            assert around.min() - 1e-5 <= border <= around.max() + 1e-5


@given(st.integers(1, 300), st.data())
def test_anytime_of_rows_is_where_the_mixture_is_not_ahead(size: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, size))
    k = data.draw(st.integers(0, n))
    unfair = np.arange(size + 1)
    mixture = stats.betabinom.logpmf(k, n, *LOW_RATES)
    stand = unfair[stats.hypergeom.logpmf(k, size, unfair, n) > mixture + np.log(0.05) - 1e-9]
    low, high = anytime_of_rows(k, n, size, 0.95)
    assert (round(float(low) * size), round(float(high) * size)) == (stand[0], stand[-1])


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_anytime_holds_the_fixed_interval(counts: tuple[int, int]) -> None:
    k, n = counts
    low, high = anytime(k, n)
    fixed = clopper_pearson(k, n)
    assert low <= fixed[0] + 1e-12
    assert high >= fixed[1] - 1e-12 or k == 0


def test_rows_asked_once_know_more() -> None:
    free, rows = anytime(30, 1000), anytime_of_rows(30, 1000, 1200)
    assert free[0] < rows[0] < rows[1] < free[1]
    known = anytime_of_rows(30, 1000, 1000)
    assert known[0] == known[1] == 0.03
    fixed = hypergeometric(30, 1000, 1200)
    assert rows[0] <= fixed[0]
    assert rows[1] >= fixed[1]


@pytest.mark.parametrize("level", [0.1, 0.01])
def test_anytime_test_seldom_ever_rejects_what_is_true(level: float) -> None:
    alive, wrong = np.array([1.0]), 0.0
    for m in range(1, 400):
        alive = (np.append(alive, 0) + np.append(0, alive)) / 2
        k = np.arange(m + 1)
        out = anytime_test(k, m - k) < level
        wrong += alive[out].sum()
        alive[out] = 0
    assert 0 < wrong <= level
