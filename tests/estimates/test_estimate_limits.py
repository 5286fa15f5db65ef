"""Claims that an estimate must not make: for unfinished counts, heavy rows, interim looks and noise."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand._format import percent
from evenhand._intervals import Sums, fay_feuer_test, spent, weighted
from evenhand.criteria import Criterion
from evenhand.errors import BudgetError, DataError, EstimateError, EvenhandError, FlakyModel, ModelError
from evenhand.estimates.estimate import Plan
from evenhand.estimates.favoured import mcnemar
from evenhand.estimates.plots import path
from evenhand.estimates.populations import Everyone, target_of
from tests.helpers import in_blocks, optional

SPACE = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Nominal("sex", ["F", "M"])], protected="sex")
LINKED = eh.Space(
    [eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Nominal("sex", ["F", "M"])],
    protected="sex",
    links={"sex": {"b": {"M": {4: 0}}}},
)


class Own(Criterion):
    """A criterion that is not known to look at pairs."""

    def judge(self, outputs):
        return eh.Flip().judge(outputs)


def refuse(frame):
    return ~((frame["sex"] == "F") & (frame["a"] < 10)).to_numpy()


class Ends:
    """Raises after so many calls."""

    def __init__(self, error: BaseException, calls: int = 60) -> None:
        self.error, self.calls = error, itertools.count(-calls)

    def __call__(self, frame):
        if next(self.calls) >= 0:
            raise self.error
        return refuse(frame)


def certain(result: eh.Estimate) -> None:
    assert not result.exact
    assert result.stop in ("interrupted", "stopped")
    assert 0 < result.samples < 20_000
    assert (result.low, result.high) == (result.found / 20_000, (result.found + 20_000 - result.samples) / 20_000)
    assert result.low <= 0.1 <= result.high
    assert (result.comparisons, result.shares) == ((), ())
    assert "all were tested" not in result.sentence
    assert "exactly" not in result.sentence


@pytest.mark.parametrize(("where", "criterion"), [(SPACE, None), (LINKED, None), (SPACE, Own())])
def test_an_unfinished_count_reports_what_is_certain(where: eh.Space, criterion: Criterion | None) -> None:
    with pytest.raises(ModelError) as caught:
        in_blocks(200, Ends(RuntimeError("gone")), where, criterion=criterion)
    certain(caught.value.partial)
    certain(in_blocks(200, Ends(KeyboardInterrupt()), where, criterion=criterion))
    seen = []
    stopped = in_blocks(200, refuse, where, criterion=criterion, stop=lambda r: seen.append(r) or np.True_)
    certain(stopped)
    assert (len(seen), seen[0].low, seen[0].high) == (1, stopped.low, stopped.high)
    with pytest.raises(EstimateError, match="did not finish"):
        eh.remaining(stopped)
    watched = eh.estimate(refuse, where, criterion=criterion, stop=seen.append)
    assert watched.exact
    assert seen[-1].low == seen[-1].high == watched.rate


def data(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"a": rng.integers(10, 100, n), "b": rng.integers(0, 100, n), "sex": rng.choice(["F", "M"], n)}


def test_one_heavy_row_favours_no_group() -> None:
    rows = data(2_001)
    rows["a"][0] = 0
    weights = np.r_[100.0, np.ones(2_000)]
    result = eh.estimate(refuse, SPACE, eh.populations.Data(weights=weights), data=rows, favourable=True)
    (pair,) = result.comparisons
    assert (pair.verdict, pair.p_value) == ("insufficient evidence", 1.0)
    assert (pair.low, pair.high) == pytest.approx((result.low, result.high))
    (share,) = result.shares
    assert (share.low, share.high) == pytest.approx((result.low, result.high))
    assert pair.net_low < 0 < pair.net_high


def test_equal_weights_are_as_none() -> None:
    rows = data(500)
    rows["a"][:40] = 3
    one = eh.estimate(refuse, SPACE, "data", data=rows, favourable=True).comparisons[0]
    two = eh.estimate(
        refuse, SPACE, eh.populations.Data(weights=np.full(500, 1e300)), data=rows, favourable=True
    ).comparisons[0]
    for name in ("rate", "low", "high", "net_low", "net_high", "p_value"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-6), name
    assert one.verdict == two.verdict == "favours second"


def test_the_weighted_test_keeps_its_level() -> None:
    rng = np.random.default_rng(0)
    wrong = []
    for _ in range(800):
        weights = rng.lognormal(0, 1, 1_000)
        differ = rng.random(1_000) < np.clip(0.003 * weights**2, 0, 1)
        first = rng.random(1_000) < 0.5
        sides = [weights[differ & side] for side in (first, ~first)]
        every = np.concatenate(sides)
        sums = Sums(*(np.asarray(v) for v in (sides[0].sum(), every.sum(), (sides[0] ** 2).sum(), (every**2).sum(),
                                               every.max(initial=0))))  # fmt: skip
        wrong.append(max(fay_feuer_test(sums), mcnemar(len(sides[0]), len(sides[1]))) < 0.05)
    assert np.mean(wrong) <= 0.05


def test_weighted_intervals_hold_at_every_look() -> None:
    rng = np.random.default_rng(1)
    looks, held = [50 * 2**i for i in range(6)], []
    for _ in range(300):
        weights = rng.uniform(0.5, 2, looks[-1])
        unfair = rng.random(looks[-1]) < 0.1
        ends = [weighted(unfair[:n], weights[:n], 1 - spent(0.05, look)) for look, n in enumerate(looks, start=1)]
        held.append(all(low <= 0.1 <= high for low, high in ends))
    assert np.mean(held) >= 0.95
    rows, seen = data(8_000), []
    rows["a"][::5] = 3
    population = eh.populations.Data(rows, weights=np.ones(8_000))
    watched = eh.estimate(refuse, SPACE, population, stop=lambda r: seen.append(r) or len(seen) == 2)
    assert (watched.stop, watched.interval) == ("stopped", "Fay-Feuer at every look")
    fixed = weighted(watched.kept.verdicts(), np.ones(watched.samples))
    assert watched.low < fixed[0] < fixed[1] < watched.high
    assert (seen[-1].low, seen[-1].high) == (watched.low, watched.high)
    population = eh.populations.Data(rows, weights=np.ones(8_000), about="rows")
    certainly = eh.estimate(refuse, SPACE, population, stop=lambda _: True)
    assert certainly.unfinished
    assert certainly.low == pytest.approx(certainly.found / 8_000)
    assert certainly.high == pytest.approx((certainly.found + 8_000 - certainly.samples) / 8_000)


def test_a_stop_function_gets_an_anytime_interval() -> None:
    result = eh.estimate(refuse, SPACE, eh.populations.Uniform(exact=False), samples=3_000, stop=lambda _: None)
    assert (result.interval, result.stop) == ("anytime", "samples")
    with pytest.raises(EstimateError, match="anytime"):
        eh.estimate(refuse, SPACE, samples=3_000, interval="clopper-pearson", stop=lambda _: None)


def test_all_regions_of_everyone_are_counted() -> None:
    rng = np.random.default_rng(0)
    hit = rng.random((300, 300)) < 0.0006
    where = eh.Space([eh.Integer("a", 0, 299), eh.Integer("b", 0, 299), eh.Boolean("s")], protected="s")

    def model(frame):
        return frame["s"].to_numpy() & hit[frame["a"].to_numpy(int), frame["b"].to_numpy(int)]

    left = eh.remaining(eh.estimate(model, where))
    assert left.findings == hit.sum()
    assert left.seen == left.total
    none = eh.remaining(eh.estimate(lambda f: f["a"] > 3, where))
    assert "all individuals were judged" in repr(none)
    sampled = eh.estimate(lambda f: f["a"] > 3, where, eh.populations.Uniform(exact=False), samples=200)
    run = eh.audit(model, where, budget=eh.Budget(tests=100))
    assert "insufficient evidence" in repr(eh.remaining(sampled, run))


class Rarely:
    """Answers otherwise at its first answers to some rows, once."""

    def __init__(self, call: int) -> None:
        self.calls, self.call = itertools.count(), call

    def __call__(self, frame):
        said = refuse(frame)
        if next(self.calls) == self.call and len(said) > 600:
            said[600] = ~said[600]
        return said


@pytest.mark.parametrize("call", range(3, 12))
def test_a_rare_slip_is_noise_and_not_the_batch(call: int) -> None:
    result = in_blocks(4_000, Rarely(call), SPACE, eh.populations.Uniform(exact=False), samples=8_000)
    assert result.low <= 0.1 <= result.high


def test_noise_favours_no_group() -> None:
    rng = np.random.default_rng(5)
    where = eh.Space([eh.Integer("a", 0, 99_999), eh.Nominal("sex", ["F", "M"])], protected="sex")

    def noisy(frame):
        """Everyone is accepted; of some men, only just more often than not."""
        chance = np.where((frame["sex"] == "M") & (frame["a"] < 5_000), 0.45, 0.0)
        return rng.random(len(frame)) >= chance

    result = eh.estimate(noisy, where, samples=3_000, favourable=True)
    assert result.repeats > 1
    assert result.verdict == result.comparisons[0].verdict == "insufficient evidence"


def test_near_counts_individuals_without_counterparts() -> None:
    where = eh.Space([eh.Integer("a", 0, 9), eh.Nominal("sex", ["F", "M"])], protected="sex",
                     constraints=["a < 5 or sex == 'F'"])  # fmt: skip
    rows = {"a": [4] * 20 + [9] * 3, "sex": ["F"] * 23}
    result = eh.estimate(lambda f: f["a"] > 2, where, eh.populations.Near(steps=1), data=rows, samples=500)
    assert result.counts["untestable"] > 100


def test_words_say_no_more_than_is_so() -> None:
    assert percent(0.99989) == "99.99%"
    assert percent(0.9999999) == "99.99999%"
    assert percent(1) == "100%"
    rows = {"a": [1, 2, 3, 400], "b": [1] * 4, "sex": ["F", "X", "M", "M"]}
    said = eh.estimate(refuse, SPACE, eh.populations.Data(about="rows"), data=rows).sentence
    assert "1 of the 4 rows outside the space left out" in said
    assert "1 of the 4 rows moved to the nearest bound" in said


def test_group_figures_of_few_rows_and_odd_arguments() -> None:
    optional("fairlearn")
    rows = {"a": [50], "b": [1], "sex": ["F"]}
    assert eh.groups(refuse, SPACE, rows, True).groups[0].rate == 1
    unselected = eh.groups(lambda f: f["a"] > 200 - 2 * (f["b"] > 98), SPACE, {k: v * 3 for k, v in rows.items()}, True)
    assert "no individual is selected" in repr(unselected)
    heavy = eh.groups(refuse, SPACE, {k: v * 3 for k, v in rows.items()}, True, weights=[1e300, 1e300, 1e-320])
    assert heavy.groups[0].rate == 1
    for wrong in ({"confidence": "x"}, {"confidence": None}, {"smallest": "x"}, {"smallest": None}, {"bands": 3},
                  {"bands": ["sex"]}):  # fmt: skip
        with pytest.raises(EstimateError):
            eh.groups(refuse, SPACE, rows, True, **wrong)
    with pytest.raises(ModelError, match="list of outcomes"):
        eh.groups(refuse, SPACE, rows, np.array([[1, 2]]))
    with pytest.raises(ModelError, match="favourable must be a decision of refuse: 2"):
        eh.estimate(refuse, SPACE, favourable=np.array([1, 2]))


def test_arguments_are_honoured_or_refused() -> None:
    rows = data(50)
    with pytest.raises(BudgetError, match="even"):
        eh.estimate(refuse, SPACE, interval=eh.Interval(repeats=3))
    with pytest.raises(EstimateError, match="exact"):
        eh.estimate(refuse, SPACE, eh.populations.Uniform(exact="no"))
    with pytest.raises(EstimateError, match="Fay"):
        eh.estimate(refuse, SPACE, eh.populations.Data(weights=np.ones(50)), data=rows, interval="clopper-pearson")
    with pytest.raises(DataError, match="weights"):
        eh.estimate(refuse, SPACE, eh.populations.Data(weights=np.full(50, np.inf)), data=rows)


def test_large_families_are_not_gone_through_unasked() -> None:
    where = eh.Space([eh.Integer("a", 0, 9_999), eh.Integer("age", 0, 99), eh.Nominal("race", range(5))],
                     protected=["age", "race"])  # fmt: skip
    for exact, whole in ((None, False), (True, True)):
        target = target_of(Plan(eh.populations.Uniform(exact)), where, eh.Flip(), 0, 16_384)
        assert isinstance(target.population, Everyone) == whole


class NoisyScores:
    """Scores that ignore sex and are never twice the same."""

    classes_ = np.array([0, 1])

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def predict_proba(self, frame):
        p = np.clip(0.1 + self.rng.normal(0, 0.05, len(frame)), 0, 1)
        return np.c_[1 - p, p]

    def predict(self, frame):
        return self.predict_proba(frame).argmax(axis=1)


def test_noisy_scores_are_an_error_for_any_repeats() -> None:
    def measure(**settings: Any) -> eh.Estimate:
        model, uniform = eh.wrap(NoisyScores(), input="frame"), eh.populations.Uniform(exact=False)
        return eh.estimate(model, SPACE, uniform, criterion=eh.Gap(0.03), samples=1_000, **settings)

    with pytest.raises(FlakyModel):
        measure()
    with pytest.raises(EstimateError, match="most frequent decision"):
        measure(interval=eh.Interval(repeats=2))
    with pytest.raises(FlakyModel):
        eh.groups(lambda f: np.random.default_rng().random(len(f)) < 0.5, SPACE, data(100), True)


def test_nothing_is_exact_or_absent_where_counterparts_were_sampled() -> None:
    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("age", 0, 4_999)], protected="age", max_family_size=10)
    rows = {"a": np.arange(100), "age": np.arange(100)}

    def strict(frame):
        return (frame["age"] != 777).to_numpy() | (frame["a"] > 50).to_numpy()

    every = eh.estimate(strict, space, eh.populations.Data(about="rows"), data=rows)
    some = eh.estimate(strict, space, samples=1_000)
    for result in (every, some):
        assert not result.exact
        assert (result.found, result.verdict) == (0, "insufficient evidence")
        assert "the share may be higher" in result.sentence
    assert every.sentence.startswith("none of the data's 100 rows is treated differently by these samples")
    assert "by these samples of counterparts" in some.sentence


def test_weights_weigh_everything() -> None:
    rows = {"a": np.arange(100), "b": np.zeros(100), "sex": ["F"] * 100}
    weights = np.where(np.arange(100) >= 90, 1_000.0, 1.0)

    def slope(frame):
        p = np.where(frame["sex"] == "F", 0.4 * frame["a"] / 99, 0.45 + 0.05 * frame["a"] / 99)
        return np.c_[1 - p, p]

    result = eh.estimate(slope, SPACE, eh.populations.Data(weights=weights), data=rows, favourable=1)
    gap = 0.45 + 0.05 * rows["a"] / 99 - 0.4 * rows["a"] / 99
    assert result.severity["everyone"]["mean"] == pytest.approx(np.average(gap, weights=weights))
    assert result.comparisons[0].gaps["mean"] == pytest.approx(np.average(gap, weights=weights), rel=1e-5)
    assert result.comparisons[0].gaps["advantage"] == pytest.approx(-np.average(gap, weights=weights), rel=1e-5)
    heavy = np.sort(gap[90:])
    assert heavy[0] <= result.severity["everyone"]["median"] <= heavy[-1]
    unfair = eh.estimate(refuse, SPACE, eh.populations.Data(weights=weights[::-1]), data=rows)
    asked, share = path(unfair)
    assert share[-1] == pytest.approx(unfair.rate)
    assert asked[-1] == 100
    unfair.plot_convergence()
    result.plot_gaps()
    with pytest.raises(EstimateError, match="without weights"):
        eh.remaining(unfair)


def test_the_share_lies_in_its_own_interval() -> None:
    rows = {"a": np.arange(1_000) % 100, "b": np.arange(1_000) // 100, "sex": ["F", "M"] * 500}
    one = lambda f: ~((f["sex"] == "F") & (f["a"] < 1) & (f["b"] < 1)).to_numpy()  # noqa: E731
    result = eh.estimate(one, SPACE, eh.populations.Data(about="rows"), data=rows, samples=999)
    assert result.low <= result.rate <= result.high
    result.plot_convergence()


def test_half_width_is_a_reach() -> None:
    result = eh.estimate(
        lambda f: f["a"] > 3, SPACE, eh.populations.Uniform(exact=False), stop=eh.StopRule(half_width=0.003)
    )
    assert (result.stop, result.found) == ("half_width", 0)
    assert result.high <= 0.003
    assert eh.estimate(refuse, SPACE, stop=eh.StopRule(half_width=1e-300)).exact


@pytest.mark.parametrize(
    "given",
    [
        {"population": np.array(["data", "x"])},
        {"interval": np.array(["lln", "x"])},
        {"interval": pd.NA},
        {"favourable": pd.NA},
        {"favourable": float("nan")},
        {"population": eh.populations.Uniform(exact=True), "samples": 3},
        {"population": eh.populations.Uniform(exact=True), "stop": eh.StopRule(seconds=1.0)},
    ],
)
def test_odd_arguments_are_refused_in_words(given: dict[str, Any]) -> None:
    with pytest.raises(EvenhandError):
        eh.estimate(refuse, SPACE, **given)


def test_results_are_plain_values_whatever_the_arguments() -> None:
    optional("fairlearn")
    small = np.float32(0.9)
    result = eh.estimate(
        refuse,
        SPACE,
        eh.populations.Uniform(exact=False),
        confidence=small,
        interval=eh.Interval(tolerance=np.float32(0.01)),
        samples=1_000,
    )
    json.dumps([result.to_dict(), eh.remaining(result).to_dict()], allow_nan=False)
    json.dumps(eh.groups(refuse, SPACE, data(100), True, confidence=small).to_dict(), allow_nan=False)


def test_data_of_a_tight_space_need_no_draws() -> None:
    names = "abc"
    space = eh.Space([eh.Integer(n, 0, 999) for n in names] + [eh.Boolean("s")], "s", ["a == b", "b == c"])
    rows = {**{n: [1, 2] for n in names}, "s": [True, False]}
    result = eh.estimate(eh.wrap(NoisyScoresless(), input="frame"), space, eh.populations.Data(about="rows"), data=rows)
    assert result.samples == 2


class NoisyScoresless:
    classes_ = np.array([0, 1])

    def predict_proba(self, frame):
        return np.c_[1 - frame["s"] * 0.9, frame["s"] * 0.9]

    def predict(self, frame):
        return (frame["s"]).astype(int)


def test_labels_are_compared_by_value() -> None:
    optional("fairlearn")
    rows = data(200)
    said = refuse(pd.DataFrame(rows))
    for y in (said.astype(float), said.astype(int), said, said.astype(str)):
        figures = eh.groups(refuse, SPACE, rows, True, y=y)
        assert {group.accuracy for group in figures.groups} == {1.0}
    half = np.where(np.arange(200) % 2, said, np.nan)
    half[:100] = 1 - half[:100]
    figures = eh.groups(refuse, SPACE, rows, True, y=half)
    assert figures.counts["unknown"] == 100
    sizes = np.array([sum(np.array(rows["sex"])[1::2] == g.values["sex"]) for g in figures.groups])
    assert sizes @ [g.accuracy for g in figures.groups] == pytest.approx(50)
    with pytest.raises(DataError, match="no label"):
        eh.groups(refuse, SPACE, rows, True, y=[None] * 200)
