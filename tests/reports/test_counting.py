"""A report describes what was counted: differences of scores are not different outcomes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.criteria import UnknownCriterion
from evenhand.reports.render import render
from evenhand.reports.report import gathered
from evenhand.reports.wording import Counted
from tests.reports.page import Page

SPACE = eh.Space([eh.Integer("age", 18, 80), eh.Nominal("sex", ["F", "M"])], protected="sex")
PEOPLE = pd.DataFrame({"age": list(range(20, 60)) * 2, "sex": ["F", "M"] * 40})


class Scorer:
    """Scores men 0.1 higher, which changes the decision of few."""

    classes_ = np.array(["bad", "good"])
    feature_names_in_ = np.array(["age", "sex"])

    def predict_proba(self, frame: pd.DataFrame) -> Any:
        good = frame["age"].to_numpy() / 100 + 0.1 * (frame["sex"] == "M").to_numpy()
        return np.column_stack([1 - good, good])

    def predict(self, frame: pd.DataFrame) -> Any:
        return self.classes_[(self.predict_proba(frame)[:, 1] > 0.5).astype(int)]


def score(frame: pd.DataFrame) -> Any:
    return Scorer().predict_proba(frame)[:, 1]


def text_of(model: Any, criterion: Any, **given: Any) -> str:
    run = eh.audit(model, SPACE, "themis", eh.Budget(tests=60), criterion=criterion)
    page = Page(render(gathered(run, data=PEOPLE, samples=1_000, **given)))
    page.check()
    return page.text


@pytest.mark.parametrize("given", [{"favourable": "good"}, {}])
def test_a_gap_of_scores_is_not_called_another_outcome(given: dict[str, Any]) -> None:
    text = text_of(Scorer(), eh.Gap(0.05), **given)
    # Everybody's scores are 0.1 apart; outcomes differ of a few only.
    assert "100%" in text
    assert "Changing only sex changes this model's score by more than 0.05 for" in text
    assert "Scores more than 0.05 apart First ahead Second ahead" in text
    assert "the model gives scores more than 0.05 apart" in text
    for false in ("Outcome differs", "gets it", "decides differently", "decided differently", "gets “good” more"):
        assert false not in text
    assert ("sex M is ahead for “good”" in text) == (not given)
    assert ("behind" in text[:800]) == bool(given)


def test_other_outcomes_are_called_so() -> None:
    text = text_of(Scorer(), eh.Flip(), favourable="good")
    assert "Outcome differs Only the first gets it Only the second gets it" in text
    assert "The favourable outcome is “good”" in text
    assert "Counts as different a different outcome" in text


@pytest.mark.parametrize(("favourable", "wanted"), [(True, "a higher score"), (0, "a lower score")])
def test_of_scores_alone_people_want_no_decision(favourable: Any, wanted: str) -> None:
    text = text_of(score, eh.Gap(0.05), favourable=favourable)
    assert f"The favourable outcome is {wanted}" in text
    assert "“" not in re.sub(r"What this does.*", "", text)
    assert f"sex {'M' if favourable else 'F'} is favoured" in text


@pytest.mark.parametrize(
    ("criterion", "heading"),
    [
        (eh.Flip(), "Outcome differs"),
        (eh.Gap(0.2), "Scores more than 0.2 apart"),
        (eh.Flip() & eh.Gap(0.2), "Outcome differs, scores more than 0.2 apart"),
        (eh.Flip() | eh.Gap(0.2), "Outcome differs, or scores more than 0.2 apart"),
        (UnknownCriterion("Mine", {}), "Treated differently"),
    ],
)
def test_every_criterion_has_words(criterion: Any, heading: str) -> None:
    assert Counted.by(criterion).heading == heading


def test_an_exhausted_space_is_not_called_a_sample() -> None:
    small = eh.Space([eh.Integer("age", 18, 28), eh.Nominal("sex", ["F", "M"])], protected="sex")
    run = eh.audit(lambda f: (f["age"] < 20) & (f["sex"] == "F"), small, "themis")
    text = Page(render(gathered(run))).text
    assert "in 11 tests, which is the whole space" in text
    assert "on all valid individuals" in text
    assert "there is nothing more to find" in text
    text = text[: text.index("This call, with the same model")]
    for false in (
        "uniform random individuals",
        "this measures the search",
        "not a rate",
        "still rising",
        "legal",
        "lambda",
        "Flip",
        "batch",
    ):
        assert false not in text, false
