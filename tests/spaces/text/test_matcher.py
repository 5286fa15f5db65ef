"""Free changes do not change how terms are read, so a test depends on the text alone."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.repairs.data import Found, UsedTexts
from evenhand.spaces.text.space import replace_random_word
from evenhand.spaces.text.tokens import Texts

FREE = [
    "the", "these", "very", "in", "let", "is", "he", "who", "people", "student", "pencil", "market", "house", "south",
    "new", "korea", "zealand", "american", "quickly", "everything", "loves", "naked", "years", "person", "box", "side",
]  # fmt: skip
TERMS = ["a", "an", "white", "Black", "Asian", "African", "her", "his", "Turkey", "us", "Chinese", "old", "whites"]
VECTORS = np.random.default_rng(3).normal(size=(len(FREE) + len(TERMS), 3))
LEXICONS = {"race": "the Asians", "country": "in Turkey", "gender": "his box", "age": "the teenagers"}
"""Each with a text that can always be tested."""


def small_space(lexicon, *, avoid=True, k=4):
    return eh.TextSpace.paper(lexicon, (FREE + [term.lower() for term in TERMS], VECTORS), k=k, avoid_protected=avoid)


def checksum(texts):
    return [zlib.crc32(text.encode()) % 3 == 0 for text in texts]


written = st.lists(st.sampled_from(FREE + TERMS), min_size=3, max_size=7).map(lambda words: " ".join(words) + ".")


@settings(max_examples=20, deadline=None)
@given(st.lists(written, min_size=4, max_size=12), st.sampled_from(sorted(LEXICONS)), st.booleans())
def test_free_changes_keep_the_terms(strings, lexicon, avoid):
    bound = small_space(lexicon, avoid=avoid).begin([*strings, LEXICONS[lexicon]])
    people = bound.seeds
    for step in range(6):
        _, people = replace_random_word(bound, people, Stream(step), "walk", np.arange(len(people)), step)
        fresh, known = bound.swaps.find(Texts.of(people.rows)), bound.found.of(people.seeds)
        for field in ("text", "start", "stop", "form", "identity", "casing"):
            assert getattr(fresh, field).tolist() == getattr(known, field).tolist(), people.rows
    if len(people):
        # So a text has one key, from whichever seed it was made.
        again = small_space(lexicon, avoid=avoid).begin(people.rows).seeds
        assert again.keys.tolist() == people.keys.tolist(), people.rows


@settings(max_examples=8, deadline=None)
@given(st.lists(written, min_size=4, max_size=12), st.sampled_from(sorted(LEXICONS)), st.booleans())
def test_findings_are_distinct_pairs(strings, lexicon, avoid):
    search = eh.TextRandom(trials=25, max_iter=4, rounds=1)
    run = eh.audit(checksum, small_space(lexicon, avoid=avoid), search, data=[*strings, LEXICONS[lexicon]])
    pairs = run.findings[["text", "counterpart_text"]]
    assert not pairs.duplicated().any()


def test_seeds_that_become_equal_are_judged_once():
    words, vectors = ["dog", "cat", "pencil", "student"], [[1, 0], [1, 0.01], [0, 1], [0.01, 1]]
    space = eh.TextSpace.paper("race", (words, vectors), k=1)
    texts = [f"The white {who} saw Asians, a {what}." for who in ("student", "pencil") for what in ("dog", "cat")]
    run = eh.audit(
        lambda asked: ["Asian" in text for text in asked], space, eh.TextRandom(trials=6, rounds=1), data=texts
    )
    # What makes "white" a term stays, so two texts have one term and two have two.
    assert run.found == run.findings["text"].nunique() == 4
    assert sorted(run.findings["text"]) == sorted(texts)


@pytest.mark.parametrize(
    ("lexicon", "text", "free"),
    [
        ("race", "A white student came in.", "came in"),
        ("race", "He is white, they said.", "they said"),
        ("race", "The white pencil and some tall Asians came", "tall came"),
        ("religion", "The loud Jews came", "The loud came"),
        ("religion", "Some loud Christian schools opened", "Some opened"),
        ("country", "We flew from Turkey to France", "We flew to"),
        ("gender", "Soon we met her old mother", "Soon we"),
    ],
)
def test_words_that_decide_a_term_are_not_free(lexicon, text, free):
    words = [word.strip(".,") for word in text.split()]
    vectors = np.random.default_rng(0).normal(size=(len(words) + 1, 3))
    bound = eh.TextSpace.paper(lexicon, ([word.lower() for word in words] + ["other"], vectors)).begin([text])
    assert [words[at] for at in np.flatnonzero(bound.movable(bound.seeds))] == free.split()


def test_training_texts_are_excluded_exactly():
    space = small_space("race")
    used, added = UsedTexts(space, ["A white pencil came in."]), UsedTexts(space)
    added.add(Found(["A white pencil came in."], np.array([0])))
    seeds = space.begin(["A white student came in.", "A white teacher came in."]).seeds
    made = seeds.put(np.array([2]), seeds.texts.vocabulary.ids(["pencil"]))
    assert made.rows[0] == "A white pencil came in."
    assert used(made).tolist() == added(made).tolist() == [True, False]
    assert not used(made[:0]).size
