"""Repairs of models of texts, on worlds small enough to judge by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DataError, ModelError, StrategyError
from evenhand.models.wrap import wrap
from evenhand.repairs.certified import train_certified
from evenhand.repairs.data import Found, LabelledTexts, UsedTexts, ground_of, judged, split
from evenhand.repairs.training import Voters
from tests.helpers import optional
from tests.text_worlds import TEAMS, TextWorld, family, key, team_space, team_texts

from .people import repair

SPACE = team_space()
TEXTS, HELD = team_texts(0, 60), team_texts(1, 80)
Y, HELD_Y = (np.where(np.random.default_rng(n).random(n) < 0.3, "bad", "good") for n in (60, 80))
OPTIONS: dict[str, Any] = {
    "held_out": (HELD, HELD_Y), "budget": eh.Budget(tests=300), "strategy": eh.TextRandom(trials=20), "seed": 3,
}  # fmt: skip


def trained(X: list[str], y: Any, before: int = 30, after: int = 8) -> Any:
    """A model of texts that treats fewer differently when it was trained with more than it was at first."""
    assert len(X) == len(y)
    return TextWorld(SPACE, [], share=before if len(X) == len(TEXTS) else after)


def repaired(train: Any = trained, method: Any = None, **options: Any) -> eh.Repair:
    method = method or eh.repairs.Augment(repeats=2, share=0.2)
    return repair(train, TEXTS, Y, SPACE, method, **{**OPTIONS, **options})


def unfair(model: Any, text: str) -> bool:
    return len({model.label(one) for one in family(text)}) > 1


@pytest.fixture(scope="module")
def done() -> eh.Repair:
    return repaired()


def test_what_is_removed_is_what_enumeration_says(done: eh.Repair) -> None:
    found = done.before.audit.findings["text"].tolist()
    assert len(found) > 50
    assert all(unfair(done.original, text) for text in found)
    still = [unfair(done.model, text) for text in found]
    assert 0 < sum(still) < len(still)
    assert done.removed == pytest.approx(1 - np.mean(still))
    assert done.changed


def test_the_share_of_held_out_texts_is_counted(done: eh.Repair) -> None:
    excluded = {key(text) for text in TEXTS}
    for evidence, model in ((done.before, done.original), (done.after, done.model)):
        said = [unfair(model, text) for text in HELD if key(text) not in excluded]
        assert evidence.data is not None
        assert (evidence.data.found, evidence.data.samples) == (sum(said), len(said))
        assert sorted(evidence.verdicts["data"].tolist()) == sorted(said)
        assert evidence.accuracy.value == np.mean([model.label(t) == y for t, y in zip(HELD, HELD_Y, strict=True)])
    apart = done.differences["data"]
    assert apart is not None
    assert apart.value == pytest.approx(done.after.data.rate - done.before.data.rate)  # type: ignore[union-attr]
    assert apart.low < apart.value < 0


def test_no_evidence_was_trained_with() -> None:
    added: list[str] = []

    def train(X: list[str], y: Any) -> Any:
        added.extend(X)
        return trained(X, y)

    done = repaired(train, held_out=(HELD + TEXTS[:30], [*HELD_Y, *Y[:30]]))
    known = {key(text) for text in added}
    for evidence in (done.before, done.after):
        assert not known & {key(text) for text in evidence.audit.findings["text"]}
    assert len(done.used) > 0
    assert done.used(SPACE.begin(added).seeds).all()  # type: ignore[arg-type]


def test_what_is_added_are_findings_with_the_labels_of_their_seeds() -> None:
    calls: list[tuple[list[str], Any]] = []

    def train(X: list[str], y: Any) -> Any:
        calls.append((list(X), y.copy()))
        return trained(X, y)

    done = repaired(train)
    labels = dict(zip(TEXTS, Y.tolist(), strict=True))
    original = calls[0]
    assert (original[0], original[1].tolist()) == (TEXTS, Y.tolist())
    for X, y in calls[1:]:
        assert X[: len(TEXTS)] == TEXTS
        for text, label in zip(X[len(TEXTS) :], y[len(TEXTS) :], strict=True):
            assert unfair(done.original, text)
            if text in labels:
                assert label == labels[text]
    assert len(calls) == 3


def test_the_words_and_the_frame(done: eh.Repair) -> None:
    assert list(done.frame.index)[:3] == ["of the same findings", "data", "found by the check"]
    assert done.frame.loc["of the same findings", "before"] == 1
    for words in ("discrimination fell, to", "of texts like the held-out ones", "from held-out texts is gone",
                  "text-random, from the held-out texts, finds"):  # fmt: skip
        assert words in done.verdict
    assert done.moved == ()
    told = done.to_dict()
    assert told["after"]["kept"] == pytest.approx(1 - done.removed)  # type: ignore[operator]
    assert told["settings"]["training_rows"] == len(TEXTS)


def test_the_same_seed_gives_the_same_repair(done: eh.Repair) -> None:
    again = repaired()
    assert again.frame.equals(done.frame)
    assert [one.candidate for one in again.rounds] == [one.candidate for one in done.rounds]


def test_nothing_found_is_nothing_to_repair() -> None:
    done = repaired(lambda X, y: lambda texts: ["bad" if "ba" in text else "good" for text in texts])
    assert not done.changed
    assert done.model is done.original
    assert "nothing to repair" in done.verdict
    assert done.removed is None


def test_what_makes_things_worse_is_not_handed_back() -> None:
    done = repaired(lambda X, y: trained(X, y, before=3, after=50))
    assert not done.changed
    assert done.model is done.original
    assert done.verdict.startswith("made worse: discrimination rose")
    assert done.rejected is not None
    # One thing is said of what is handed back.
    assert repr(done).count("handed back") == 1
    assert " of the findings to train with treated differently, " in done.notes[0]


def test_a_difference_that_is_not_sure_shows_no_improvement(done: eh.Repair) -> None:
    assert "no improvement is shown" not in done.verdict
    same = repaired(lambda X, y: trained(X, y, before=30, after=30))
    assert same.changed
    assert "no improvement is shown" in same.verdict


def test_where_no_held_out_text_is_fresh_nothing_is_handed_back() -> None:
    done = repaired(held_out=(TEXTS, Y))
    assert not done.changed
    assert done.before.data is None
    assert done.verdict.startswith("not shown: the repair used all tests")


def test_an_original_that_training_changes_is_an_error() -> None:
    kept = TextWorld(SPACE, [], share=30)

    def train(X: list[str], y: Any) -> Any:
        kept.share = 30 if len(X) == len(TEXTS) else 8
        return kept

    with pytest.raises(ModelError, match="make a new model in each call"):
        repaired(train)


def test_voters_label_findings_and_families_decide_alike() -> None:
    rows = LabelledTexts(SPACE, tuple(TEXTS), Y)
    world = TextWorld(SPACE, [], share=40)
    found = Found(HELD[:30], np.arange(30))
    assert Voters(rows, (), 0, world.model).label(found).tolist() == Y[:30].tolist()
    voters = [lambda X, y, salt=salt: TextWorld(SPACE, [], salt=salt, share=40) for salt in (1, 2, 3)]
    models = [TextWorld(SPACE, [], salt=salt, share=40) for salt in (1, 2, 3)]
    voted = Voters(rows, voters, 0, world.model)
    expected = [max(("bad", "good"), key=[m.label(text) for m in models].count) for text in found.rows]
    assert voted.label(found).tolist() == expected
    for labels, judges, own in ((Voters(rows, (), 0, world.model), [world], Y), (voted, models, expected)):
        got = labels.label(found, "family")
        for text, label, mine in zip(found.rows, got.tolist(), own, strict=False):
            said = [judge.label(one) for judge in judges for one in family(text)]
            assert label == max(("bad", "good"), key=lambda one: said.count(one) + 0.5 * (one == mine))


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.2, 0.8))
def test_tests_stay_on_one_side(seed: int, share: float) -> None:
    texts = [text.replace(team, other) for text in team_texts(seed, 12, words=4) for team in TEAMS for other in TEAMS]
    rows = LabelledTexts(SPACE, ("no term", "no term", *texts), np.arange(2 + len(texts)))
    train, held = split(rows, share, seed)
    assert not {key(text) for text in train.texts} & {key(text) for text in held.texts}
    assert sorted([*train.y, *held.y]) == rows.y.tolist()


@settings(max_examples=25)
@given(st.integers(0, 10_000))
def test_used_texts_are_known_however_they_are_reached(seed: int) -> None:
    world = TextWorld(SPACE, team_texts(seed, 10), salt=seed, share=30)
    run = eh.audit(world, SPACE, eh.TextRandom(trials=5), eh.Budget(tests=60), seed, data=world.data)
    found = run.findings["text"].tolist()
    if not found:
        return
    used = UsedTexts(SPACE)
    used.add(Found(found, np.zeros(len(found), dtype=np.int64)))
    assert len(used) == len(found)
    assert used(ground_of(SPACE, found).seeds).all()
    assert not used(ground_of(SPACE, team_texts(seed + 1, 5)).seeds).any()


def test_texts_are_judged_as_by_enumeration() -> None:
    world = TextWorld(SPACE, [], salt=5, share=30)
    positions, verdicts = judged(world.model, SPACE, ["nobody", *HELD], eh.Flip(), 0)
    assert positions.tolist() == list(range(1, len(HELD) + 1))
    assert verdicts.tolist() == [unfair(world, text) for text in HELD]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"method": "retrain"}, StrategyError, "a method of texts is one of 'augment', 'certified'"),
    ({"method": eh.repairs.Counterfactual()}, StrategyError, "a method of texts"),
    ({"method": "certified"}, ModelError, "needs the layers of a net"),
    ({"watch": ["team"]}, DataError, "are for rows of attributes"),
    ({"favourable": "good"}, DataError, "are for rows of attributes"),
    ({"strategy": "kosei"}, StrategyError, "searches attributes"),
    ({"check": "themis"}, StrategyError, "searches attributes"),
    ({"held_out": 1.5}, DataError, "held_out must be a share"),
    ({"held_out": (["no term"], ["good"])}, DataError, "none of 1 texts can be tested"),
    ({"held_out": (HELD, HELD_Y[:3])}, DataError, "y_test must be one label for each of 80 rows"),
    ({"held_out": ([None, *HELD], ["good", *HELD_Y])}, DataError, "1 texts of X_test are missing"),
]


@pytest.mark.parametrize(("options", "error", "words"), WRONG)
def test_wrong_arguments_are_refused_in_words(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        repair(trained, TEXTS, Y, SPACE, **{**OPTIONS, **options})


def test_certified_training_is_not_for_rows() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    with pytest.raises(StrategyError, match="is one of 'retrain'"):
        repair(trained, [[1, 0]] * 9, [0, 1, 1] * 3, space, eh.repairs.Certified())


BOXES = [f"The {who} {what} {n} is {how}" for n in range(5) for who in ("black", "white") for what in ("box", "table")
         for how in ("kind", "loud")]  # fmt: skip


@pytest.mark.parametrize(("ambiguous", "threshold"), [("always", None), ("always", 0.3), ("context", None)])
def test_certified_training_has_the_settings_of_the_space_and_of_the_model(
    monkeypatch: pytest.MonkeyPatch, ambiguous: Any, threshold: float | None
) -> None:
    torch = optional("torch")
    from evenhand.demo.text import Encoder
    from evenhand.repairs import certified

    encode = Encoder(["the", "black", "white", "asian", "box", "table", "is", "kind", "loud"])
    net = torch.nn.Sequential(torch.nn.EmbeddingBag(len(encode), 2, padding_idx=0), torch.nn.Linear(2, 2))
    model = eh.wrap(net, encode=encode, threshold=threshold)
    rows = LabelledTexts(eh.TextSpace("race", ambiguous=ambiguous), tuple(BOXES), np.arange(len(BOXES)) % 2)
    context: Any = SimpleNamespace(trainer=SimpleNamespace(wrap=wrap), original=model, rows=rows, tell=len, seed=0)
    asked: dict[str, Any] = {}

    def noting(module: Any, *given: Any, **settings: Any) -> Any:
        asked.update(settings)
        return train_certified(module, *given, **settings)

    monkeypatch.setattr(certified, "train_certified", noting)
    candidate = eh.repairs.Certified(epochs=1).apply(context)
    if ambiguous == "context":
        assert candidate.model is None
        assert "nothing to repair: no training text has a term" in candidate.reason
    else:
        assert (asked["ambiguous"], asked["threshold"]) == ("always", threshold)
        assert candidate.model.threshold == threshold


def test_certified_training_leaves_the_original_alone() -> None:
    torch = optional("torch")
    from evenhand.datasets import Corpus
    from evenhand.demo.text import Training, small

    corpus = eh.datasets.load("comments").train[:60]
    nets = []

    def train(X: list[str], y: Any) -> Any:
        net, encode = small(Corpus(tuple(X), np.asarray(y)), how=Training(epochs=1))
        nets.append((net, {name: value.clone() for name, value in net.state_dict().items()}))
        return eh.wrap(net, encode=encode)

    method = eh.repairs.Certified(epochs=1, rate=0.02)
    budget = eh.Budget(tests=20)
    done = repair(train, list(corpus.texts), corpus.labels, eh.TextSpace("religion"), method, budget=budget,
                     strategy=eh.TextRandom(trials=2))  # fmt: skip
    ((net, weights),) = nets
    assert all(torch.equal(value, weights[name]) for name, value in net.state_dict().items())
    assert done.original.source is net
    assert done.changed == (done.model.source is not net)
    assert done.settings["strategy"] is None
    words = np.where(corpus.labels, "toxic", "fine")
    named = eh.wrap(done.original.source, encode=done.original.encode)
    rows = LabelledTexts(eh.TextSpace("religion"), corpus.texts, words)
    context = SimpleNamespace(trainer=SimpleNamespace(wrap=wrap), original=named, rows=rows, tell=len, seed=0)
    with pytest.raises(DataError, match="numbers of classes"):
        method.apply(context)  # type: ignore[arg-type]
