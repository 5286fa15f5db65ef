"""The search by word importance against a plain implementation, one text and one word at a time."""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import evenhand as eh
from evenhand.errors import ModelError, StrategyError
from evenhand.spaces.text.tokens import split
from tests.strategies.text_reference import TextReference, Watched
from tests.text_worlds import TEAMS, movable, replaced, team_space, team_texts


@dataclass
class Rater:
    """Rates texts by their words and by neighbours among them, so that no word counts alone."""

    salt: int
    columns: int = 2
    rows: int = 0

    def __call__(self, texts: list[str]) -> Any:
        self.rows += len(texts)
        rates = np.array([self.rate(text) for text in texts])
        return np.column_stack([-rates, rates]) if self.columns == 2 else rates

    def rate(self, text: str) -> float:
        words = split(text)[1::2]
        pairs = [f"{a} {b}" for a, b in itertools.pairwise(words)]
        team = 0.8 * sum(word == TEAMS[0] for word in words)
        return team + sum(zlib.crc32(part.encode(), self.salt) % 1000 / 500 - 1 for part in (*words, *pairs)) / 2


@dataclass
class Reference(TextReference):
    """Words are left out one by one, here and at the rival."""

    rate: Any = None

    def scores(self, text: str) -> Any:
        rate = self.rate.rate(text)
        return -rate, rate

    def effects(self, text: str) -> dict[int, tuple[float, float]]:
        """For each word that can move: what leaving it out takes from the score, here and at the rival."""
        _, rival, y = self.look(text)
        out = {}
        for a in movable(text, self.similar):
            own, other = (self.scores(side)[y] - self.scores(replaced(side, a, ""))[y] for side in (text, rival))
            out[a] = own, other if self.strategy.pair else 0.0
        return out

    def step(self, text: str) -> str:
        effects, y = self.effects(text), self.look(text)[2]
        place = max(effects, key=lambda a: abs(effects[a][0] - effects[a][1]))
        tried = [replaced(text, place, word) for word in self.candidates(text, place)]
        return min(tried, key=lambda t: self.scores(t)[y])

    def matter(self, text: str) -> dict[int, float]:
        return {a: abs(own) + abs(other) for a, (own, other) in self.effects(text).items()}


@pytest.mark.parametrize("phase", ["both", "global", "local"])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(("terms", "pair"), [(1, True), (2, True), (2, False)])
def test_scores_are_searched_as_the_plain_program_does(phase: Any, columns: int, terms: int, pair: bool) -> None:
    for seed in range(2):
        space, data, rate = team_space(), team_texts(seed, 30, terms=terms), Rater(seed, columns)
        strategy = eh.TextImportance(pair=pair, seeds=20, max_iter=5, trials=7, every=3, phase=phase, rounds=1)
        search = Watched(strategy)
        model = eh.wrap(rate, input="text", **({"threshold": 1e-9} if columns == 1 else {}))
        run = eh.audit(eh.wrap(model, chunk=70), space, search, seed=seed, data=data)
        assert search.visits == Reference(space, strategy, seed, 3, Rater(seed)).visits(data)
        assert run.gradient == "differences of scores"
        assert rate.rows == run.rows + run.rows_checked
        assert run.found > 3


def test_only_some_words_of_long_texts_are_tried() -> None:
    data, rate = team_texts(0, 10, words=40), Rater(0)
    model, space = eh.wrap(rate, input="text"), team_space()
    few, all_of_them = (
        eh.audit(model, space, eh.TextImportance(max_iter=2, phase="global", words=n), data=data) for n in (6, 100)
    )
    moved = few.tests - 10
    assert few.asked["score"] == moved * (2 * (1 + 6) + 5)
    assert all_of_them.asked["score"] == moved * (2 * (1 + 39) + 5)


def test_any_pipeline_with_scores_is_searched() -> None:
    data = team_texts(0, 200)
    labels = ["bad" if "reds" in text or "ba" in text else "good" for text in data]
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(data, labels)
    strategy = eh.TextImportance(seeds=40, max_iter=6, phase="global")
    run = eh.audit(model, team_space(), strategy, data=data)
    plain = eh.audit(model, team_space(), eh.TextRandom(seeds=40, max_iter=6, phase="global"), data=data)
    assert run.found > plain.found
    assert (model.predict(run.findings["text"]) == run.findings["decision"]).all()


@pytest.mark.parametrize("answer", [lambda t: [len(x) % 2 for x in t], lambda t: ["a"] * len(t)], ids=["int", "text"])
def test_labels_are_refused_with_what_to_use_instead(answer: Any) -> None:
    with pytest.raises(ModelError, match="text-random"):
        eh.audit(eh.wrap(answer, input="text"), team_space(), "text-importance", data=team_texts(0, 5))


@pytest.mark.parametrize(
    "settings", [{"pair": None}, {"words": 0}, {"every": 0}, {"seeds": 0}, {"trials": -1}, {"phase": "neither"}]
)
def test_wrong_settings_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(StrategyError) as caught:
        eh.TextImportance(**settings)
    assert caught.value.parameter == next(iter(settings))
