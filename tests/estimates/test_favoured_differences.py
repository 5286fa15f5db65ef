"""Who gets more, and by how much: equal to complete counts, with valid intervals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import ModelError
from evenhand.estimates.favoured import FEWEST, Comparison, Confidence, Differences
from evenhand.estimates.result import more
from tests.helpers import optional

AGES, SEXES, RACES = range(1, 8), ["F", "M", "X"], ["a", "b"]
SPACE = eh.Space(
    [eh.Integer("age", 1, 7), eh.Nominal("sex", SEXES), eh.Nominal("race", RACES)], protected=["sex", "race"]
)
OUTCOMES = ["refused", "reduced", "granted"]
SEEDS = range(6)


class Known:
    """Looks its answers up, so that everybody's is known."""

    def __init__(self, values: list[Any], seed: int) -> None:
        random = np.random.default_rng(seed)
        self.said = {who: values[random.integers(len(values))] for who in itertools.product(AGES, SEXES, RACES)}

    def __call__(self, frame: pd.DataFrame) -> Any:
        return np.array([self.said[who] for who in zip(frame["age"], frame["sex"], frame["race"], strict=True)])

    def pairs(self, c: Comparison) -> list[tuple[Any, Any]]:
        """What the two of each pair get, written out one by one: once for each individual with these attributes."""
        out = []
        for age, sex, race in itertools.product(AGES, SEXES, RACES):
            one, other = ({"sex": sex, "race": race} | side for side in (c.first, c.second))
            out.append((self.said[age, one["sex"], one["race"]], self.said[age, other["sex"], other["race"]]))
        return out


def measured(model: Any, seed: int, sampled: bool, **given: Any) -> eh.Estimate:
    """Ask everybody, or everybody as rows of data; both come to the same shares."""
    if not sampled:
        return eh.estimate(model, SPACE, eh.populations.Uniform(exact=True), seed=seed, **given)
    rows = pd.DataFrame(list(itertools.product(AGES, SEXES, RACES)), columns=["age", "sex", "race"])
    return eh.estimate(model, SPACE, "data", data=rows, seed=seed, **given)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("favourable", [None, "higher", "lower"])
@pytest.mark.parametrize("seed", SEEDS)
def test_mean_differences_match_the_whole_population(seed: int, favourable: Any, sampled: bool) -> None:
    model, gamma = Known([1000.0, 1000.25, 1450.0, 6450.0], seed), 100
    result = measured(model, seed, sampled, criterion=eh.Gap(gamma), favourable=favourable)
    assert len(result.by_pair) == 4
    for c in result.comparisons:
        pairs = model.pairs(c)
        gaps = np.array([a - b for a, b in pairs])
        assert c.difference == pytest.approx(gaps.mean(), abs=1e-9)
        ups, downs = int((gaps > gamma).sum()), int((gaps < -gamma).sum())
        assert c.different / c.pairs == pytest.approx((ups + downs) / len(pairs))
        if favourable is None:
            assert c.first_favoured is None
            continue
        first, second = (ups, downs) if favourable == "higher" else (downs, ups)
        assert c.first_favoured / c.pairs == pytest.approx(first / len(pairs))
        assert c.second_favoured / c.pairs == pytest.approx(second / len(pairs))
        if not sampled:
            assert c.difference_low == c.difference == c.difference_high
            assert (c.verdict == "favours first") == (first > second)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(
    ("favourable", "ranks"),
    [
        (eh.Order(OUTCOMES), (0, 1, 2)),
        (eh.Order(OUTCOMES[::-1]), (2, 1, 0)),
        (["granted", "reduced"], (0, 1, 1)),
        ({"granted"}, (0, 0, 1)),
        ("reduced", (0, 1, 0)),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_favoured_of_three_outcomes_is_who_ranks_higher(
    seed: int, favourable: Any, ranks: tuple[int, ...], sampled: bool
) -> None:
    model, rank = Known(OUTCOMES, seed), dict(zip(OUTCOMES, ranks, strict=True))
    for c in measured(model, seed, sampled, favourable=favourable).comparisons:
        pairs = model.pairs(c)
        first = sum(rank[a] > rank[b] for a, b in pairs) / len(pairs)
        second = sum(rank[a] < rank[b] for a, b in pairs) / len(pairs)
        assert c.first_favoured / c.pairs == pytest.approx(first)
        assert c.second_favoured / c.pairs == pytest.approx(second)
        assert c.net == pytest.approx(first - second)
        assert c.rate == pytest.approx(sum(a != b for a, b in pairs) / len(pairs))
        assert c.difference is None


def test_weights_count() -> None:
    rows = pd.DataFrame({"age": [1, 2, 3] * 20, "sex": ["F"] * 60, "race": ["a"] * 60, "w": [1.0, 2.0, 5.0] * 20})
    result = eh.estimate(
        lambda f: 100.0 * f["age"] * (f["sex"] == "M"),
        SPACE,
        eh.populations.Data(weights="w"),
        data=rows,
        criterion=eh.Gap(1),
    )
    c = next(c for c in result.comparisons if c.first == {"sex": "F"} and c.second == {"sex": "M"})
    assert c.difference == pytest.approx(-100 * np.average([1, 2, 3], weights=[1, 2, 5]))
    assert c.difference_low < c.difference < c.difference_high < 0


SHAPES = {
    "the same for all": lambda random, shape: np.full(shape, 5.0),
    "large for few": lambda random, shape: np.where(random.random(shape) < 0.05, 5450.0, 0.0),
    "both ways": lambda random, shape: random.choice([-300.0, 0.0, 500.0], shape, p=[0.3, 0.4, 0.3]),
    "bell curve": lambda random, shape: random.normal(20, 50, shape),
    "skewed, for some": lambda random, shape: random.exponential(100, shape) * (random.random(shape) < 0.4),
}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_of_mean_differences_cover(shape: str, confidence: float, watched: bool) -> None:
    random, samples, experiments = np.random.default_rng(1), 300, 2_000
    true = SHAPES[shape](np.random.default_rng(2), 2_000_000).mean()
    found = Differences(experiments)
    for part in (100, 200):
        more = SHAPES[shape](random, (part, experiments))
        found.add(1e6 + more, np.full_like(more, 1e6), np.ones_like(more, dtype=bool), None)
    low, high = Confidence(confidence, 0.01, watched=watched).difference(found)
    # What the simulation itself may be off by, three standard errors of it.
    slack = 3 * np.sqrt(confidence * (1 - confidence) / experiments)
    assert samples == found.compared[0]
    assert ((low <= true * (1 + 1e-3)) & (high >= true * (1 - 1e-3))).mean() >= confidence - slack


@pytest.mark.slow
def test_intervals_of_mean_differences_hold_for_all_comparisons_at_once() -> None:
    size, races, experiments = 50_000, "abcde", 300
    numbers = np.random.default_rng(0).normal(0, 100, (size, len(races)))
    space = eh.Space([eh.Integer("who", 0, size - 1), eh.Nominal("race", list(races))], protected="race")

    def model(frame: pd.DataFrame) -> Any:
        return numbers[frame["who"].to_numpy(), frame["race"].map(races.index).to_numpy(dtype=int)]

    missed = 0
    for seed in range(experiments):
        found = eh.estimate(
            model, space, eh.populations.Uniform(exact=False), criterion=eh.Gap(1e9), samples=100, seed=seed
        )
        assert len(found.comparisons) == 10
        for c in found.comparisons:
            one, other = (numbers[:, races.index(side["race"])].mean() for side in (c.first, c.second))
            if not c.difference_low <= one - other <= c.difference_high:
                missed += 1
                break
    # What the simulation itself may be off by, three standard errors of it.
    assert missed / experiments <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / experiments)


def test_of_too_few_that_differ_no_interval_is_given() -> None:
    for count, known in ((0, False), (FEWEST - 1, False), (FEWEST, True)):
        more = np.zeros((100, 1))
        more[:count] = 3.0
        found = Differences(1)
        found.add(more, np.zeros_like(more), np.ones_like(more, dtype=bool), None)
        low, high = Confidence(0.95, 0.01).difference(found)
        assert found.mean == pytest.approx(3 * count / 100)
        assert bool(np.isfinite(low[0]) and np.isfinite(high[0])) == known


def test_rounding_is_no_difference() -> None:
    found = Differences(1)
    found.add(np.full((50, 1), 0.1 + 0.2), np.full((50, 1), 0.3), np.ones((50, 1), dtype=bool), None)
    assert found.apart == 0
    assert found.mean == 0


@pytest.mark.parametrize(("favourable", "winner"), [(None, None), ("higher", "M"), ("lower", "F")])
def test_sentences_name_who_gets_more_and_how_much(favourable: Any, winner: str | None) -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    said = repr(eh.estimate(lambda f: 5450.0 * (f["sex"] == "M"), space, criterion=eh.Gap(10), favourable=favourable))
    assert "sex M gets 5,450 more than sex F on average" in said
    assert ("favoured" in said) == (winner is not None)
    if winner is not None:
        assert f"sex {winner} favoured over sex {'F' if winner == 'M' else 'M'}" in said


def test_words_say_which_score_is_higher() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")

    class Scorer:
        classes_ = np.array(["bad", "good"])
        feature_names_in_ = np.array(["age", "sex"])

        def predict_proba(self, frame: pd.DataFrame) -> Any:
            good = 0.4 + 0.125 * (frame["sex"] == "M").to_numpy()
            return np.column_stack([1 - good, good])

        def predict(self, frame: pd.DataFrame) -> Any:
            return self.classes_[(self.predict_proba(frame)[:, 1] > 0.5).astype(int)]

    for favourable, who in ((None, "M"), ("good", "M"), ("bad", "F")):
        said = repr(eh.estimate(Scorer(), space, criterion=eh.Gap(0.01), favourable=favourable))
        assert f"sex {who} scores 0.125 higher for “{favourable or 'good'}” than" in said


def test_unclear_differences_are_not_claimed() -> None:
    rows = pd.DataFrame({"age": range(1, 8), "sex": ["F"] * 7, "race": ["a"] * 7})
    rows = pd.concat([rows] * 10)
    # Up for some and down for others, and as much: no group clearly gets more on average.
    result = eh.estimate(
        lambda f: np.where(f["age"] % 2, 1.0, -1.0) * 1000 * (f["sex"] == "M"), SPACE, "data", data=rows,
        criterion=eh.Gap(1),
    )  # fmt: skip
    c = next(c for c in result.comparisons if c.first == {"sex": "F"} and c.second == {"sex": "M"})
    assert c.difference_low < 0 < c.difference_high
    assert "it is not clear whether" in repr(result)


def test_group_means() -> None:
    optional("fairlearn")
    rows = pd.DataFrame({"age": [1, 2, 3, 4] * 25, "sex": ["F", "F", "M", "M"] * 25, "race": ["a", "b"] * 50})
    model = eh.wrap(lambda f: 1000 * f["age"], regression=True)
    for favourable in (None, "higher", "lower"):
        figures = eh.groups(model, SPACE, rows, favourable)
        by = {g.values["sex"]: g for g in figures.groups if list(g.values) == ["sex"]}
        assert (by["F"].mean, by["M"].mean, by["F"].less, by["M"].less) == (1500, 3500, 2000, None)
        assert by["F"].less_low < 2000 < by["F"].less_high
        assert (by["F"].impact_ratio is None) == (favourable is None)
        assert "2,000 less than the highest group" in repr(figures)
        assert "e+0" not in repr(figures)


@pytest.mark.parametrize(
    ("favourable", "told"),
    [
        (["granted", "perhaps"], "must be a decision of .*'perhaps'.*it predicts .*'reduced'"),
        (eh.Order([*OUTCOMES, "perhaps"]), "must be a decision of .*'perhaps'"),
        (eh.Order(["refused", "granted"]), "must also rank 'reduced'.*name every outcome"),
        ([], "at least one outcome"),
        ([["granted"]], "single outcomes"),
        ({"granted": 1}, "a list of outcomes or eh.Order"),
    ],
)
def test_wrong_outcomes_are_refused_everywhere(favourable: Any, told: str) -> None:
    optional("fairlearn")
    model = Known(OUTCOMES, 0)
    rows = pd.DataFrame(list(itertools.product(AGES, SEXES, RACES)), columns=["age", "sex", "race"])
    run = eh.audit(model, SPACE, "themis")
    for ask in (
        lambda: eh.estimate(model, SPACE, favourable=favourable),
        lambda: eh.groups(model, SPACE, rows, favourable),
        lambda: eh.report(run, "never.html", data=rows, favourable=favourable),
    ):
        with pytest.raises(ModelError, match=told):
            ask()


@pytest.mark.parametrize("wrong", [["granted"], [], "granted", ["a", "b", "a"], ["1", 1], 3])
def test_orders_name_two_outcomes_or_more_once_each(wrong: Any) -> None:
    with pytest.raises(ModelError, match="order"):
        eh.Order(wrong)


def test_all_outcomes_of_a_classifier_cannot_be_favourable() -> None:
    from sklearn.tree import DecisionTreeClassifier

    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    tree = DecisionTreeClassifier().fit([[1, 0], [5, 0], [9, 1]], OUTCOMES)
    with pytest.raises(ModelError, match="must not include every decision.*eh.Order"):
        eh.estimate(tree, space, favourable=OUTCOMES)
    with pytest.raises(ModelError, match="must also rank 'reduced'"):
        eh.estimate(tree, space, favourable=eh.Order(["refused", "granted"]))
    assert eh.estimate(tree, space, favourable=eh.Order(OUTCOMES)).to_dict()["favourable"] == {"order": OUTCOMES}


def test_a_number_is_not_called_a_decision() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    with pytest.raises(ModelError, match='"higher" or "lower"'):
        eh.estimate(lambda f: f["age"] / 10 + f["member"], space, criterion=eh.Gap(0.1), favourable="granted")


def test_outcomes_that_no_sampled_row_gets_are_accepted() -> None:
    optional("fairlearn")
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    rows = {"age": [1, 2, 3] * 10, "sex": ["F", "M", "F"] * 10}

    def decide(frame: pd.DataFrame) -> Any:
        return np.select(
            [frame["age"] > 8, (frame["sex"] == "M") & (frame["age"] > 1)], ["reduced", "granted"], "refused"
        )

    order = eh.Order(OUTCOMES)
    result = eh.estimate(decide, space, "data", data=rows, favourable=order)
    assert result.comparisons[0].net == pytest.approx(-2 / 3)
    # The individuals who were asked to look for it are counted.
    assert result.rows_checked > eh.estimate(decide, space, "data", data=rows).rows_checked
    assert eh.groups(decide, space, rows, order).favourable == order


def test_equal_numbers_are_reported_as_equal() -> None:
    space = eh.Space([eh.Integer("age", 1, 10**6), eh.Nominal("race", ["A", "B"])], protected="race")
    found = eh.estimate(lambda f: f["age"] / 7, space, samples=300, criterion=eh.Gap(0.1), favourable="higher")
    (pair,) = found.comparisons
    said = str(more(pair, (), 0.95))
    assert "get the same in all 300 asked" in said
    assert "too few" not in said
    # A mean of 0 that is made of differences is not the same.
    few = eh.estimate(
        lambda f: f["age"] / 7 + (f["race"] == "B") * (f["age"] < 9000), space, samples=300, criterion=eh.Gap(0.1)
    )
    assert few.comparisons[0].difference
    assert "too few" in str(more(few.comparisons[0], (), 0.95))
