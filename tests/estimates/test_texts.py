"""Estimates of texts, against a plain count of small sets of texts."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import evenhand as eh
from evenhand.errors import BudgetError, DataError, EstimateError, FlakyModel, ModelError, SpaceError, StrategyError
from evenhand.estimates.result import ALL_ROWS, Limit, Outcome
from evenhand.repairs.data import judged
from evenhand.spaces.text.tokens import split
from tests.helpers import in_blocks, with_settings
from tests.text_worlds import TEAMS, TextWorld, family, team_space, team_texts, word_world

SPACE = team_space()
TEXTS = team_texts(5, 100)


def world(share: int = 30, salt: int = 0) -> TextWorld:
    return TextWorld(SPACE, [], salt=salt, share=share)


def measure(model: Any, texts: Any, space: eh.TextSpace = SPACE, about: Any = None, **settings: Any) -> eh.Estimate:
    return eh.estimate(model, space, eh.populations.Data(texts, about=about), **settings)


def measure_in(chunk: int, model: Any, texts: Any, about: Any = None, **settings: Any) -> eh.Estimate:
    return in_blocks(chunk, model, SPACE, eh.populations.Data(texts, about=about), **settings)


def unfair(model: TextWorld, text: str) -> bool:
    return len({model.label(one) for one in family(text)}) > 1


def by_hand(model: TextWorld, texts: list[str]) -> Counter[tuple[str, str]]:
    """What is decided with each team in each place where a team stands."""
    counts: Counter[tuple[str, str]] = Counter()
    for text in texts:
        tokens = split(text)
        for at in [i for i, token in enumerate(tokens) if token in TEAMS]:
            for team in TEAMS:
                counts[team, model.label("".join([*tokens[:at], team, *tokens[at + 1 :]]))] += 1
    return counts


@given(seed=st.integers(0, 999), terms=st.integers(1, 3), share=st.integers(0, 60), twice=st.integers(0, 5))
def test_counts_match_enumeration(seed: int, terms: int, share: int, twice: int) -> None:
    texts = team_texts(seed, 20, terms=terms)
    texts += texts[:twice]
    model = world(share, seed)
    said = [unfair(model, text) for text in texts]
    found = measure(model, ["ba da", None, *texts, ""], about="rows")
    assert (found.samples, found.found, found.rate) == (len(texts), sum(said), sum(said) / len(texts))
    assert found.exact
    assert found.low == found.high == found.rate
    assert found.counts == {"rows": len(texts) + 3, "clipped": 0, "dropped": 1, "untestable": 2}
    assert found.rows == sum(len(family(text)) for text in texts)
    assert found.rows_checked == model.rows - found.rows > 0
    counts = by_hand(model, texts)
    assert [term.term for term in found.terms] == TEAMS
    for term in found.terms:
        every = counts[term.term, "bad"] + counts[term.term, "good"]
        assert term.texts == every
        assert {value: round(share * every) for value, share in term.shares} == {
            value: counts[term.term, value] for value, _ in term.shares
        }


@pytest.mark.parametrize(("chunk", "seed"), [(2, 0), (7, 1), (50, 2)])
def test_blocks_make_no_difference_and_fit_one_call(chunk: int, seed: int) -> None:
    sizes: list[int] = []
    model = world()

    def answer(texts: list[str]) -> Any:
        sizes.append(len(texts))
        return model(texts)

    texts = TEXTS[:30]
    one = measure_in(chunk, eh.wrap(answer, input="text"), texts, seed=seed)
    assert max(sizes) <= max(chunk, 3)
    every = measure(model, texts, seed=seed)
    assert (one.rate, one.low, one.high, one.terms) == (every.rate, every.low, every.high, every.terms)
    assert one.kept.verdicts().tolist() == every.kept.verdicts().tolist()


def test_terms_of_several_lexicons_and_all_occurrences_together() -> None:
    def model(texts: list[str]) -> list[str]:
        return ["yes" if text.count("Sikh") == 2 or "She" in text else "no" for text in texts]

    space = eh.TextSpace(["religion", "gender"], occurrences="together")
    found = measure(model, ["A Jew is a Jew.", "He met her Sikh."], space, about="rows")
    frame = found.by_term.set_index(["attribute", "term"])
    assert frame.loc[("religion", "Sikh"), "texts"] == 2
    assert frame.loc[("religion", "Sikh"), "decided yes"] == 0.5
    assert frame.loc[("religion", "Jewish"), "decided yes"] == 0
    assert set(frame.index.get_level_values("attribute")) == {"religion", "gender"}
    assert list(frame.columns) == ["texts", "decided no", "decided yes"]


def test_some_texts_are_a_seeded_choice() -> None:
    model, chosen = world(), []
    for seed in (0, 0, 1):
        asked: list[str] = []

        def answer(texts: list[str], asked: list[str] = asked) -> Any:
            asked.extend(texts)
            return model(texts)

        found = measure(eh.wrap(answer, input="text"), TEXTS, samples=40, seed=seed)
        some = {text for text in TEXTS if text in asked and all(one in asked for one in family(text))}
        assert (found.samples, found.found, found.stop) == (40, sum(unfair(model, t) for t in some), "samples")
        chosen.append(some)
    assert chosen[0] == chosen[1] != chosen[2]
    assert measure(model, TEXTS, samples=10**6).stop == "exhausted"


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say() -> None:
    model, rng, texts, times = world(15), np.random.default_rng(0), TEXTS[:50], 80
    truth = np.mean([unfair(model, text) for text in texts])
    rows = [measure(model, texts, samples=20, seed=seed, about="rows") for seed in range(times)]
    drawn = [measure(model, rng.choice(texts, 30).tolist(), confidence=0.9) for _ in range(times)]
    assert {one.interval for one in rows} == {"hypergeometric"}
    assert {one.interval for one in drawn} == {"Clopper-Pearson"}
    for found, confidence in ((rows, 0.95), (drawn, 0.9)):
        held = sum(one.low <= truth <= one.high for one in found)
        assert held >= stats.binom.ppf(1e-4, times, confidence)
    assert len({one.found for one in rows}) > 3


def test_a_sample_of_counterparts_is_stated() -> None:
    found = measure(world(), TEXTS, team_space(max_family_size=2), about="rows")
    assert found.sampled
    assert not found.exact
    assert found.interval == ALL_ROWS
    assert "some were compared with a sample of their counterparts only" in found.sentence
    assert found.found <= sum(unfair(world(), text) for text in TEXTS)
    assert found.by_term.empty
    assert measure(world(0), TEXTS, team_space(max_family_size=2)).verdict == "insufficient evidence"


def test_nothing_found_is_a_bound() -> None:
    found = measure(world(0), TEXTS)
    assert found.sentence.startswith("none of 100 tested is treated differently: at most 3.63%")
    assert "% of texts like those given with a protected term" in found.sentence
    assert (found.low, found.verdict) == (0, "insufficient evidence")
    assert measure(world(0), TEXTS, interval=eh.Interval(tolerance=0.05)).verdict == "none found"
    assert Limit.of("5%").of_estimate(found) is Outcome.PASS
    assert measure(world(0), TEXTS, about="rows").sentence.startswith("none of the data's 100 texts")


def test_a_model_that_takes_a_finding_back_is_flaky() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(FlakyModel, match="queried twice"):
        measure(lambda texts: ["bad" if rng.random() < 0.5 else "good" for _ in texts], TEXTS)
    with pytest.raises(FlakyModel, match="position of a row in the batch"):
        measure(lambda texts: ["bad" if i % 7 == 0 else "good" for i, _ in enumerate(texts)], TEXTS)
    with pytest.raises(FlakyModel):
        measure(lambda texts: rng.random((len(texts), 1)), TEXTS, criterion=eh.Gap(0.5))


def test_a_later_error_keeps_known_values() -> None:
    model, calls = world(), []

    def dies(texts: list[str]) -> Any:
        calls.append(texts)
        if len(calls) > 26:
            raise ValueError("out of memory")
        return model(texts)

    with pytest.raises(ModelError) as caught:
        measure_in(30, eh.wrap(dies, input="text"), TEXTS)
    partial = caught.value.partial
    assert isinstance(partial, eh.Estimate)
    assert 0 < partial.samples < 100
    assert partial.interval == "anytime"
    with pytest.raises(ModelError) as caught:
        measure(eh.wrap(dies, input="text"), TEXTS)
    assert caught.value.partial is None


@pytest.mark.parametrize(("about", "name"), [("population", "anytime"), ("rows", "anytime, rows asked once")])
def test_an_interrupted_estimate_is_valid(about: Any, name: str) -> None:
    model = world()
    model.dies = 26
    found = measure_in(30, model.model, TEXTS, about=about)
    assert (found.stop, found.interval) == ("interrupted", name)
    assert 0 < found.samples < 100
    truth = np.mean([unfair(model, text) for text in TEXTS])
    assert found.low <= truth <= found.high
    model.dies = 0
    with pytest.raises(KeyboardInterrupt):
        measure(model.model, TEXTS)


def test_scores_words_values_and_pictures() -> None:
    words = word_world(1)
    by_gap = measure(words.model, words.data, words.space, criterion=eh.Gap(0.4))
    assert "are treated differently for some pair of words of team" in by_gap.sentence
    plain = measure(words.model, words.data, words.space)
    for found in (by_gap, plain):
        assert found.gaps is not None
        assert len(found.gaps) == found.samples == 80
        assert found.severity is not None
    scores = {text: words.model.scores([text])[0] for one in words.data for text in family(one)}
    gaps = [np.ptp([scores[text] for text in family(one)], axis=0).max() for one in words.data]
    assert np.sort(plain.gaps) == pytest.approx(np.sort(gaps))  # type: ignore[type-var]
    assert by_gap.found == sum(gap > 0.4 for gap in gaps)
    values = json.loads(json.dumps(by_gap.to_dict()))
    assert [term["term"] for term in values["by_term"]] == TEAMS
    assert values["by_term"][0]["shares"].keys() == {"bad", "good"}
    for plot in (plain.plot_convergence, plain.plot_intervals, plain.plot_gaps, measure(world(), TEXTS).plot_gaps):
        assert plot().axes
    assert repr(plain) == f"Estimate: {plain.sentence}"
    with pytest.raises(SpaceError, match="a space of texts"):
        eh.remaining(plain)


def test_numbers_are_no_decisions_of_terms() -> None:
    found = measure(lambda texts: [len(text) / 7 for text in texts], TEXTS, criterion=eh.Gap(0.1))
    scored = ["mean", "difference", "difference_low", "difference_high"]
    assert list(found.by_term.columns) == ["attribute", "term", "texts", *scored]
    assert found.found


def test_a_column_of_a_frame_and_a_series() -> None:
    model = world()
    space = team_space(column="said")
    one = measure(model, pd.DataFrame({"id": range(100), "said": TEXTS}), space)
    assert one.rate == measure(model, pd.Series(TEXTS)).rate == measure(model, TEXTS).rate


def test_judged_and_the_estimate_agree() -> None:
    model = eh.wrap(world(), input="text")
    positions, verdicts = judged(model, SPACE, ["ba", *TEXTS], eh.Flip(), 0)
    assert positions.tolist() == list(range(1, 101))
    assert measure(model, TEXTS).found == verdicts.sum()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"population": "uniform"}, "population is for attributes.* texts.*data="),
        ({"population": "near"}, "population is for attributes.*'near'"),
        ({"population": 3}, "population must be .*3"),
        ({"weights": [1.0] * 100}, "weights is for attributes"),
        ({"favourable": "good"}, "favourable is for attributes"),
        ({"exact": True}, "exact is for"),
        ({"interval": "lln"}, "lln"),
        ({"about": "people"}, "about must be one of"),
        ({"confidence": 1}, "confidence must be"),
        ({"tolerance": -1}, "tolerance must be"),
    ],
)  # fmt: skip
def test_arguments_for_rows_are_refused_for_texts(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(EstimateError, match=words):
        with_settings(world(), SPACE, **{"population": "data", "data": TEXTS, **settings})


def test_other_arguments_are_checked_as_elsewhere() -> None:
    assert measure(world(), TEXTS, interval="clopper-pearson").interval == "Clopper-Pearson"
    assert eh.estimate(world(), SPACE, data=TEXTS).rate == measure(world(), TEXTS).rate
    with pytest.raises(BudgetError, match="samples"):
        measure(world(), TEXTS, samples=0)
    with pytest.raises(StrategyError, match="seed"):
        measure(world(), TEXTS, seed=-1)
    for nothing, problem in ((None, "data must have texts"), ([], "data must be texts")):
        with pytest.raises(DataError, match=f"^{problem}") as caught:
            measure(world(), nothing)
        assert caught.value.parameter == "data"
        assert "data=[...]" in str(caught.value.remedy)
    with pytest.raises(DataError, match="none of 1 texts can be tested"):
        measure(world(), ["ba da"])


def test_stop_rules_and_noise_are_those_of_every_survey() -> None:
    model, texts, readings = world(), team_texts(9, 3000), list[Any]()
    narrow = measure(model, texts, stop=eh.StopRule(half_width=0.1))
    assert narrow.stop == "half_width"
    assert narrow.high - narrow.low <= 0.2
    assert narrow.samples < 3000
    assert measure_in(4, model, texts, stop=eh.StopRule(seconds=1e-9)).stop == "seconds"
    stopped = measure_in(1000, model, texts, stop=lambda one: bool(readings.append(one) or len(readings) > 1))
    assert stopped.stop == "stopped"
    assert readings[-1].samples < 3000
    assert measure(model, TEXTS, interval="anytime").interval == "anytime"
    rng = np.random.default_rng(0)

    def noisy(some: list[str]) -> Any:
        said = np.array(model(some))
        return np.where(rng.random(len(said)) < 0.02, np.where(said == "bad", "good", "bad"), said)

    found, steady = measure(noisy, TEXTS, about="rows"), measure(model, TEXTS, about="rows")
    assert found.repeats > 1
    assert found.noise > 0
    assert found.low <= steady.rate <= found.high


SCORES = {"Muslim": 0.4, "Jewish": 0.1}


def scored(texts: list[str]) -> Any:
    """Scores by the religion that is named, and by how long the text is."""
    words = {"Muslim": 0.4, "Jew": 0.1, "Jewish": 0.1}
    return np.array([0.1 + max([words.get(w, 0.0) for w in split(t)]) + 0.001 * t.count("x") for t in texts])


@pytest.mark.parametrize("wide", [False, True])
def test_terms_are_compared_by_their_scores(wide: bool) -> None:
    texts = [f"A {who} came{' x' * n}." for who in ("Muslim", "Sikh") for n in range(40)]
    space = eh.TextSpace("religion")

    def model(some: list[str]) -> Any:
        scores = scored(some)
        return np.column_stack([1 - scores, scores]) if wide else scores

    found = measure(model, texts, space, criterion=eh.Gap(0.2))
    frame = found.by_term.set_index("term")
    count = len(frame)
    for term in frame.index:
        extra = SCORES.get(term, 0.0)
        rest = (sum(SCORES.values()) - extra) / (count - 1)
        row = frame.loc[term]
        assert row["texts"] == 80
        assert row["mean"] == pytest.approx(0.1 + extra + 0.001 * np.mean([t.count("x") for t in texts]))
        assert row["difference"] == pytest.approx(extra - rest)
        assert row["difference_low"] <= extra - rest + 1e-12
        assert extra - rest - 1e-12 <= row["difference_high"]
    assert ("decided 1" in frame.columns) == wide
    assert found.score_of == ((1,) if wide else ())
    (first, *_) = repr(found).splitlines()[1:]
    assert "with “Muslim”" in first
    assert "higher than with the other terms of religion" in first
    exact = measure(model, texts, space, criterion=eh.Gap(0.2), about="rows").by_term
    assert (exact["difference_low"] == exact["difference"]).all()
    assert json.loads(json.dumps(found.to_dict()))["by_term"][0]["difference"] is not None


def test_intervals_of_terms_hold_at_once() -> None:
    space, rng, held = eh.TextSpace("religion"), np.random.default_rng(0), 0

    def model(texts: list[str]) -> Any:
        rare = np.array(["Sikh" in t and t.endswith("late.") for t in texts])
        return 0.5 + 0.3 * rare

    for _ in range(40):
        texts = [f"A Jew was {how}." for how in rng.choice(["late", "kind"], 60, p=[0.2, 0.8])]
        found = {term.term: term for term in measure(model, texts, space, criterion=eh.Gap(0.2)).terms}
        sikh, jew, others = found["Sikh"], found["Jewish"], len(found) - 1
        if sikh.difference_low is None or jew.difference_low is None:
            held += 1
            continue
        assert sikh.difference_high is not None
        assert jew.difference_high is not None
        both = sikh.difference_low <= 0.06 <= sikh.difference_high
        held += both and jew.difference_low <= -0.06 / others <= jew.difference_high
    assert held >= stats.binom.ppf(1e-3, 40, 0.95)


def test_more_than_two_scores_have_no_mean() -> None:
    def model(texts: list[str]) -> Any:
        sikh = np.array(["Sikh" in text for text in texts])
        return np.column_stack([0.2 + 0.3 * sikh, 0.3 * np.ones(len(texts)), 0.5 - 0.3 * sikh])

    found = measure(model, ["A Sikh came.", "A Jew came."], eh.TextSpace("religion"), criterion=eh.Gap(0.2))
    assert {term.mean for term in found.terms} == {None}
    assert "mean" not in found.by_term
