"""Blocks of texts against plain lists of words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError
from evenhand.spaces.text.tokens import Case, Texts, Vocabulary, ranges, splice, split

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


@given(BLOCKS)
def test_a_matrix_has_the_words_of_each_text(strings):
    texts = Texts.of(strings)
    for row, text in zip(texts.padded(fill=-7), strings, strict=True):
        words = split(text)[1::2]
        assert texts.vocabulary.words[row[: len(words)]].tolist() == words
        assert (row[len(words) :] == -7).all()


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
def test_what_is_no_text_is_refused(wrong):
    with pytest.raises(DataError, match="text 1 must be a string, got"):
        Texts.of(["good", wrong])
