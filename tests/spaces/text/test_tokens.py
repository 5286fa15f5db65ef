"""Tokens: any text comes back exactly, and words are where people see them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.spaces.text.tokens import Case, split

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
def test_words_are_where_people_see_them(text, words):
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
