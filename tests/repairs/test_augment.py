from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import StrategyError

from .people import CODED, QUICK, SPACE, Coded, by_pay, people, repair


def test_the_median_of_several_repeats_is_returned() -> None:
    X, y = people(200)
    seen: list[int] = []

    def train(X: Any, y: Any) -> Any:
        seen.append(len(X))
        return eh.wrap(Coded(random_state=0).fit(X, y), input="frame")

    method = eh.repairs.Augment(share=0.1, repeats=3, voters=CODED, samples=1000)
    done = repair(train, X, y, SPACE, method, strategy="themis", held_out=people(60, 7), watch=(), **QUICK)
    found = eh.audit(done.original, SPACE, "themis", QUICK["budget"], 0).tests
    assert found == 400
    assert len(seen) == 5
    assert seen[4] == 200  # the control
    wanted = {n - 200 for n in seen[1:4]}
    assert len(wanted) == 1
    rates = [one.candidate for one in done.rounds]
    assert [one.kept for one in done.rounds].count(True) == 1
    kept = next(one for one in done.rounds if one.kept)
    assert kept.candidate == sorted(rates)[1]
    assert {one.added for one in done.rounds} == wanted
    assert len({one.current for one in done.rounds}) == 1
    assert done.notes[0].startswith("3 repeats left ")
    assert " of valid individuals discriminatory, " in done.notes[0]


def test_the_share_is_of_the_findings() -> None:
    X, y = people(200)
    train = lambda X, y: by_pay({"F": 10, "M": 5})  # noqa: E731
    done = repair(train, X, y, SPACE, eh.repairs.Augment(voters=CODED, repeats=1), strategy="themis", watch=(), **QUICK)
    run_found = round(done.rounds[0].wanted / 0.05)
    assert 0.15 * 400 < run_found < 0.35 * 400
    assert len(done.used) == done.rounds[0].added
    assert done.notes == []


def test_adf_finds_with_scores_and_kosei_without() -> None:
    X, y = people(200)
    method = eh.repairs.Augment(voters=CODED, repeats=1, samples=500)
    done = repair(Coded(), X, y, SPACE, method, watch=(), samples=500, budget=eh.Budget(tests=150))
    assert (done.settings["strategy"]["strategy"], done.settings["check"]["strategy"]) == ("adf", "kosei")

    class Silent(Coded):
        predict_proba = None  # type: ignore[assignment]

    done = repair(Silent(), X, y, SPACE, method, watch=(), samples=500, budget=eh.Budget(tests=150))
    assert (done.settings["strategy"]["strategy"], done.settings["check"]["strategy"]) == ("kosei", "aequitas")
    assert done.before.auc is None
    assert np.isnan(done.frame.loc["auc", "before"])


def test_labels_only_models_are_searched_by_kosei_and_noted() -> None:
    X, y = people(200)

    def train(X: Any, y: Any) -> Any:
        model = Coded(random_state=0).fit(X, y)
        return lambda frame: model.predict(frame)

    method = eh.repairs.Augment(voters=CODED, repeats=1, samples=500)
    done = repair(train, X, y, SPACE, method, watch=(), samples=500, budget=eh.Budget(tests=150))
    assert done.settings["strategy"]["strategy"] == "kosei"
    assert done.notes == ["<lambda> returns labels only, no scores: kosei found the rows instead of adf"]


@pytest.mark.parametrize(
    "settings",
    [
        {"share": 0},
        {"share": 1.1},
        {"share": "x"},
        {"repeats": 0},
        {"labels": 1},
        {"members": "some"},
        {"start": "here"},
    ],
)
def test_wrong_settings(settings: Any) -> None:
    with pytest.raises(StrategyError):
        eh.repairs.Augment(**settings)
