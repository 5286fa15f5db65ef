"""Families and keys of texts, against plain implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.spaces.text.individuals import TextIndividuals
from evenhand.spaces.text.matcher import Swaps
from evenhand.spaces.text.space import BoundTextSpace, replace_random_word
from evenhand.spaces.text.tokens import Texts, split
from tests.text_worlds import family, team_space, team_texts

SENTENCES = [
    "A Jew and his wife. She is an ACTRESS!",
    "muslims",
    "  \u201cAn atheist,\u201d he said \U0001f600; the German wept.",
    "FROM SOUTH KOREA to France, to South Korea.",
    "A Sikh met a Sikh, and an Israeli saw them in the Netherlands",
    "a atheist from the  South-Korea ...",
]
NAMES = ["religion", "country", "gender"]


def bind(texts: list[str], **settings: object) -> BoundTextSpace:
    return eh.TextSpace.paper(NAMES, **settings).begin(texts)


@pytest.mark.parametrize("occurrences", ["each", "together"])
def test_a_family_is_the_text_and_every_swap(occurrences: str) -> None:
    bound = bind(SENTENCES, occurrences=occurrences)
    families = bound.families(bound.seeds, seed=0)
    texts = Texts.of(SENTENCES)
    swaps = Swaps(bound.space.lexicons, texts.vocabulary)
    made = swaps.counterparts(texts, swaps.find(texts), together=occurrences == "together")
    expected = [
        [text, *np.array(made.texts.strings(), dtype=object)[made.source == row]] for row, text in enumerate(SENTENCES)
    ]
    assert families.asked == [text for members in expected for text in members]
    assert families.places.tolist() == [len(members) for members in expected] == bound.sizes.tolist()
    some = families[np.array([4, 1])]
    assert some.asked == expected[4] + expected[1]
    spread = families.to_grid(np.arange(len(families.asked)))
    for row, members in enumerate(expected):
        got = [families.asked[at] for at in spread[row]]
        assert got == members + [members[0]] * (families.valid.shape[1] - len(members))


@pytest.mark.parametrize("occurrences", ["each", "together"])
def test_a_named_rival_is_made_again_and_its_words_are_aligned(occurrences: str) -> None:
    bound = bind(SENTENCES, occurrences=occurrences)
    families = bound.families(bound.seeds, seed=0)
    for nth in range(int(families.places.max())):
        places = np.minimum(nth, families.places - 1)
        most_different = bound.most_different(bound.seeds, families.most_different(places))
        assert most_different.texts.strings() == [
            families.asked[at] for at in families.at(np.arange(len(places)), places)
        ]
        for row in range(len(places)):
            start, stop = most_different.texts.starts[row : row + 2]
            origin = most_different.origin[start:stop]
            own = bound.texts.words[bound.texts.starts[row] :]
            covered = bound.found.of(np.array([row])).covered(bound.texts[[row]])
            kept = np.flatnonzero((origin >= 0) & ~covered[origin])
            assert (own[origin[kept]] == most_different.texts.words[start:stop][kept]).all()
            member = int(families.starts[row] + places[row])
            for at in kept:
                if places[row]:
                    assert families.shifted(member, int(origin[at])) == at


def test_edits_keep_terms_where_they_are() -> None:
    bound = team_space().begin(team_texts(1, 30, terms=2))
    texts = bound.seeds
    for step in range(20):
        able, texts = replace_random_word(bound, texts, Stream(3), "x", np.arange(30), step)
        assert len(able) == 30
    families = bound.families(texts, seed=0)
    expected = [member for text in texts.rows for member in family(text)]
    assert families.asked == expected
    row, position, old, new = texts.changes()
    words = bound.texts.vocabulary.words
    for text in range(30):
        here = np.flatnonzero(row == text)
        back = Texts.of([texts.rows[text]])
        back = back.put(position[here], back.vocabulary.ids(words[old[here]].tolist()))
        assert back.strings() == [bound.seeds.rows[text]]
        assert words[new[here]].tolist() == [split(texts.rows[text])[2 * at + 1] for at in position[here]]


def test_a_family_beyond_the_limit_is_a_sample_that_depends_on_seed_and_text_alone() -> None:
    texts = ["reds " * 9, "reds", "blues reds"]
    full = team_space().begin(texts)
    bound = team_space(max_family_size=5).begin(texts)
    assert (bound.sampled, bound.sizes.tolist()) == (1, [5, 3, 5])
    every = full.families(full.seeds, 0)
    drawn = set()
    for seed in range(8):
        families = bound.families(bound.seeds, seed)
        assert families.places.tolist() == bound.sizes.tolist()
        for row in range(3):
            members = families.asked[families.starts[row] : families.starts[row] + families.places[row]]
            assert members[0] == texts[row]
            assert len(set(members)) == len(members)
            assert set(members) <= set(every.asked[every.starts[row] : every.starts[row] + every.places[row]])
            assert bound.families(bound.seeds[np.array([row])], seed).asked == members
        drawn.add(tuple(families.asked[:5]))
    assert len(drawn) > 1


def test_how_many_texts_fit_a_call() -> None:
    bound = team_space().begin(["reds", "reds blues", "reds", "blues"])
    assert bound.sizes.tolist() == [3, 5, 3, 3]
    order = np.array([1, 0, 2, 3])
    assert [bound.batch_size_for(bound.seeds, order, rows) for rows in (2, 5, 7, 8, 11, 14, 99)] == [
        1,
        1,
        1,
        2,
        3,
        4,
        4,
    ]


# Keys.


def keys(texts: list[str], protected: object = "religion", occurrences: str = "each") -> list[complex]:
    bound = eh.TextSpace.paper(protected, occurrences=occurrences).begin(texts)
    assert len(bound.seeds) == len(texts)
    return bound.seeds.keys.tolist()


def members(text: str, protected: object, occurrences: str = "each") -> list[str]:
    bound = eh.TextSpace.paper(protected, occurrences=occurrences).begin([text])
    return bound.families(bound.seeds, 0).asked


@pytest.mark.parametrize(
    "text",
    [
        "A Muslim wrote it, to everyone.",
        "AN ATHEIST WROTE IT",
        "We saw some Hindus there",
        "Islam!",
    ],
)
def test_the_family_of_a_single_term_has_one_key_and_one_set_of_members(text: str) -> None:
    family = members(text, "religion")
    assert len(set(keys(family))) == 1
    for member in family:
        assert sorted(members(member, "religion")) == sorted(family)


@pytest.mark.parametrize("protected", ["religion", "race", "gender", "age"])
@pytest.mark.parametrize("occurrences", ["each", "together"])
def test_one_key_is_one_family_however_odd_the_writing(protected: str, occurrences: str) -> None:
    texts = [
        "some muslims and Moslems", "atheists are here", "a Muslim", "AN agnostic, a Christian", "An ATHEIST", "A SIKH",
        "a black man and white men", "He is white", "The boys saw her and a boy", "the elderly", "A teenager",
        "An old man, a woman and her sons",
    ]  # fmt: skip
    every = [
        m for t in eh.TextSpace.paper(protected).begin(texts).seeds.rows for m in members(t, protected, occurrences)
    ]
    bound = eh.TextSpace.paper(protected, occurrences=occurrences).begin(every)
    families = [frozenset(members(text, protected, occurrences)) for text in bound.seeds.rows]
    pairs = set(zip(bound.seeds.keys.tolist(), families, strict=True))
    assert len(pairs) == len({key for key, _ in pairs})


def test_phrases_and_single_words_have_one_key() -> None:
    family = members("They came from South Korea again, and stayed.", "country")
    assert len(set(keys(family, "country"))) == 1
    assert len({len(Texts.of([member]).words) for member in family}) > 1
    together = members("A Sikh met a Sikh.", "religion", "together")
    assert len(set(keys(together, "religion", "together"))) == 1


@pytest.mark.parametrize(
    "texts",
    [
        ["A Sikh met a Sikh.", "A Hindu met a Sikh.", "A Sikh met a Hindu."],
        ["The Muslim came", "the Muslim came", "The Muslim came ", " The Muslim came", "The  Muslim came"],
        ["A Muslim came", "a Muslim came", "a Moslem came", "a muslim came", "a MUSLIM came"],
        ["a atheist came", "a Muslim came", "an Muslim came"],
        ["some Muslims came", "some Muslim came", "some came Muslims"],
        ["good bad Muslims", "bad good Muslims", "Muslims good bad"],
        ["Muslims, good", "Muslims good,", "Muslims. good"],
    ],
)
def test_other_families_have_other_keys(texts: list[str]) -> None:
    assert len(set(keys(texts))) == len(texts)


def test_keys_identify_families_and_do_not_depend_on_the_seed() -> None:
    texts = ["reds ba be", "blues be be", "reds be bi"]
    bound = team_space().begin(texts)
    vocabulary = bound.texts.vocabulary
    changed = bound.seeds.put(np.array([1]), vocabulary.ids(["be"]))
    assert changed.rows[0] == "reds be be"
    assert changed.keys[0] == bound.seeds.keys[1]
    assert changed.ids[0] != bound.seeds.ids[1]
    assert changed[:1].keys[0] == changed.keys[0]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_order_of_edits_does_not_matter(data: st.DataObject) -> None:
    bound = team_space().begin(team_texts(5, 1))
    free = np.flatnonzero(bound.movable(bound.seeds))
    words = bound.texts.vocabulary.ids(["ba", "be", "ti"])
    edits = data.draw(st.dictionaries(st.sampled_from(free.tolist()), st.sampled_from(words.tolist()), max_size=4))
    results = []
    for order in (list(edits), data.draw(st.permutations(list(edits)))):
        texts: TextIndividuals = bound.seeds
        for at in order:
            texts = texts.put(np.array([at]), np.array([edits[at]], dtype=np.int32))
        results.append((texts.keys[0], texts.ids[0], texts.stored.tolist()))
    assert results[0] == results[1]
    same = all(bound.texts.words[at] == word for at, word in edits.items())
    assert (results[0][0] == bound.seeds.keys[0]) == same


def test_a_term_in_capitals_and_one_with_a_vowel_are_one_test() -> None:
    space = eh.TextSpace.paper({"origin": ["US", "Israeli"]})
    bound = space.begin(["A US man came.", "An Israeli man came.", "AN ISRAELI MAN CAME.", "A Israeli man came."])
    keys = bound.seeds.keys.tolist()
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    asked = [set(bound.families(bound.seeds[n : n + 1], 0).asked) for n in (0, 1)]
    assert asked[0] == asked[1] == {"A US man came.", "An Israeli man came."}
