"""Intervals, fixed and anytime, against references and exact enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from evenhand._intervals import (
    LOW_RATES,
    anytime,
    anytime_of_rows,
    anytime_test,
    at_most,
    clopper_pearson,
    hypergeometric,
    lln,
    planned,
    steady,
    tango,
    weighted,
)

LEVELS = [0.9, 0.95, 0.99]


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from(LEVELS))
def test_clopper_pearson_is_the_beta_quantile(counts: tuple[int, int], confidence: float) -> None:
    k, n = counts
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, k, n - k + 1) if k else 0
    high = stats.beta.isf(tail, k + 1, n - k) if k < n else 1
    assert np.allclose(clopper_pearson(k, n, confidence), [low, high], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("k", [0, 1, 17, 50])
def test_clopper_pearson_is_scipys_exact_test(k: int) -> None:
    expected = stats.binomtest(k, 50).proportion_ci(0.95, method="exact")
    assert np.allclose(clopper_pearson(k, 50, 0.95), [expected.low, expected.high], atol=1e-6)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("n", [1, 7, 40])
def test_clopper_pearson_covers_every_share(n: int, confidence: float) -> None:
    low, high = clopper_pearson(np.arange(n + 1), n, confidence)
    for share in np.linspace(0, 1, 201):
        chance = stats.binom.pmf(np.arange(n + 1), n, share)
        assert chance[(low <= share) & (share <= high)].sum() >= confidence - 1e-12


@pytest.mark.parametrize("confidence", LEVELS)
def test_one_sided_bounds_cover(confidence: float) -> None:
    n = 25
    upper = at_most(np.arange(n + 1), n, confidence)
    for share in np.linspace(0, 1, 201):
        chance = stats.binom.pmf(np.arange(n + 1), n, share)
        assert chance[share <= upper].sum() >= confidence - 1e-12


def test_no_finding_is_the_rule_of_three() -> None:
    assert at_most(0, 100_000, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100_000))
    assert at_most(0, 100_000) < clopper_pearson(0, 100_000)[1]
    assert clopper_pearson(0, 0)[0] == 0
    assert clopper_pearson(0, 0)[1] == 1


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize(("size", "n"), [(1, 1), (12, 5), (30, 29), (40, 10)])
def test_hypergeometric_covers_every_number_of_unfair_rows(size: int, n: int, confidence: float) -> None:
    counts = np.arange(n + 1)
    low, high = hypergeometric(counts, n, size, confidence)
    for unfair in range(size + 1):
        chance = stats.hypergeom.pmf(counts, size, unfair, n)
        covered = (low <= unfair / size + 1e-12) & (unfair / size <= high + 1e-12)
        assert chance[covered].sum() >= confidence - 1e-12


@given(st.integers(1, 60), st.data())
def test_hypergeometric_is_what_neither_tail_rejects(size: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, size))
    k = data.draw(st.integers(0, n))
    tail = 0.05 / 2 * (1 - 1e-9)
    kept = [
        unfair
        for unfair in range(k, size - n + k + 1)
        if stats.hypergeom.sf(k - 1, size, unfair, n) > tail and stats.hypergeom.cdf(k, size, unfair, n) > tail
    ]
    low, high = hypergeometric(k, n, size, 0.95)
    assert (round(float(low) * size), round(float(high) * size)) == (kept[0], kept[-1])


def test_hypergeometric_meets_clopper_pearson_in_a_large_population() -> None:
    small, large = hypergeometric(30, 1000, 10**8), clopper_pearson(30, 1000)
    assert np.allclose(small, large, rtol=1e-4)


def test_lln_is_the_normal_interval_of_the_mean() -> None:
    counts = np.random.default_rng(0).binomial(1000, 0.03, 400)
    expected = stats.norm.interval(0.95, counts.mean() / 1000, stats.sem(counts / 1000))
    assert np.allclose(lln(counts, 1000, 0.95), expected)
    low, high = lln(np.zeros(400), 1000)
    assert low == high == 0


@given(st.integers(1, 500), st.floats(0.5, 50))
def test_equal_weights_are_no_weights(n: int, weight: float) -> None:
    unfair = np.arange(n) < n // 3
    got = weighted(unfair, np.full(n, weight), 0.9)
    assert np.allclose(got, clopper_pearson(n // 3, n, 0.9))


def test_weights_that_differ_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    weights, unfair = rng.lognormal(0, 1, 1000), rng.random(1000) < 0.05
    low, high = weighted(unfair, weights)
    fixed = clopper_pearson(unfair.sum(), 1000)
    assert high - low > fixed[1] - fixed[0]
    assert low < weights[unfair].sum() / weights.sum() < high
    assert np.allclose(weighted(~unfair, weights), (1 - high, 1 - low))
    assert weighted(unfair, np.zeros(1000)) == (0, 1)


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("related", [0, 1, -1])
def test_weighted_interval_covers(confidence: float, related: int) -> None:
    rng = np.random.default_rng(7)

    def chance(weights: np.ndarray) -> np.ndarray:
        return np.clip(0.05 * weights**related, 0, 1)

    everyone = rng.lognormal(0, 0.7, 10**6)
    truth = (everyone * chance(everyone)).sum() / everyone.sum()
    covered = []
    for _ in range(400):
        weights = rng.lognormal(0, 0.7, 300)
        low, high = weighted(rng.random(300) < chance(weights), weights, confidence)
        covered.append(low <= truth <= high)
    assert np.mean(covered) >= confidence - 2 * np.sqrt(confidence * (1 - confidence) / 400)


def score_test(b: int, c: int, n: int, apart: float) -> float:
    """Tango's statistic by its definition: the likelihood under the hypothesis is maximised by trying."""
    least, most = max(0.0, -apart), (1 - apart) / 2

    def unlikely(down: float) -> float:
        shares = np.clip([down + apart, down, 1 - 2 * down - apart], 1e-300, 1)
        return -float(np.array([b, c, n - b - c]) @ np.log(shares))

    down = optimize.minimize_scalar(unlikely, bounds=(least, most), method="bounded", options={"xatol": 1e-12}).x
    return float((b - c - n * apart) / np.sqrt(n * (2 * down + apart * (1 - apart))))


@pytest.mark.parametrize("counts", [(10, 0, 100), (3, 9, 44), (1, 1, 20), (40, 25, 300), (7, 2, 9), (0, 5, 50)])
def test_tango_ends_where_the_score_test_rejects(counts: tuple[int, int, int]) -> None:
    low, high = map(float, tango(*counts))
    assert low < (counts[0] - counts[1]) / counts[2] < high
    assert abs(score_test(*counts, low)) == pytest.approx(1.96, abs=1e-3)
    assert abs(score_test(*counts, high)) == pytest.approx(1.96, abs=1e-3)


def test_tango_covers() -> None:
    """Every outcome of thirty pairs, by its probability, for many truths."""
    n = 30
    b, c = (part.ravel() for part in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    b, c = b[b + c <= n], c[b + c <= n]
    low, high = tango(b, c, n)
    covered = []
    for up, down in [(0.3, 0.3), (0.1, 0.2), (0.05, 0.05), (0.5, 0.1), (0.02, 0.3), (0.0, 0.1)]:
        chances = stats.multinomial.pmf(np.stack([b, c, n - b - c], axis=1), n, [up, down, 1 - up - down])
        covered.append(float(chances[(low <= up - down + 1e-12) & (up - down - 1e-12 <= high)].sum()))
    assert min(covered) > 0.92
    assert 0.94 < np.mean(covered) < 0.98


def test_tango_has_width_where_none_turned() -> None:
    low, high = tango([0, 9, 0], [0, 0, 9], [50, 9, 9])
    assert (low < [0, 1, -1 + 1e-9]).all()
    assert (high > [0, 1 - 1e-9, -1]).all()
    assert low[0] == pytest.approx(-high[0])
    assert (np.abs([low, high]) <= 1).all()


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


def test_repeated_looks_break_fixed_sample_intervals() -> None:
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
def test_the_anytime_test_rarely_rejects_a_true_hypothesis(level: float) -> None:
    alive, wrong = np.array([1.0]), 0.0
    for m in range(1, 400):
        alive = (np.append(alive, 0) + np.append(0, alive)) / 2
        k = np.arange(m + 1)
        out = anytime_test(k, m - k) < level
        wrong += alive[out].sum()
        alive[out] = 0
    assert 0 < wrong <= level


SIZES = np.array([30, 100, 1000, 10_000, 100_000, 1_000_000])


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_steady_is_at_most_about_twice_as_wide_as_clopper_pearson_at_every_size(share: float) -> None:
    found = np.round(share * SIZES)
    for k in (found, np.minimum(found + 1, SIZES)):
        low, high = steady(k, SIZES, 1 - 0.66 * 0.05)
        exact = clopper_pearson(k, SIZES)
        assert ((high - low) / (exact[1] - exact[0])).max() <= 2
        assert (low <= k / SIZES).all()
        assert (high >= k / SIZES).all()


@pytest.mark.parametrize("share", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_steady_is_seldom_ever_wrong(share: float, confidence: float) -> None:
    assert ever_wrong(share, 200, confidence, steady) <= 1 - confidence


@pytest.mark.parametrize("found", [0, 1, 5, 60, 650, 1000, 1350, 1998, 1999, 2000])
def test_planned_looks_cost_at_most_a_quarter_of_the_width(found: int) -> None:
    low, high = planned(found, 2000, (found, 2000))
    exact = clopper_pearson(found, 2000)
    assert high - low <= (1.25 if found else 1.0001) * (exact[1] - exact[0])
    assert high - low <= np.diff(planned(found, 2000))[0] + 1e-12


@pytest.mark.parametrize("samples", [1, 4, 30, 150])
def test_planned_holds_at_the_plan(samples: int) -> None:
    found = np.arange(samples + 1)
    ends = np.array([planned(k, samples, (k, samples)) for k in found.tolist()])
    for share in np.linspace(0, 1, 201):
        held = (ends[:, 0] <= share + 1e-12) & (share <= ends[:, 1] + 1e-12)
        assert stats.binom.pmf(found, samples, share)[held].sum() >= 0.95


def test_contradicted_plans_do_not_count() -> None:
    assert planned(900, 1000, (0, 100)) == planned(900, 1000)
