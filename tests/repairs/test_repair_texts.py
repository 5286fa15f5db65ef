"""Repairs of text models, on sets of texts small enough to judge by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._intervals import clopper_pearson
from evenhand.errors import DataError, ModelError, StrategyError
from evenhand.models.wrap import wrap
from evenhand.repairs.certified import train_certified
from evenhand.repairs.data import Found, LabelledTexts, UsedTexts, bind_texts, judged, split
from evenhand.repairs.result import _figures
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


def test_the_removed_share_matches_enumeration(done: eh.Repair) -> None:
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


def test_added_findings_have_the_labels_of_their_seeds() -> None:
    calls: list[tuple[list[str], Any]] = []

    def train(X: list[str], y: Any) -> Any:
        calls.append((list(X), y.copy()))
        return trained(X, y)

    done = repaired(train)
    labels = dict(zip(TEXTS, Y.tolist(), strict=True))
    original = calls[0]
    assert (original[0], original[1].tolist()) == (TEXTS, Y.tolist())
    assert sorted(calls[3][0]) == sorted(TEXTS)  # the control
    for X, y in calls[1:3]:
        assert X[: len(TEXTS)] == TEXTS
        for text, label in zip(X[len(TEXTS) :], y[len(TEXTS) :], strict=True):
            assert unfair(done.original, text)
            if text in labels:
                assert label == labels[text]
    assert len(calls) == 4


def test_the_words_and_the_frame(done: eh.Repair) -> None:
    assert list(done.frame.index)[:3] == ["of the same findings", "data", "found by the check"]
    assert done.frame.loc["of the same findings", "before"] == 1
    for words in ("discrimination fell, to", "of texts like the held-out ones", "from held-out texts are gone",
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


def test_a_worse_model_is_not_returned() -> None:
    done = repaired(lambda X, y: trained(X, y, before=3, after=50))
    assert not done.changed
    assert done.model is done.original
    assert done.verdict.startswith("made worse: discrimination rose")
    assert done.rejected is not None
    assert repr(done).count("model is returned") == 1
    assert " of the findings to train with discriminatory, " in done.notes[0]


def test_uncertain_difference_shows_no_improvement(done: eh.Repair) -> None:
    assert "no improvement is shown" not in done.verdict
    same = repaired(lambda X, y: trained(X, y, before=30, after=30))
    assert same.changed
    assert "no improvement is shown" in same.verdict


def test_original_is_returned_without_fresh_held_out_texts() -> None:
    done = repaired(held_out=(TEXTS, Y))
    assert not done.changed
    assert done.before.data is None
    assert done.verdict.startswith("not measured: the repair used all tests")


def test_an_original_that_training_changes_is_an_error() -> None:
    kept = TextWorld(SPACE, [], share=30)

    def train(X: list[str], y: Any) -> Any:
        kept.share = 30 if len(X) == len(TEXTS) else 8
        return kept

    with pytest.raises(ModelError, match="make a new model in each call"):
        repaired(train)


def test_voters_label_whole_families_equally() -> None:
    rows = LabelledTexts(SPACE, tuple(TEXTS), Y)
    found = Found(HELD[:30], np.arange(30))
    assert Voters(rows, (), 0).label(found).tolist() == Y[:30].tolist()
    voters = [lambda X, y, salt=salt: TextWorld(SPACE, [], salt=salt, share=40) for salt in (1, 2, 3)]
    models = [TextWorld(SPACE, [], salt=salt, share=40) for salt in (1, 2, 3)]
    voted = Voters(rows, voters, 0, blind=False)
    expected = [max(("bad", "good"), key=[m.label(text) for m in models].count) for text in found.rows]
    assert voted.label(found).tolist() == expected
    got = Voters(rows, voters, 0).label(found)
    for text, label, mine in zip(found.rows, got.tolist(), expected, strict=True):
        said = [judge.label(one) for judge in models for one in family(text)]
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
    assert used(bind_texts(SPACE, found).seeds).all()
    assert not used(bind_texts(SPACE, team_texts(seed + 1, 5)).seeds).any()


def test_texts_are_judged_as_by_enumeration() -> None:
    world = TextWorld(SPACE, [], salt=5, share=30)
    positions, verdicts = judged(world.model, SPACE, ["somebody", *HELD], eh.Flip(), 0)
    assert positions.tolist() == list(range(1, len(HELD) + 1))
    assert verdicts.tolist() == [unfair(world, text) for text in HELD]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"method": "retrain"},
        StrategyError,
        "method must be one of 'augment', 'counterfactual', 'consistency', 'certified' for texts",
    ),
    ({"method": eh.repairs.Marginal()}, StrategyError, "for texts"),
    ({"method": "certified"}, ModelError, "needs the layers of a net"),
    ({"watch": ["team"]}, DataError, "is for rows of attributes"),
    ({"favourable": "good"}, DataError, "is for rows of attributes"),
    ({"strategy": "kosei"}, StrategyError, "searches attributes"),
    ({"check": "themis"}, StrategyError, "searches attributes"),
    ({"held_out": 1.5}, DataError, "held_out must be"),
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
    with pytest.raises(StrategyError, match="must be one of 'retrain'"):
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
    with pytest.raises(DataError, match="class numbers"):
        method.apply(context)  # type: ignore[arg-type]


ROLES: dict[str, Any] = {
    "role": {
        "forms": [{"name": "one"}, {"name": "many"}],
        "terms": [[["clerk", "scribe"], ["clerks", "scribes"]], ["cook", "cooks"], ["pilot", "pilots"]],
    }
}
"""Names of roles, one with two spellings."""


@given(st.lists(st.sampled_from(["clerk", "scribe", "clerks", "scribes", "cook", "pilots"]), min_size=1, max_size=4))
def test_counterfactual_texts_have_every_spelling_in_place_of_all_terms_of_an_identity(terms: list[str]) -> None:
    spellings = {"one": ["clerk", "scribe", "cook", "pilot"], "many": ["clerks", "scribes", "cooks", "pilots"]}
    form = {term: which for which, row in spellings.items() for term in row}

    def write(chosen: list[str]) -> str:
        return " and ".join(["the", *(f"old {term}" for term in chosen)])

    rank = {term: at for row in spellings.values() for at, term in enumerate(row)}
    expected = {
        write([spellings[form[term]][new] if rank[term] == old else term for term in terms])
        for old in {rank[term] for term in terms}
        for new in range(4)
        if new != old
    }
    rows = LabelledTexts(eh.TextSpace.paper(ROLES), (write(terms),), np.array([1]))
    owner, _, written = rows.counterparts(True, 0)
    assert sorted(written) == sorted(expected)
    assert owner.tolist() == [0] * len(written)


@given(st.lists(st.sampled_from(["hello you", "the cook", "fine", ""]), min_size=1, max_size=6), st.integers(0, 3))
def test_texts_without_a_term_get_one_somewhere(texts: list[str], number: int) -> None:
    rows = LabelledTexts(eh.TextSpace.paper(ROLES), tuple(texts), np.arange(len(texts)))
    found = rows.mentions(number, seed=1)
    assert found.seeds.tolist() == [at for at, text in enumerate(texts) if "cook" not in text for _ in range(number)]
    terms = {
        term for row in ROLES["role"]["terms"] for cell in row for term in ([cell] if isinstance(cell, str) else cell)
    }
    for row, at in zip(found.rows, found.seeds.tolist(), strict=True):
        words, before = row.split(" "), texts[at].split(" ")
        assert any(words[i] in terms and words[:i] + words[i + 1 :] == before for i in range(len(words)))


@pytest.mark.parametrize(("mentions", "copies"), [(None, 2), (0, 0), (2, 4)])
def test_counterfactual_adds_as_many_copies_as_it_says(mentions: int | None, copies: int) -> None:
    given: list[list[str]] = []
    texts = ["the cook is bad", "hello", "the pilot is good", "you fool"]

    def train(X: list[str], y: Any) -> Any:
        given.append(list(X))
        return lambda some: [len(text) % 2 for text in some]

    method = eh.repairs.Counterfactual() if mentions is None else eh.repairs.Counterfactual(mentions=mentions)
    held = (["the cook goes", "the pilot goes"], [0, 1])
    done = repair(
        train, texts, [0, 1, 0, 1], eh.TextSpace.paper(ROLES), method, held_out=held, budget=eh.Budget(tests=9)
    )
    counterparts = 6  # three other spellings of each text with a term
    assert len(given[1]) == 4 + counterparts + copies
    assert any("got one at random" in note for note in done.notes) == bool(copies)


def test_a_linear_model_treats_all_spellings_alike_after_counterfactual_training() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    roles, moods = ["clerk", "scribe", "cook", "pilot"], ["kind", "rude"]
    chosen, mood = rng.choice(roles, 200, p=[0.5, 0.3, 0.1, 0.1]), rng.integers(0, 2, 200)
    # Some are mentioned twice, and scribes are said to be rude.
    twice = [" for a {}" if at % 2 else "" for at in range(200)]
    texts = [f"the {role} is {moods[m]}{more.format(role)}" for role, m, more in zip(chosen, mood, twice, strict=True)]
    y = mood | (chosen == "scribe")
    rows = LabelledTexts(eh.TextSpace.paper(ROLES), tuple(texts), y)
    at, _, written = rows.counterparts(True, 0)
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(tol=1e-8, max_iter=10_000))
    pipeline.fit([*texts, *written], np.concatenate([y, y[at]]))
    words, weights = pipeline[0].vocabulary_, pipeline[1].coef_[0]
    assert np.ptp([weights[words[role]] for role in roles]) < 1e-3


@given(st.integers(1, 400), st.data())
def test_the_table_shows_the_interval_of_every_rate(samples: int, data: Any) -> None:
    low, high = (float(end) for end in clopper_pearson(data.draw(st.integers(0, samples)), samples, 0.95))
    rate = SimpleNamespace(rate=(low + high) / 2, low=low, high=high)
    one = SimpleNamespace(uniform=rate, data=rate, accuracy=SimpleNamespace(value=1), kept=None, texts=False)
    for shown in _figures(one, 2)[:2]:  # type: ignore[arg-type]
        assert shown.endswith(f"({100 * low:.2f}-{100 * high:.2f})")
