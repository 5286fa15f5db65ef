"""Audits of texts: findings, models, directories, failures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import evenhand as eh
from evenhand.errors import DataError, FlakyModel, ModelError, RunError, SpaceError, StrategyError
from evenhand.runs import audit as audit_module
from evenhand.search import Problem, Search, contrast, gradient, judge, label
from evenhand.search import score as ask_scores
from evenhand.spaces.text.tokens import split
from tests.text_worlds import TEAMS, VECTORS, WORDS, TextWorld, family, key, team_space, team_texts, text_world

COLUMNS = ["text", "counterpart_text", "decision", "counterpart_decision", "gap", "confirmed", "seed", "changed"]
TINY = eh.TextRandom(seeds=60, max_iter=2, trials=4, rounds=1)
SHORT = eh.TextRandom(max_iter=3, trials=15, rounds=1)


def score(texts: list[str]) -> Any:
    """A number between 0 and 1 for each text; what the reds do counts for less."""
    return np.array([(sum(map(ord, text)) % 101) / 200 + 0.3 * ("reds" not in text) for text in texts])


def undone(text: str, changed: list[tuple[int, str, str]]) -> str:
    tokens = split(text)
    for position, old, new in changed:
        assert tokens[2 * position + 1] == new
        tokens[2 * position + 1] = old
    return "".join(tokens)


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_findings_are_true_unique_and_lead_back_to_their_seeds(terms: int) -> None:
    world = TextWorld(team_space(), team_texts(terms, 50, terms=terms), salt=terms)
    run = eh.audit(eh.wrap(world, chunk=100), world.space, SHORT, data=world.data)
    frame = run.findings
    assert list(frame.columns) == COLUMNS
    assert len(frame) == run.found > 50
    assert len({key(text) for text in frame["text"]}) == run.found
    for row in frame.itertuples():
        assert row.counterpart_text in family(row.text)[1:]
        assert (world.label(row.text), world.label(row.counterpart_text)) == (row.decision, row.counterpart_decision)
        assert row.decision != row.counterpart_decision
        assert undone(row.text, row.changed) == world.data[row.seed]
    assert (frame["gap"] == 1).all()
    assert frame["changed"].map(len).max() > 3
    assert run.curve["findings"].iloc[-1] == run.found
    assert run.space is world.space


def test_a_gap_shows_the_widest_pair_with_its_positions() -> None:
    space = eh.TextSpace.paper({"team": ["reds", "old greens", "blues"]}, team_space().similar)
    data = [text.replace("greens", "old greens") for text in team_texts(3, 40, terms=2)]
    run = eh.audit(score, space, SHORT, data=data, criterion=eh.Gap(0.35))
    frame = run.findings
    assert run.found > 20
    own = 0
    for row in frame.itertuples():
        low, high = score([row.text, row.counterpart_text])
        assert row.gap == pytest.approx(high - low) == pytest.approx(row.counterpart_decision - row.decision)
        seed = undone(row.text, row.changed)
        own += seed == data[row.seed]
        assert (
            split(seed.replace("old greens", "reds").replace("blues", "reds"))[1::2]
            == split(data[row.seed].replace("old greens", "reds").replace("blues", "reds"))[1::2]
        )
    assert 0 < own < run.found


def test_terms_swapped_together() -> None:
    def classify(texts: list[str]) -> list[bool]:
        return [text.split().count("reds") == 2 for text in texts]

    data = ["reds like reds", "blues like blues", "reds like blues", "none"]
    each, together = (
        eh.audit(classify, eh.TextSpace.paper({"team": TEAMS}, occurrences=how), "text-random", data=data).findings
        for how in ("each", "together")
    )
    assert set(each["text"]) == {"reds like reds", "reds like blues"}
    assert set(together["text"]) >= {"reds like blues"}
    assert len(together) == 2


def test_left_out_texts_are_counted_and_shown() -> None:
    space = eh.TextSpace.paper({"team": TEAMS}, max_family_size=3)
    run = eh.audit(lambda t: [0] * len(t), space, "text-random", data=["reds", None, "no", "blues reds", ""])
    assert (run.counts["dropped"], run.counts["texts_without_a_term"]) == (1, 2)
    assert run.counts["texts_compared_with_a_sample"] == 1
    assert run.sampled
    assert "texts without a term: 2" in repr(run)
    assert run.findings.empty
    assert list(run.findings.columns) == COLUMNS


def test_the_same_text_twice_is_one_test() -> None:
    data = ["reds won", "blues won", "reds won"]
    run = eh.audit(
        lambda t: [x.startswith("reds") for x in t], eh.TextSpace.paper({"team": TEAMS}), "text-random", data=data
    )
    assert (run.tests, run.found) == (1, 1)


@pytest.mark.parametrize("vectorizer", [TfidfVectorizer(), CountVectorizer(ngram_range=(1, 2))], ids=["tfidf", "count"])
@pytest.mark.parametrize("classifier", [LogisticRegression(), LinearSVC()], ids=["logistic", "svm"])
def test_pipelines_that_were_fitted_on_texts(vectorizer: Any, classifier: Any) -> None:
    data = team_texts(0, 200)
    labels = ["bad" if "reds" in text or "ba" in text else "good" for text in data]
    model = make_pipeline(vectorizer, classifier).fit(data, labels)
    space = team_space()
    run = eh.audit(model, space, TINY, data=pd.Series(data))
    assert run.found > 20
    assert (model.predict(run.findings["text"]) == run.findings["decision"]).all()
    assert (model.predict(run.findings["counterpart_text"]) == run.findings["counterpart_decision"]).all()
    same = eh.audit(eh.wrap(model.predict, input="text"), space, TINY, data=data)
    assert same.findings.equals(run.findings)
    if isinstance(classifier, LogisticRegression):
        gaps = eh.audit(model.predict_proba, space, TINY, data=data, criterion=eh.Flip() & eh.Gap(0.1)).findings
        assert (gaps["gap"] > 0.1).all()
        strict = eh.audit(eh.wrap(model, threshold=0.6), space, TINY, data=data).findings
        good = model.predict_proba(strict["text"])[:, 1] >= 0.6
        assert (np.where(good, "good", "bad") == strict["decision"]).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda t: 1 / 0, "ZeroDivisionError.*\n.*list of \\d+ texts"),
        (lambda t: [1], "1 answers? for \\d+"),
        (lambda t: np.full(len(t), np.nan), "NaN"),
        (lambda t: [None] * len(t), "no label|missing"),
        (lambda t: np.zeros((len(t), 2, 2)), "shape"),
        (score, "Gap"),
        (make_pipeline(LogisticRegression()).fit(pd.DataFrame({"age": [1, 2]}), [0, 1]), "columns age.*function"),
        (42, "got 42"),
    ],
)
def test_models_that_cannot_read(model: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        eh.audit(model, team_space(), "text-random", data=team_texts(0, 70))


def test_text_models_are_refused_for_attributes() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    with pytest.raises(ModelError, match="eh.TextSpace"):
        eh.audit(eh.wrap(len, input="text"), space)


def test_without_vectors_words_move_by_the_models_own() -> None:
    class Knowing(eh.Model):
        name, input, has_words = "knowing", "text", True

        def labels(self, X: Any) -> Any:
            return world(X)

        def word_vectors(self, words: Any) -> Any:
            known = dict(zip(WORDS, VECTORS, strict=True))
            return np.array([known.get(word, np.zeros(4)) for word in words])

    world = text_world(3)
    space = eh.TextSpace.paper({"team": TEAMS}, k=5)
    run = eh.audit(Knowing(), space, SHORT, data=world.data)
    same = eh.TextSpace.paper({"team": TEAMS}, (sorted(WORDS), VECTORS[np.argsort(WORDS)]), k=5)
    given = eh.audit(world, same, SHORT, data=world.data)
    assert run.findings.equals(given.findings)
    assert run.findings["changed"].map(len).max() > 0


def test_a_function_may_change_its_list() -> None:
    def classify(texts: list[str]) -> Any:
        out = [world.label(text) for text in texts]
        texts.clear()
        return out

    world = text_world(4)
    plain = eh.audit(world, world.space, SHORT, data=world.data)
    assert eh.audit(classify, world.space, SHORT, data=world.data).findings.equals(plain.findings)


def test_noisy_models_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(FlakyModel):
        eh.audit(lambda t: rng.integers(0, 2, len(t)), team_space(), "text-random", data=team_texts(0, 70))
    world, changed = text_world(2), False

    def classify(texts: list[str]) -> Any:
        return ["good" if changed else world.label(text) for text in texts]

    def confirm(*arguments: Any) -> Any:
        # Another answer when findings are asked again: only that check sees it.
        nonlocal changed
        changed = True
        return asked_again(*arguments)

    asked_again = audit_module.confirm
    monkeypatch.setattr(audit_module, "confirm", confirm)
    with pytest.raises(FlakyModel):
        eh.audit(classify, world.space, eh.TextRandom(phase="global", max_iter=1), data=world.data)


def test_searches_and_spaces_that_do_not_go_together() -> None:
    table = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    with pytest.raises(StrategyError, match="text-random searches texts"):
        eh.audit(lambda f: f["age"], table, "text-random")
    for name in ("kosei", "adf"):
        with pytest.raises(StrategyError, match=f"{name} searches attributes.*auto"):
            eh.audit(len, team_space(), name, data=["reds"])
    with pytest.raises(SpaceError, match="space must be an eh.Space, got 'int'"):
        eh.audit(len, 3)
    with pytest.raises(DataError, match="data="):
        eh.audit(len, team_space(), "text-random")
    with pytest.raises(DataError, match=r"^data must have texts .*; give data=\[\.\.\.\]$"):
        eh.estimate(len, team_space())
    with pytest.raises(SpaceError, match="is for attributes, but this is a space of texts"):
        eh.groups(len, team_space(), ["reds"], favourable=1)


def test_functions_for_tables_refuse_runs_on_texts(tmp_path: Path) -> None:
    world = text_world(1)
    run = eh.audit(world, world.space, SHORT, data=world.data)
    with pytest.raises(SpaceError, match="is for attributes, but this is a space of texts"):
        eh.coverage(run)


# Directories.


def test_a_run_is_read_and_replayed_without_data_vectors_or_search(tmp_path: Path) -> None:
    world = text_world(7)
    run = eh.audit(eh.wrap(world, chunk=64), world.space, SHORT, data=world.data, directory=tmp_path)
    again = eh.Run.load(tmp_path)
    assert again.findings.equals(run.findings)
    assert again.space == world.space
    assert (again.tests, again.counts, again.stop) == (run.tests, run.counts, run.stop)
    assert repr(again) == repr(run)
    replay = eh.replay(tmp_path, world)
    assert (replay.confirmed, replay.refuted) == (run.found, 0)
    other = TextWorld(world.space, world.data, salt=99)
    assert eh.replay(tmp_path, other).refuted > 0
    assert eh.audit(eh.wrap(world, chunk=64), world.space, SHORT, data=world.data, directory=tmp_path).findings.equals(
        run.findings
    )


def test_killed_runs_are_read_up_to_the_last_answer(tmp_path: Path) -> None:
    world = text_world(7)
    world.dies = 40
    run = eh.audit(eh.wrap(world, chunk=64), world.space, SHORT, data=world.data, directory=tmp_path)
    assert run.stop is eh.StopReason.INTERRUPTED
    again = eh.Run.load(tmp_path)
    assert again.findings.equals(run.findings)
    assert (again.tests, again.found) == (run.tests, run.found)
    assert run.unconfirmed == run.found > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": team_texts(1, 80)}, "data"),
        ({"space": team_space(k=4)}, "space"),
        ({"space": team_space(occurrences="together")}, "space"),
        ({"strategy": eh.TextRandom(max_iter=4)}, "strategy"),
        ({"seed": 1}, "seed"),
    ],
)
def test_another_run_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    world = text_world(7)
    settings: dict[str, Any] = {"space": world.space, "strategy": SHORT, "data": world.data, "directory": tmp_path}
    eh.audit(world, **settings)
    with pytest.raises(RunError, match=words):
        eh.audit(world, **{**settings, **change})


def test_data_is_identified_by_terms_and_rows(tmp_path: Path) -> None:
    def same(texts: list[str]) -> list[int]:
        return [0] * len(texts)

    space = eh.TextSpace.paper({"team": TEAMS})
    eh.audit(same, space, "text-random", data=["reds won"], directory=tmp_path)
    for data in (["blues won"], [None, "reds won"], ["reds won", "blues lost"]):
        with pytest.raises(RunError, match="data"):
            eh.audit(same, space, "text-random", data=data, directory=tmp_path)
    eh.audit(same, space, "text-random", data=["reds won", "we won"], directory=tmp_path)


def test_unusual_texts_survive_in_files(tmp_path: Path) -> None:
    data = ["reds \ud800 \x00 won", "\u202ereds\u202c \U0001f600", "reds " + "na" * 50_000]
    run = eh.audit(
        lambda t: ["reds" in x for x in t],
        eh.TextSpace.paper({"team": TEAMS}),
        "text-random",
        data=data,
        directory=tmp_path,
    )
    assert sorted(run.findings["text"]) == sorted(data)
    assert eh.Run.load(tmp_path).findings.equals(run.findings)


# A search of one's own.


@dataclass(frozen=True)
class Contrasting:
    """Asks everything that can be asked about texts."""

    needs: ClassVar[str] = "texts"
    uses_gradient: ClassVar[bool] = True

    def search(self, problem: Problem) -> Search:
        texts = problem.data
        for _ in range(2):
            told = yield from contrast(texts)
            rivals = told.most_different.texts.strings()
            labels = yield from label(texts)
            scores = yield from ask_scores(texts)
            assert (labels == scores.argmax(axis=1)).all()
            assert (told.classes == labels).all()
            for row, (text, rival) in enumerate(zip(texts.rows, rivals, strict=True)):
                gaps = {t: abs(probabilities([t])[0] - scores[row])[labels[row]] for t in family(text)[1:]}
                flips = {t: g for t, g in gaps.items() if probabilities([t])[0].argmax() != labels[row]}
                assert bool(flips) == told.verdicts.unfair[row]
                assert gaps[rival] == max((flips or gaps).values())


def probabilities(texts: list[str]) -> Any:
    first = score(texts)
    return np.stack([first, 1 - first], axis=1)


@dataclass(frozen=True)
class Steep:
    """Asks for what texts do not have."""

    needs: ClassVar[str] = "texts"
    uses_gradient: ClassVar[bool] = True

    def search(self, problem: Problem) -> Search:
        yield from gradient(problem.data, np.zeros(len(problem.data), dtype=np.int64))


@dataclass(frozen=True)
class Sampling:
    """Wants random individuals, which texts are not."""

    needs: ClassVar[str] = "texts"

    def search(self, problem: Problem) -> Search:
        yield from judge(problem.sample(3))


@pytest.mark.parametrize(("strategy", "words"), [(Steep(), "gradients"), (Sampling(), "attributes")])
def test_searches_for_attributes_refuse_texts(strategy: Any, words: str) -> None:
    with pytest.raises(StrategyError, match=words):
        eh.audit(probabilities, team_space(), strategy, data=["reds won"])


def test_contrasts_of_texts(tmp_path: Path) -> None:
    data = team_texts(5, 30, terms=2)
    asked = eh.audit(eh.wrap(probabilities, chunk=40), team_space(), Contrasting(), data=data, directory=tmp_path)
    assert asked.tests == 30
    assert asked.asked["test"] == 30 * 5
    assert asked.asked["label"] == asked.asked["score"] - asked.asked["score"] % 60 == 60
    again = eh.audit(
        eh.wrap(probabilities, chunk=40),
        team_space(),
        Contrasting(),
        eh.Budget(tests=99),
        data=data,
        directory=tmp_path,
    )
    assert again.counts["rows_from_log"] == asked.rows
    assert again.findings.equals(asked.findings)


def test_partial_run_is_kept_if_the_model_raises_late() -> None:
    calls = 0

    def late(texts: list[str]) -> list[bool]:
        nonlocal calls
        # A single text that fails is queried again, with a copy.
        calls += len(texts) > 1
        if calls > 8:
            raise RuntimeError("boom")
        return ["reds" in text for text in texts]

    with pytest.raises(ModelError, match="boom") as caught:
        eh.audit(eh.wrap(late, chunk=20), team_space(), "text-random", data=team_texts(0, 40))
    run = caught.value.partial
    assert 0 < run.found == len(run.findings) <= run.tests
    assert caught.value.__notes__ == [
        f"{run.tests:,} tests had been judged; the error's attribute partial is the run so far"
    ]
