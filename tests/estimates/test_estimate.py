"""Estimates: equal to brute force if all individuals are judged, with valid intervals otherwise."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._format import high
from evenhand._intervals import anytime, clopper_pearson, hypergeometric
from evenhand.errors import BudgetError, DataError, EstimateError, FlakyModel, ModelError, SpaceError
from evenhand.estimates.result import Limit, Outcome
from tests.helpers import in_blocks, with_settings
from tests.worlds import World, random_world, worlds


def space(**kwargs) -> eh.Space:
    attributes = [eh.Integer("age", 0, 99), eh.Integer("hours", 0, 99), eh.Nominal("sex", ["F", "M"])]
    return eh.Space(attributes, protected="sex", **kwargs)


def refuse(frame):
    """Refuses young women: 20% of everyone has a counterpart who is treated differently."""
    return np.where((frame["age"] < 20) & (frame["sex"] == "F"), "no", "yes")


def fair(frame):
    return frame["age"] < 50


def rows(n: int, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 60, n),
        "hours": rng.integers(0, 100, n),
        "sex": rng.choice(["F", "M"], n),
        "w": rng.uniform(0.5, 2, n),
    }


class Brute:
    """Everything that an estimate says of a world, by loops."""

    def __init__(self, world: World, people: np.ndarray | None = None) -> None:
        self.world, self.space = world, world.space
        every = self.space.coding.rows(np.arange(self.space.coding.total))
        valid = every[self.space.valid(every)] if people is None else people
        self.people = [row for row in valid if len(self.members(row, self.space.protected_columns)) >= 2]

    def said(self, row: np.ndarray) -> int:
        return int(self.world.table[self.space.coding.ids(row[None])[0]])

    def members(self, row: np.ndarray, columns: list[int]) -> list[np.ndarray]:
        out = []
        for codes in itertools.product(*(range(self.space.coding.sizes[j]) for j in columns)):
            other = row.copy()
            other[columns] = codes
            if self.space.valid(other[None])[0]:
                out.append(other)
        return out

    def share(self, columns: list[int]) -> tuple[int, int]:
        """How many can be compared by changing these columns, and how many are treated differently."""
        families = [self.members(row, columns) for row in self.people]
        families = [family for family in families if len(family) >= 2]
        return len(families), sum(len({self.said(m) for m in family}) > 1 for family in families)

    def pair(self, first: dict[str, int], second: dict[str, int], favourable: int) -> tuple[int, int, int, int]:
        counts = [0, 0, 0, 0]
        for row in self.people:
            sides = []
            for values in (first, second):
                other = row.copy()
                for name, value in values.items():
                    other[self.space.column(name)] = value
                sides.append(other)
            if not all(self.space.valid(side[None])[0] for side in sides):
                continue
            a, b = map(self.said, sides)
            counts[0] += 1
            counts[1] += a != b
            counts[2] += a != b and a == favourable
            counts[3] += a != b and b == favourable
        return tuple(counts)


def compare_with_brute_force(result: eh.Estimate, brute: Brute, favourable: int) -> None:
    where = brute.space
    for share in result.shares:
        assert (share.compared, share.found) == brute.share([where.column(name) for name in share.attributes])
    for c in result.comparisons:
        counts = brute.pair(c.first, c.second, favourable)
        assert (c.pairs, c.different) == counts[:2]
        if c.pairs:
            assert (c.first_favoured, c.second_favoured) == counts[2:]
            assert c.net == pytest.approx((counts[2] - counts[3]) / counts[0])
            assert c.gross == pytest.approx((counts[2] + counts[3]) / counts[0])


@pytest.mark.slow
@settings(max_examples=50)
@given(worlds(most=80, constraints=True), st.integers(2, 40))
def test_everyone_is_brute_force(world: World, chunk: int) -> None:
    brute = Brute(world)
    if not brute.people:
        with pytest.raises((DataError, SpaceError), match="counterparts"):
            eh.estimate(world.model, world.space)
        return
    try:
        result = in_blocks(chunk, world.model, world.space, favourable=1)
    except ModelError as error:
        assert "favourable" in str(error)
        return
    of, found = brute.share(world.space.protected_columns)
    assert (result.samples, result.found) == (of, found)
    assert result.rate == result.low == result.high == found / of
    assert result.exact
    assert result.stop == "exhausted"
    assert "all were tested" in repr(result)
    compare_with_brute_force(result, brute, 1)


@settings(max_examples=25)
@given(worlds(constraints=True), st.integers(0, 1000))
def test_rows_are_brute_force(world: World, seed: int) -> None:
    where = world.space
    every = where.coding.rows(np.arange(where.coding.total))
    people = np.random.default_rng(seed).choice(every[where.valid(every)], 30)
    brute = Brute(world, people)
    if not brute.people or int(world.table.max()) < 1:
        return
    result = eh.estimate(
        world.model, where, eh.populations.Data(about="rows"), data=where.frame(people), favourable=1, seed=seed
    )
    of, found = brute.share(where.protected_columns)
    assert (result.samples, result.found) == (of, found)
    assert result.exact
    assert result.counts["untestable"] == 30 - of
    compare_with_brute_force(result, brute, 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_space_is_enumerated_in_blocks(seed: int) -> None:
    world = random_world(seed, 200_000)
    result = eh.estimate(world.model, world.space)
    unfair = world.table.reshape(-1, world.space.combinations)
    assert result.exact
    assert result.rate == (unfair != unfair[:, :1]).any(axis=1).mean()
    for bounds in ("clopper-pearson", "anytime", "lln"):
        sampled = eh.estimate(world.model, world.space, samples=20_000, interval=bounds, seed=seed, confidence=0.9999)
        assert not sampled.exact
        assert sampled.low <= result.rate <= sampled.high


def test_links_are_judged_one_by_one() -> None:
    where = eh.Space(
        [eh.Nominal("role", ["wife", "husband", "child"]), eh.Integer("age", 0, 4), eh.Nominal("sex", ["F", "M"])],
        protected="sex",
        links={"sex": {"role": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
    )
    result = eh.estimate(lambda f: f["role"] == "wife", where)
    # Wives of either sex become husbands; female husbands become male ones and back.
    unfair = 0
    for role, sex in itertools.product(["wife", "husband", "child"], "FM"):
        other = {"F": "M", "M": "F"}[sex]
        followed = {"F": {"husband": "wife"}, "M": {"wife": "husband"}}[other].get(role, role)
        unfair += 5 * ((role == "wife") != (followed == "wife"))
    assert (result.found, result.samples) == (unfair, 30)


def test_enumeration() -> None:
    assert eh.estimate(refuse, space()).exact
    assert eh.estimate(refuse, space(), samples=10_000).exact
    assert not eh.estimate(refuse, space(), samples=9_999).exact
    assert not eh.estimate(refuse, space(), eh.populations.Uniform(exact=False)).exact
    assert not eh.estimate(refuse, space(), interval="clopper-pearson").exact
    assert eh.estimate(refuse, space(), stop=eh.StopRule(half_width=0.01)).exact
    assert not eh.estimate(refuse, space(), stop=eh.StopRule(half_width=0.02)).exact
    assert in_blocks(20_000, refuse, space(), stop=eh.StopRule(seconds=600)).exact
    large = eh.Space([eh.Integer("age", 0, 10**6), eh.Boolean("sex")], protected="sex")
    assert not eh.estimate(fair, large, samples=10).exact
    with pytest.raises(EstimateError, match="1,000,001"):
        eh.estimate(fair, large, eh.populations.Uniform(exact=True))


def test_a_sample_has_the_interval_of_its_counts() -> None:
    result = eh.estimate(refuse, space(), samples=5_000, favourable="yes", confidence=0.9)
    low, high = clopper_pearson(result.found, 5_000, 0.9)
    assert (result.low, result.high, result.rate) == (low, high, result.found / 5_000)
    assert result.low < 0.2 < result.high
    assert (result.samples, result.rows, result.stop) == (5_000, 10_000, "samples")
    (pair,) = result.comparisons
    assert (pair.verdict, pair.second) == ("favours second", {"sex": "M"})
    assert pair.first_favoured == 0
    assert pair.net == -result.rate
    assert pair.net_low < -0.2 < pair.net_high
    watched = eh.estimate(refuse, space(), samples=5_000, interval="anytime", confidence=0.9)
    assert (watched.low, watched.high) == anytime(result.found, 5_000, 0.9)


@pytest.mark.parametrize("kind", ["uniform", "data", "near"])
def test_same_seed_same_sample_whatever_the_chunk(kind: str) -> None:
    data = None if kind == "uniform" else rows(300)
    one, two, other = (
        in_blocks(chunk, refuse, space(), kind, data=data, samples=250, seed=seed)
        for seed, chunk in ((5, 32_768), (5, 7), (6, 7))
    )
    drop = ("seconds", "points", "rows_checked")
    assert {k: v for k, v in one.to_dict().items() if k not in drop} == {
        k: v for k, v in two.to_dict().items() if k not in drop
    }
    assert one.kept.verdicts().tolist() != other.kept.verdicts().tolist()


def test_the_sample_is_not_that_of_a_search() -> None:
    large = eh.Space([eh.Integer(name, 0, 10**6) for name in "abc"] + [eh.Boolean("s")], protected="s")
    asked = []

    def model(X):
        asked.append(X[:, 0].copy())
        return X[:, 0] > 3

    wrapped = eh.wrap(model, input="array")
    eh.audit(wrapped, large, strategy="themis", budget=eh.Budget(tests=500), seed=0)
    searched = set(np.concatenate(asked).tolist())
    asked.clear()
    eh.estimate(wrapped, large, samples=500, seed=0)
    # The fixed rows that tell models apart are asked by both.
    assert len(searched & set(np.concatenate(asked).tolist())) <= 64 + 5


def test_no_finding_is_a_bound_in_words() -> None:
    result = eh.estimate(fair, space(), eh.populations.Uniform(exact=False))
    assert (result.rate, result.low, result.found) == (0, 0, 0)
    assert result.high == clopper_pearson(0, 100_000)[1]
    assert f"at most {high(result.high)} of " in repr(result)
    assert repr(result).count("0.00") == 1
    # One bound, wherever it is asked for.
    assert [row["high"] for row in result.by_attribute.to_dict("records")] == [result.high]
    assert [c.high for c in result.comparisons] == [result.high]
    assert Limit(share=result.high).of_estimate(result) is Outcome.PASS
    assert Limit(share=0.999 * result.high).of_estimate(result) is Outcome.UNDECIDED
    assert result.verdict == "none found"
    exact = eh.estimate(fair, space())
    assert "none of all 20,000 valid individuals is treated differently" in repr(exact)


def test_half_width_stops_when_it_is_reached() -> None:
    result = eh.estimate(refuse, space(), eh.populations.Uniform(exact=False), stop=eh.StopRule(half_width=0.02))
    assert (result.stop, result.interval) == ("half_width", "anytime")
    assert (result.high - result.low) / 2 <= 0.02
    before = result.points[-2]
    low, high = anytime(before[1], before[0])
    assert (high - low) / 2 > 0.02
    capped = eh.estimate(
        refuse, space(), eh.populations.Uniform(exact=False), stop=eh.StopRule(half_width=0.001), samples=3_000
    )
    assert (capped.stop, capped.samples) == ("samples", 3_000)


def test_seconds_that_are_too_short_are_an_error() -> None:
    with pytest.raises(EstimateError, match="seconds is too short.*1e-09"):
        eh.estimate(refuse, space(), eh.populations.Uniform(exact=False), stop=eh.StopRule(seconds=1e-9))


def test_watching_and_stopping() -> None:
    seen = []

    def watch(reading):
        seen.append(reading)
        return reading.samples > 5_000

    result = eh.estimate(refuse, space(), eh.populations.Uniform(exact=False), stop=watch)
    assert result.stop == "stopped"
    assert result.interval == "anytime"
    assert [r.samples for r in seen] == [1024, 3072, 7168]
    assert (seen[-1].low, seen[-1].high) == (result.low, result.high)


def test_ctrl_c_keeps_answers() -> None:
    calls = itertools.count()

    def model(frame):
        if next(calls) > 150:
            raise KeyboardInterrupt
        return refuse(frame)

    result = in_blocks(2_000, model, space(), eh.populations.Uniform(exact=False), samples=100_000)
    assert result.stop == "interrupted"
    assert result.interval == "anytime"
    assert 0 < result.samples < 100_000
    with pytest.raises(KeyboardInterrupt):
        eh.estimate(model, space())


def test_a_model_that_fails_leaves_a_partial_estimate() -> None:
    calls = itertools.count()

    def model(frame):
        if next(calls) > 150:
            raise RuntimeError("gone")
        return refuse(frame)

    with pytest.raises(ModelError, match="gone") as caught:
        in_blocks(2_000, model, space(), eh.populations.Uniform(exact=False))
    assert caught.value.partial.samples > 0
    assert caught.value.partial.interval == "anytime"
    assert "had been judged" in caught.value.__notes__[0]


def test_lln_is_the_papers() -> None:
    result = eh.estimate(refuse, space(), samples=4_000, interval=eh.Interval("lln", experiments=40))
    counts = result.kept.verdicts().reshape(40, 100).mean(axis=1)
    assert result.rate == pytest.approx(counts.mean())
    assert result.high - result.rate == pytest.approx(1.959964 * counts.std(ddof=1) / np.sqrt(40))
    none = eh.estimate(fair, space(), samples=4_000, interval="lln")
    assert (none.low, none.high) == (0, clopper_pearson(0, 4_000)[1])
    assert none.interval == "Clopper-Pearson"


def test_data_are_what_is_measured_if_they_are_given() -> None:
    space = eh.Space([eh.Integer("age", 0, 9), eh.Boolean("sex")], protected="sex")
    rows = pd.DataFrame({"age": [1, 2, 9], "sex": [False, True, True]})
    unfair = eh.wrap(lambda X: X["sex"] & (X["age"] == 9), name="unfair")
    assert eh.estimate(unfair, space, data=rows).found == 1
    assert eh.estimate(unfair, space).rate == 0.1


def test_data_has_two_meanings() -> None:
    data = rows(400)
    share = np.mean(np.asarray(data["age"]) < 20)
    people = eh.estimate(refuse, space(), "data", data=data)
    assert people.rate == share
    assert (people.low, people.high) == clopper_pearson(round(400 * share), 400)
    assert people.about == "the population"
    exact = eh.estimate(refuse, space(), eh.populations.Data(about="rows"), data=data)
    assert exact.low == exact.high == exact.rate == share
    part = eh.estimate(refuse, space(), eh.populations.Data(about="rows"), data=data, samples=100)
    assert (part.low, part.high) == hypergeometric(part.found, 100, 400)
    assert part.low <= share <= part.high
    until = eh.estimate(
        refuse, space(), eh.populations.Data(about="rows"), data=data, stop=eh.StopRule(half_width=0.01)
    )
    assert until.low <= share <= until.high
    assert until.stop in ("half_width", "exhausted")


def test_weights_count() -> None:
    data = rows(400)
    weights = np.asarray(data["w"])
    young = np.asarray(data["age"]) < 20
    share = weights[young].sum() / weights.sum()
    result = eh.estimate(refuse, space(), eh.populations.Data(weights="w"), data=data, favourable="yes")
    assert result.rate == pytest.approx(share)
    assert result.low < share < result.high
    assert result.comparisons[0].rate == pytest.approx(share)
    assert result.comparisons[0].pairs == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), abs=0.01)
    exact = eh.estimate(refuse, space(), eh.populations.Data(weights=weights, about="rows"), data=data)
    assert exact.exact
    assert exact.rate == pytest.approx(share)
    drawn = eh.estimate(refuse, space(), eh.populations.Data(weights="w"), data=data, stop=eh.StopRule(half_width=0.03))
    assert drawn.low <= share <= drawn.high
    equal = eh.estimate(refuse, space(), eh.populations.Data(weights=np.full(400, 7.0)), data=data)
    plain = eh.estimate(refuse, space(), "data", data=data)
    assert (equal.low, equal.high) == pytest.approx((plain.low, plain.high))
    # A row that counts nothing is as good as absent.
    absent = np.where(young, 0.0, 1.0)
    assert eh.estimate(refuse, space(), eh.populations.Data(weights=absent), data=data).found == 0
    with pytest.raises(DataError, match="about"):
        eh.estimate(refuse, space(), eh.populations.Data(weights="w", about="population"), data=data, samples=10)


def test_near_is_about_individuals_near_the_rows() -> None:
    data = {"age": [0] * 5, "hours": [50] * 5, "sex": ["F"] * 5}
    assert eh.estimate(refuse, space(), "near", data=data, samples=500).rate == 1
    edge = {"age": [20], "hours": [50], "sex": ["M"]}
    assert eh.estimate(refuse, space(), "data", data=edge).found == 0
    near = eh.estimate(refuse, space(), eh.populations.Near(steps=1), data=edge, samples=4_000)
    # One step in four makes them younger.
    assert near.low < 0.25 < near.high


def test_tiny_data_is_insufficient_evidence() -> None:
    data = {"age": [50, 60], "hours": [1, 2], "sex": ["M", "M"]}
    result = eh.estimate(refuse, space(), "data", data=data, favourable="yes")
    assert (result.rate, result.samples) == (0, 2)
    assert result.high > 0.8
    assert result.verdict == "insufficient evidence"
    assert result.comparisons[0].verdict == "insufficient evidence"
    # No woman is in the data; the men's counterparts are asked about all the same.
    young = eh.estimate(refuse, space(), "data", data={"age": [1] * 30, "hours": [1] * 30, "sex": ["M"] * 30},
                        favourable="yes")  # fmt: skip
    assert young.rate == 1
    assert young.comparisons[0].verdict == "favours second"


def test_severity_is_the_distribution_of_gaps() -> None:
    def probabilities(frame):
        p = 1 / (1 + np.exp(-(frame["age"] / 10 - 5 - 0.7 * (frame["sex"] == "F"))))
        return np.column_stack([1 - p, p])

    result = eh.estimate(probabilities, space(), eh.populations.Uniform(exact=False), favourable=1, samples=3_000)
    ages = np.arange(100)
    p = [1 / (1 + np.exp(-(ages / 10 - 5 - 0.7 * female))) for female in (0, 1)]
    truth = p[0] - p[1]
    assert result.severity["everyone"]["largest"] == pytest.approx(truth.max())
    assert result.severity["everyone"]["mean"] == pytest.approx(truth.mean(), abs=0.01)
    assert result.comparisons[0].gaps["advantage"] == pytest.approx(-truth.mean(), abs=0.01)
    assert result.severity["treated differently"]["median"] > result.severity["everyone"]["median"]
    assert eh.estimate(refuse, space(), eh.populations.Uniform(exact=False), samples=500).severity is None
    gap = eh.estimate(probabilities, space(), criterion=eh.Gap(0.1), favourable=1)
    assert gap.rate == np.mean(truth > 0.1)
    assert gap.comparisons[0].verdict == "favours second"


def test_numbers_have_a_better_end() -> None:
    def price(frame):
        return frame["age"] + 5.0 * (frame["sex"] == "F")

    for favourable, verdict in (("higher", "favours first"), ("lower", "favours second"), (None, "different")):
        result = eh.estimate(price, space(), criterion=eh.Gap(2.0), favourable=favourable)
        assert (result.rate, result.comparisons[0].verdict) == (1, verdict)


class Flaky:
    """Answers as another model does, but for some of the times."""

    def __init__(self, model, share: float, seed: int = 0) -> None:
        self.model, self.share, self.rng = model, share, np.random.default_rng(seed)

    def __call__(self, frame):
        said = np.asarray(self.model(frame) == "no")
        return np.where(said ^ (self.rng.random(len(frame)) < self.share), "no", "yes")


@pytest.mark.parametrize("share", [0.0005, 0.05, 0.2])
@pytest.mark.parametrize("model", [refuse, fair])
def test_noise_is_taken_out(share: float, model) -> None:
    truth = 0.2 if model is refuse else 0.0
    result = eh.estimate(Flaky(model, share), space(), samples=4_000, favourable="yes")
    assert result.low <= truth <= result.high
    assert abs(result.rate - truth) < 0.03
    assert result.verdict == ("treated differently" if truth else "none found")
    assert result.noise == pytest.approx(2 * share * (1 - share), rel=0.2, abs=0.002)
    assert result.repeats > 1
    assert result.misjudged > 0
    assert "most frequent answer" in repr(result)


def test_pure_noise_and_repeats_by_hand() -> None:
    with pytest.raises(FlakyModel, match="too much noise") as caught:
        eh.estimate(Flaky(fair, 0.5), space(), samples=1_000)
    assert caught.value.noise == pytest.approx(0.5, abs=0.05)
    with pytest.raises(FlakyModel, match=r"repeats=1"):
        eh.estimate(Flaky(fair, 0.1), space(), samples=1_000, interval=eh.Interval(repeats=1))
    assert eh.estimate(Flaky(refuse, 0.1), space(), samples=1_000, interval=eh.Interval(repeats=20)).repeats == 20
    steady = eh.estimate(refuse, space(), samples=1_000, interval=eh.Interval(repeats=4))
    assert (steady.noise, steady.repeats, steady.rows) == (0, 4, 8_000)


def test_answers_that_depend_on_the_batch_are_an_error() -> None:
    def ranks(frame):
        return (frame["sex"] == "F") & (frame["age"] > frame["age"].min() + 50)

    with pytest.raises(FlakyModel, match="other rows in the batch"):
        eh.estimate(ranks, space(), eh.populations.Uniform(exact=False), samples=3_000)


def test_noisy_scores_are_an_error() -> None:
    rng = np.random.default_rng(0)

    def model(frame):
        return frame["age"] / 100 + rng.normal(0, 0.1, len(frame))

    with pytest.raises(FlakyModel, match="queried twice"):
        eh.estimate(model, space(), criterion=eh.Gap(0.05))


def test_sampled_counterparts_are_mentioned() -> None:
    where = eh.Space(
        [eh.Integer("hours", 0, 9), eh.Integer("age", 0, 99), eh.Boolean("sex")],
        protected=["age", "sex"],
        max_family_size=10,
    )
    result = eh.estimate(lambda f: f["age"] == 17, where, samples=1_000)
    assert result.sampled
    assert not result.comparisons
    assert "may be higher" in repr(result)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"population": "everyone"}, "'uniform', 'data', 'near'"),
        ({"interval": "wald"}, "clopper-pearson"),
        ({"confidence": 95}, "confidence"),
        ({"confidence": 0.5}, "confidence"),
        ({"samples": 0}, "samples"),
        ({"samples": 2.5}, "samples"),
        ({"half_width": 0.7}, "half_width"),
        ({"seconds": -1}, "seconds"),
        ({"tolerance": 1}, "tolerance"),
        ({"repeats": 0}, "repeats"),
        ({"steps": 0}, "steps"),
        ({"half_width": 0.1, "interval": "clopper-pearson"}, "half_width"),
        ({"interval": "lln", "samples": 1001}, "samples=1200"),
        ({"interval": "lln", "seconds": 1.0}, "lln"),
        ({"interval": "lln", "population": "data"}, "lln"),
        ({"about": "rows"}, "about"),
        ({"exact": True, "population": "data"}, "exact"),
        ({"population": "data"}, "data="),
        ({"population": "near"}, "data="),
        ({"weights": [1.0]}, "weights"),
        ({"seed": -1}, "seed"),
        ({"when": 3}, "when"),
        ({"criterion": 3}, "criterion"),
        ({"favourable": "perhaps"}, "favourable must be .*'perhaps'"),
        ({"criterion": eh.Gap(0.1)}, "scores"),
    ],
)
def test_wrong_arguments(kwargs: dict[str, object], words: str) -> None:
    with pytest.raises((EstimateError, BudgetError, DataError, ModelError, eh.errors.StrategyError), match=words):
        with_settings(refuse, space(), **kwargs)  # type: ignore[arg-type]
    with pytest.raises(EstimateError, match="stop must be an eh.StopRule"):
        eh.estimate(refuse, space(), stop=3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="data is given twice"):
        eh.estimate(refuse, space(), eh.populations.Near({"age": [1]}), data={"age": [1]})


def test_data_that_cannot_be_judged() -> None:
    with pytest.raises(DataError, match="lacks"):
        eh.estimate(refuse, space(), "data", data={"age": [1]})
    with pytest.raises(DataError, match="data has 2 rows, none of them in the space"):
        eh.estimate(refuse, space(), "data", data={"age": [1, 2], "hours": [1, 2], "sex": ["X", "Y"]})
    lonely = space(constraints=["sex == 'F' or age < 10"])
    with pytest.raises(DataError, match="no valid counterpart"):
        eh.estimate(refuse, lonely, "data", data={"age": [50], "hours": [1], "sex": ["F"]})
    alone = eh.Space(
        [eh.Integer("age", 0, 10**7), eh.Nominal("sex", ["F", "M"])], protected="sex", constraints=["sex == 'F'"]
    )
    with pytest.raises(SpaceError, match="nothing can be compared"):
        eh.estimate(fair, alone, samples=10)


def test_results_are_plain_and_readable() -> None:
    def model(frame):
        p = np.where((frame["age"] < 20) & (frame["sex"] == "F"), 0.2, 0.8)
        return np.column_stack([1 - p, p])

    result = eh.estimate(model, space(), favourable=1, samples=2_000)
    values = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert values["rate"] == result.rate
    assert values["comparisons"][0]["second"] == {"sex": "M"}
    assert "sex M favoured over sex F" in repr(result)
    assert result.by_pair["verdict"].tolist() == ["favours second"]
    assert result.by_attribute["attributes"].tolist() == ["sex"]
    assert len(result.by_combination) == 0
    text = json.loads(json.dumps(eh.estimate(fair, space()).to_dict(), allow_nan=False))
    assert text["sentence"].startswith("none of all")


@pytest.mark.parametrize("kind", ["people", "texts"])
def test_an_estimate_is_cancelled_as_by_ctrl_c(kind: str) -> None:
    class After:
        looks = 130 if kind == "people" else 60

        def is_set(self) -> bool:
            self.looks -= 1
            return self.looks < 0

    stop = threading.Event()
    stop.set()
    if kind == "people":
        world = random_world(3, 20_000)
        given: dict[str, Any] = {"model": world.model, "space": world.space, "samples": 5000, "chunk": 512}
    else:
        texts = ["A Sikh came.", "A Jew went."] * 200
        model = eh.wrap(lambda texts: ["Sikh came" in text for text in texts], input="text")
        given = {"model": model, "space": eh.TextSpace("religion"), "population": "data", "data": texts, "chunk": 64}
    ended = with_settings(**given, exact=False if kind == "people" else None, cancel=After())
    assert ended.stop == "interrupted"
    assert 0 < ended.samples < 5000
    with pytest.raises(eh.errors.EstimateError, match="cancelled"):
        with_settings(**given, exact=False if kind == "people" else None, cancel=stop)
