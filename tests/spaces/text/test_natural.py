"""Terms are identities, and counterparts fit the rest of the text."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest

import evenhand as eh
from evenhand.criteria import Flip, Gap, Groups, Outputs
from evenhand.errors import SpaceError
from evenhand.spaces.text.lexicon import NAMES, load
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.natural import REASONS, natural
from evenhand.spaces.text.tokens import Texts


def parsed(lexicon, text, **settings):
    texts = Texts.of([text])
    swaps = Swaps([load(lexicon)], texts.vocabulary, rules=natural(), **settings)
    found, _, rejected = swaps.look(texts)
    return swaps, texts, found, rejected


def asked(lexicon, text, **settings):
    """All texts of the family of one text; none if it cannot be tested."""
    try:
        bound = eh.TextSpace(lexicon, **settings).begin([text])
    except eh.errors.DataError:
        return []
    return bound.families(bound.seeds, 0).asked[1:]


@pytest.mark.parametrize(
    ("lexicon", "text", "reason"),
    [
        ("orientation", "Tyson Gay ran fast.", "name"),
        ("gender", "It is my mother tongue.", "idiom"),
        ("gender", "He ate at Burger King.", "name"),
        ("ethnic", "Two persian rugs lay there.", "idiom"),
        ("ethnic", "The persian noodles were good.", "thing"),
        ("race", "A house by the Black Sea.", "place"),
        ("country", "It was in Vietnam.", "form"),
        ("country", "The vietnamese war was long.", "idiom"),
        ("names", "They moved to San Jose.", "name"),
        ("country", 'In Polish "x" means nothing.', "language"),
        ("country", "She likes german grammar.", "language"),
        ("religion", "They left the Catholic Church.", "organisation"),
        ("religion", "Christian Bale was there.", "name"),
        ("gender", "f**king hell", ""),
        ("gender", "Oh f**king, f**king king", ""),
        ("gender", "You mother**** lot", "censored"),
        ("gender", "A man-eating lion.", "compound"),
        ("gender", "King Arthur came.", "name"),
        ("race", "Jack Black sang.", "name"),
        ("orientation", "That is so gay.", "insult"),
        ("race", "A black shoe.", "context"),
        ("religion", "Ask @muslim about it.", "handle"),
        ("gender", "Man, that hurts!", "exclamation"),
        ("race", "A South Asian came.", "phrase"),
        ("country", "North Indian food", "place"),
    ],
)  # fmt: skip
def test_what_is_no_identity_is_refused_with_a_reason(lexicon, text, reason):
    _, _, found, rejected = parsed(lexicon, text)
    male = [w for w in ("He", "king") if w in text and reason in ("name", "")]
    assert len(found) <= len(male)
    if reason:
        assert reason in {one.reason for one in rejected} <= set(REASONS)


@pytest.mark.parametrize(
    ("lexicon", "text", "expected"),
    [
        ("race", "Barack Obama is black.", "Barack Obama is Asian."),
        ("race", "Being black is hard.", "Being Asian is hard."),
        ("race", "Are you black?", "Are you Asian?"),
        ("race", "a black ppl thing", "an Asian ppl thing"),
        ("country", "Is he British?", "Is he Swedish?"),
        ("country", "She is pro-Spanish.", "She is pro-Swedish."),
        ("country", "the American and Canadian charts", "the Swedish and Canadian charts"),
        ("religion", "She was born Catholic.", "She was born Muslim."),
        ("religion", "He is a Jew.", "He is a Muslim."),
        ("country", "The British are here.", "The Swedes are here."),
        ("disability", "Disabled people came.", "Deaf people came."),
        ("migration", "Immigrants came.", "Refugees came."),
        ("gender", "A transwoman came.", "A woman came."),
        ("race", "People of color came.", "White people came."),
        ("country", "A Scottish man came.", "A Welsh man came."),
        ("ethnic", "A Uyghur woman came.", "A Tibetan woman came."),
        ("religion", "An Evangelical came.", "A Baptist came."),
        ("indigenous", "Aboriginal people came.", "First Nations people came."),
        ("orientation", "LGBT people came.", "Bisexual people came."),
        ("race", "A Latinx student came.", "An Asian student came."),
        ("ethnic", "A European came.", "An African came."),
        ("age", "The seniors came.", "The teenagers came."),
        ("caste", "A Dalit came.", "A Brahmin came."),
        ("gender", "He is kind.", "They are kind."),
    ],
)
def test_identities_are_found_and_keep_their_form(lexicon, text, expected):
    assert expected in asked(lexicon, text)


def test_decomposed_letters_match():
    for text in ("José came.", unicodedata.normalize("NFD", "José came.")):
        assert "Juan came." in asked("names", text)


def test_they_is_written_but_not_recognised():
    assert asked("gender", "They are kind, and their dog is.") == []
    assert "They said they are kind to their dog." in asked("gender", "He said he is kind to his dog.")
    # "He loves" would need another verb.
    assert asked("gender", "He loves it.") == ["She loves it."]


def test_mentions_change_together():
    (one,) = asked("gender", "The policeman said he loves his job.")
    assert one == "The policewoman said she loves her job."


@pytest.mark.parametrize(
    ("lexicon", "text", "wrong"),
    [
        ("orientation", "Neil Patrick Harris is gay, and he sings.", "lesbian"),
        ("gender", "James said he sings.", "she"),
        ("gender", "He loves his wife.", "her wife"),
        ("gender", "She is pregnant.", "he"),
        ("religion", "The Muslims went to the mosque.", "Jews"),
        ("religion", "Muslims and Jews came.", "Jews and Jews"),
        ("country", "The Germans went home to Germany.", "Swedes"),
    ],
)
def test_counterparts_that_contradict_the_text_are_not_asked(lexicon, text, wrong):
    assert not any(wrong in other.replace(",", "") for other in asked(lexicon, text))


def test_a_user_adds_rules(tmp_path):
    text = "The white van stood there, and white men came. A gay abandon."
    path = tmp_path / "mine.toml"
    path.write_text('[phrases]\nidiom = ["gay abandon"]\n[words]\nthings = "caravan"\n')
    for rules in (path, {"phrases": {"idiom": ["gay abandon"]}}):
        assert asked("orientation", text, rules=rules) == []
        space = eh.TextSpace("orientation", rules=rules)
        assert eh.TextSpace.described(json.loads(json.dumps(space.describe()))) == space
    assert asked("orientation", text)
    for wrong in (
        "natrual",
        3,
        {"phrase": {}},
        {"phrases": {"idioms": []}},
        {"words": {"things": [3]}},
        {"phrases": 3},
    ):
        with pytest.raises(SpaceError):
            eh.TextSpace("religion", rules=wrong)


def test_reasons_are_counted_and_viewable():
    texts = ["Tyson Gay ran.", "A gay man came.", "My gay-colored flag."]
    bound = eh.TextSpace("orientation").begin(texts)
    frame = bound.rejected_frame()
    assert frame["reason"].tolist() == ["name", "compound"]
    assert frame["term"].tolist() == ["Gay", "gay"]
    run = eh.audit(lambda asked: [1 for _ in asked], eh.TextSpace("orientation"), "text-random", data=texts)
    assert run.counts["terms_rejected_name"] == run.counts["terms_rejected_compound"] == 1


def test_rules_read_whatever_the_words_are():
    """A free change cannot turn a refused spelling into a term, or the reverse."""
    words = ["rugs", "women", "Tyson", "Anna", "tongue", "church", "he", "big", "said"]
    vectors = np.random.default_rng(0).normal(size=(len(words), 3))
    space = eh.TextSpace("ethnic", (words, vectors), k=4)
    bound = space.begin(["Two big Persian women said so.", "A big Jewish man said so."])
    movable = bound.movable(bound.seeds)
    free = bound.texts.vocabulary.words[bound.texts.words[np.flatnonzero(movable)]].tolist()
    assert "women" not in free
    assert "said" in free


@pytest.mark.parametrize("name", NAMES)
def test_every_term_is_found_in_every_spelling(name):
    lexicon = load(name)
    column = max(range(len(lexicon.forms)), key=lambda j: (lexicon.forms[j].number == "plural", j))
    text = {"plural": "They saw some {} there."}.get(lexicon.forms[column].number, "They saw {} there.")
    for row in lexicon.cells:
        for spelling in row[column]:
            if spelling.lower() not in lexicon.unread | lexicon.ambiguous and not spelling.endswith("people"):
                _, _, found, rejected = parsed(name, text.format(spelling))
                assert len(found) == 1, (spelling, rejected)


# Several spellings of an identity.


def test_each_common_spelling_is_asked():
    texts = asked("orientation", "The gay man came.")
    assert {"The straight man came.", "The heterosexual man came.", "The homosexual man came."} <= set(texts)
    assert asked("orientation", "The gay man came.", spellings="first").count("The heterosexual man came.") == 0


def planted(identity, word=False):
    """A model biased against an identity, in all spellings, or against one word."""
    names = {word} if word else {s.lower() for row in load("orientation").cells for c in row for s in c
                                 if identity in load("orientation").identities and identity == row[0][0]}  # fmt: skip

    def model(texts):
        return [int(any(name in text.lower().split() for name in names)) for text in texts]

    return model


def test_a_bias_in_all_spellings_is_found_and_that_of_one_word_is_told_apart():
    texts = ["The gay man came.", "A bisexual woman left."]
    space = eh.TextSpace("orientation")
    run = eh.audit(planted("straight"), space, "text-random", data=texts)
    assert run.found == 2
    run = eh.audit(planted("straight", "straight"), space, "text-random", data=texts)
    assert (run.found, run.counts["depends_on_the_spelling"]) == (0, 2)
    assert not run.spelling.empty
    first = eh.TextSpace("orientation", spellings="first")
    assert eh.audit(planted("straight", "straight"), first, "text-random", data=texts).found == 2
    # The source's own spellings differ, so that nothing is said about identities.
    run = eh.audit(planted("gay", "gay"), space, "text-random", data=texts[:1])
    assert (run.found, run.counts["depends_on_the_spelling"]) == (0, 1)


def test_the_noise_floor_stands_beside_the_rate():
    texts = ["The gay man came.", "A homosexual man left.", "A bisexual woman left.", "The straight man sat."]
    found = eh.estimate(planted("gay", "gay"), eh.TextSpace("orientation"), data=texts)
    assert (found.found, found.counts["depends_on_the_spelling"]) == (0, 4)
    # Three of the four texts name an identity with another spelling, and two of those are called gay.
    share, low, high = found.noise_floor
    assert share == pytest.approx(2 / 3)
    assert low < share < high
    assert "another spelling of the same identity changes 66.7%" in str(found)
    terms = found.by_term.set_index("term")
    assert terms.loc["gay", ["respelled", "changed_by_spelling"]].tolist() == [2, 1.0]
    assert terms.loc["straight", "changed_by_spelling"] == 0
    first = eh.estimate(planted("gay", "gay"), eh.TextSpace("orientation", spellings="first"), data=texts)
    assert first.noise_floor is None
    assert first.found


def test_a_free_change_never_glues_words():
    words = ["'s", "was", "is", "Valentine", "Monday", "day"]
    vectors = np.random.default_rng(0).normal(size=(len(words), 3))
    bound = eh.TextSpace("gender", (words, vectors)).begin(["On Valentine's day, she came."])
    free = bound.movable(bound.seeds)
    movable = bound.texts.vocabulary.words[bound.texts.words[free]].tolist()
    assert "'s" not in movable
    assert "day" in movable
    assert bound.moves is not None
    similar = bound.moves.of(bound.texts.words[free])
    assert "'s" not in bound.texts.vocabulary.words[similar[similar >= 0]].tolist()


def brute(labels, ids, source):
    """Whether some group differs in all its places, and its source group in none."""
    own = labels[0]
    groups = {}
    for label, group in zip(labels, ids, strict=True):
        groups.setdefault(group, []).append(label != own)
    return any(
        all(groups[g]) and not any(groups.get(s, [])) for g, s in zip(ids, source, strict=True) if g != s
    )  # fmt: skip


def test_groups_are_judged_as_written_down():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, m = 4, 7
        ids = np.concatenate([np.zeros((n, 1), dtype=int), rng.integers(1, 4, size=(n, m - 1))], axis=1)
        source = np.where(ids == 0, 0, 1)
        offset = 10 * np.arange(n)[:, None]
        labels = rng.integers(0, 2, size=(n, m))
        outputs = Outputs(labels, None, np.zeros(n, dtype=int), Groups(ids + offset, source + offset))
        got = Flip().judge(outputs)
        expected = [brute(labels[i], ids[i], source[i]) for i in range(n)]
        assert got.unfair.tolist() == expected
        assert (got.within == ((labels != labels[:, :1]).any(axis=1) & ~got.unfair)).all()
        for i in np.flatnonzero(got.unfair):
            assert labels[i, got.second[i]] != labels[i, 0]
        scores = rng.uniform(size=(n, m, 1)).round(1)
        gaps = Gap(0.3).judge(Outputs(labels, scores, np.zeros(n, dtype=int), Groups(ids + offset, source + offset)))
        far = (np.abs(scores[..., 0] - scores[:, :1, 0]) > 0.3).astype(int)
        assert gaps.unfair.tolist() == [brute(far[i], ids[i], source[i]) for i in range(n)]
