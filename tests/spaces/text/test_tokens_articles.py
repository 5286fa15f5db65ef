"""A or an, against a list that a person wrote down."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand.spaces.text.tokens import Texts, agree, plain, vowel

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


def test_what_is_shouted_has_a_shouted_article():
    texts = Texts.of(["A MAN, a MAN, An IMAM"])
    words = texts.vocabulary.ids(["IMAM", "IMAM", "MAN"])
    assert agree(texts, np.array([1, 3, 5]), words, shouted=np.ones(3, bool)).strings() == ["AN MAN, an MAN, A IMAM"]


def test_long_gaps_are_no_trouble():
    assert plain(" " * 100_000)
    assert not plain(" " * 100_000 + ".")
