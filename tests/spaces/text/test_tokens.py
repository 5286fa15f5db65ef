"""Tokens: any text is restored exactly, and words are recognised."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError
from evenhand.spaces.text.tokens import Case, Texts, Vocabulary, agree, plain, ranges, splice, split, vowel

UNICODE = st.text(st.characters())
"""Every character there is, halves of surrogate pairs too."""
PARTS = [*"aZß9é_-'./ \n\t\0", "\u2019", "\u0301", "\u200d", "\ufe0f", "😀", "ش", "मि", "'s", "'ll", "http://", "U.S."]
TRICKY = st.lists(st.sampled_from(PARTS)).map("".join)


@given(st.one_of(UNICODE, TRICKY, st.text()))
def test_joining_gives_the_text_back(text):
    tokens = split(text)
    assert "".join(tokens) == text
    assert len(tokens) % 2 == 1


@given(st.one_of(UNICODE, TRICKY))
def test_every_letter_is_in_a_word_and_every_word_has_one(text):
    tokens = split(text)
    assert not any(c.isalnum() for gap in tokens[0::2] for c in gap)
    assert all(any(c.isalnum() for c in word) for word in tokens[1::2])
    assert not any(c.isspace() for word in tokens[1::2] for c in word)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  \n ", []),
        ("He'll say it isn't hers.", ["He", "'ll", "say", "it", "isn't", "hers"]),
        ("O\u2019Brien\u2019s Jews' 'quoted'", ["O\u2019Brien", "\u2019s", "Jews", "quoted"]),
        ("rock'n'roll 's ('s", ["rock'n'roll", "s", "s"]),
        ("anti-Muslim snake_case 3.5", ["anti", "Muslim", "snake", "case", "3", "5"]),
        ("the U.S. and U.S.A, e.g. here.", ["the", "U.S.", "and", "U.S.A", "e.g.", "here"]),
        ("see http://x.org/Jews?a=1 and www.Y.com", ["see", "http://x.org/Jews?a=1", "and", "www.Y.com"]),
        ("e\u0301te\u0301's नमस्ते", ["e\u0301te\u0301", "'s", "नमस्ते"]),
        ("شكرا جزيلا שָׁלוֹם", ["شكرا", "جزيلا", "שָׁלוֹם"]),
        ("می\u200cکنم", ["می\u200cکنم"]),
        ("❤️ 👩‍👩‍👧 ok👍🏽no", ["ok", "no"]),
        ("中文 ok", ["中文", "ok"]),
    ],
)
def test_splitting_into_words(text, words):
    assert split(text)[1::2] == words


@pytest.mark.parametrize(
    "part", ["a", "a'", "a.", "x's", "e\u0301", "\u0301", "😀", " ", "http://", "www.", "'", "A.b ", "ש ", "\ud800"]
)
def test_long_texts_come_back(part):
    text = part * (100_000 // len(part))
    assert "".join(split(text)) == text


@given(UNICODE)
def test_lower_case_is_final(text):
    assert text.lower().lower() == text.lower()


@pytest.mark.parametrize(
    ("word", "case"),
    [
        ("imam", Case.LOWER),
        ("Imam", Case.TITLE),
        ("IMAM", Case.UPPER),
        ("iMam", Case.MIXED),
        ("McCoy", Case.MIXED),
        ("A", Case.TITLE),
        ("I", Case.LOWER),
        ("42", Case.LOWER),
        ("شكرا", Case.LOWER),
        ("", Case.LOWER),
        ("U.S.", Case.UPPER),
    ],
)
def test_cases(word, case):
    assert Case.of(word) is case


@given(st.text(string.ascii_lowercase, min_size=2), st.sampled_from([Case.LOWER, Case.TITLE, Case.UPPER]))
def test_a_word_takes_a_case_over(word, case):
    assert Case.of(case.write(word)) is case
    assert case.write(word).lower() == word


@given(st.text(st.sampled_from("aA.'hHtTpP:/wW sSlLdD1_-\x1c\x1f\n\"<>mMvVeErR"), max_size=30))
def test_plain_texts_are_cut_as_all_others_are(text: str) -> None:
    from evenhand.spaces.text.tokens import _pattern

    assert _pattern(True).split(text) == _pattern(False).split(text)


WORDS = st.sampled_from(["one", "Two", "THREE", "four", "U.S.", "é"])
SENTENCES = st.lists(WORDS, max_size=6).map(", ".join)
BLOCKS = st.lists(st.one_of(SENTENCES, st.text(st.characters(), max_size=12)), max_size=8)


@given(BLOCKS)
def test_texts_come_back(strings):
    texts = Texts.of(strings)
    assert texts.strings() == strings
    assert texts.lengths.tolist() == [len(split(text)) // 2 for text in strings]
    words = [word for text in strings for word in split(text)[1::2]]
    assert texts.vocabulary.words[texts.words].tolist() == words
    assert texts.vocabulary.words[texts.vocabulary.lower[texts.words]].tolist() == [word.lower() for word in words]
    assert texts.vocabulary.cases[texts.words].tolist() == [Case.of(word) for word in words]


@given(BLOCKS, st.data())
def test_some_of_the_texts(strings, data):
    which = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=10) if strings else st.just([]))
    assert Texts.of(strings)[np.array(which, dtype=np.int64)].strings() == [strings[i] for i in which]
    mask = np.array([bool(len(text) % 2) for text in strings], dtype=bool)
    assert Texts.of(strings)[mask].strings() == [text for text in strings if len(text) % 2]


def test_one_vocabulary_numbers_all():
    vocabulary = Vocabulary()
    first, second = Texts.of(["a b"], vocabulary), Texts.of(["b c"], vocabulary)
    assert first.words[1] == second.words[0]
    before = vocabulary.cases
    vocabulary.ids(["NEW"])
    assert len(before) == len(vocabulary) - 2
    assert vocabulary.cases[-2:].tolist() == [Case.UPPER, Case.LOWER]


@given(st.lists(st.tuples(WORDS, st.sampled_from(Case)), max_size=9))
def test_words_are_written_in_cases(pairs):
    vocabulary = Vocabulary()
    ids = vocabulary.ids([word for word, _ in pairs])
    written = vocabulary.written(ids, np.array([case for _, case in pairs], dtype=np.int8))
    assert vocabulary.words[written].tolist() == [case.write(word) for word, case in pairs]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5))))
def test_ranges(pairs):
    starts, lengths = (np.array([pair[n] for pair in pairs], dtype=np.int64) for n in (0, 1))
    assert ranges(starts, lengths).tolist() == [a + i for a, n in pairs for i in range(n)]


def spliced(text, changes, pieces):
    """Replace words of one text, one after the other from the end, in a plain list."""
    tokens, origin = split(text), list(range(len(split(text)) // 2))
    for start, stop, piece in reversed(changes):
        tokens[2 * start + 1 : 2 * stop] = split(pieces[piece])[1:-1]
        origin[start:stop] = [-1] * (len(split(pieces[piece])) // 2)
    return "".join(tokens), origin


@given(st.lists(SENTENCES, max_size=6), st.data())
def test_splicing_is_replacing_one_after_the_other(strings, data):
    pieces = ["new", "very new", "New York-City"]
    changes = []
    for row, text in enumerate(strings):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(split(text)) // 2), unique=True, max_size=6)))
        for start, stop in zip(cuts[0::2], cuts[1::2], strict=False):
            changes.append((row, start, stop, data.draw(st.integers(0, 2))))
    texts = Texts.of(strings)
    rows, starts, stops, which = np.array(changes, dtype=np.int64).reshape(-1, 4).T
    made, origin = splice(texts, rows, starts, stops, Texts.of(pieces, texts.vocabulary), which)
    expected = [spliced(text, [c[1:] for c in changes if c[0] == row], pieces) for row, text in enumerate(strings)]
    assert made.strings() == [text for text, _ in expected]
    assert origin.tolist() == [place for _, places in expected for place in places]


@pytest.mark.parametrize("wrong", [None, 3, b"bytes", float("nan")])
def test_values_that_are_not_texts_are_refused(wrong):
    with pytest.raises(DataError, match="text 1 must be a string, got"):
        Texts.of(["good", wrong])


AN = (
    "atheist Egyptian imam old uncle unborn unimportant uninvited unidentified umbrella usher urban hour honest honour "
    "heiress FBI NBA X 8 80 11 18 ugly Uzbek Icelander elderly Émile MP"
)
A = (
    "Christian European unit university unique user useful usual Ukrainian Ugandan Uruguayan Uyghur utility one once "
    "UK US USA UAE Hindu Muslim heathen history SLAV FRENCH RWANDAN 1 100 180 yes ewe eulogy Utah NATO"
)


@pytest.mark.parametrize("word", AN.split())
def test_an(word):
    assert vowel(word)


@pytest.mark.parametrize("word", [*A.split(), "", "😀", "ش"])
def test_a(word):
    assert not vowel(word)


@pytest.mark.parametrize(
    ("text", "at", "word", "expected"),
    [
        ("a man", 1, "imam", "an man"),
        ("an imam", 1, "man", "a imam"),
        ("a man", 1, "boy", "a man"),
        ("an man", 1, "boy", "an man"),
        ("A man", 1, "imam", "An man"),
        ("A US", 1, "Israeli", "An US"),
        ('a "man"', 1, "imam", 'an "man"'),
        ("a. man", 1, "imam", "a. man"),
        ("the man", 1, "imam", "the man"),
        ("a very man", 2, "imam", "a very man"),
        ("man", 0, "imam", "man"),
        ("a\n\nman", 1, "imam", "a\n\nman"),
    ],
)
def test_the_article_follows_a_word(text, at, word, expected):
    texts = Texts.of(["before a", text])
    assert agree(texts, np.array([2 + at]), texts.vocabulary.ids([word])).strings() == ["before a", expected]


def test_terms_in_capitals_have_articles_in_capitals():
    texts = Texts.of(["A MAN, a MAN, An IMAM"])
    words = texts.vocabulary.ids(["IMAM", "IMAM", "MAN"])
    assert agree(texts, np.array([1, 3, 5]), words, shouted=np.ones(3, bool)).strings() == ["AN MAN, an MAN, A IMAM"]


def test_long_gaps():
    assert plain(" " * 100_000)
    assert not plain(" " * 100_000 + ".")
