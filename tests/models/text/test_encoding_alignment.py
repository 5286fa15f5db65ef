from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.text.encoding import Encoder, Pieces, Row, by_spans
from evenhand.spaces.text.tokens import Texts

texts = st.lists(st.text(st.sampled_from("ab'é -,.!\n\U0001f600日"), max_size=24), min_size=1, max_size=6)
longest = st.integers(1, 12)


class Table(dict):
    def __missing__(self, token):
        self[token] = len(self) + 5
        return self[token]


class Tokens:
    """Encodes the tokens that a pattern finds; knows to which characters each id belongs."""

    def __init__(self, pattern, known=lambda token: True, marks=(), limit=None, keep="start", least=0):
        self.pattern, self.table, self.known = re.compile(pattern), Table(), known
        self.marks, self.limit, self.keep, self.least = list(marks), limit, keep, least

    def spans(self, text):
        found = [match.span() for match in self.pattern.finditer(text) if self.known(match[0])]
        if self.limit is None:
            return found
        return found[: self.limit] if self.keep == "start" else found[-self.limit :]

    def ids(self, text):
        row = [*self.marks[:1], *(self.table[text[a:b]] for a, b in self.spans(text)), *self.marks[1:]]
        return row + [0] * (self.least - len(row))

    def __call__(self, texts):
        return [self.ids(text) for text in texts]

    def truth(self, texts):
        """The character spans of the ids that each word has, by looking at the text."""
        out = []
        for number, string in enumerate(texts.strings()):
            place = len(texts.vocabulary.words[texts.leads[number]])
            for flat in range(texts.starts[number], texts.starts[number + 1]):
                word = texts.vocabulary.words[texts.words[flat]]
                end = place + len(word)
                out.append([span for span in self.spans(string) if span[0] < end and span[1] > place])
                place = end + len(texts.vocabulary.words[texts.gaps[flat]])
        return out


def aligned(tokens, strings):
    """The spans of the ids that each word was given."""
    block, encoder = Texts.of(strings), Encoder(tokens)
    rows = encoder.rows(strings)
    got = Pieces(encoder).align(block, rows)
    spans = [
        [None] * len(tokens.marks[:1])
        + tokens.spans(text)
        + [None] * (len(row.fields[0]) - len(tokens.marks[:1]) - len(tokens.spans(text)))
        for text, row in zip(strings, rows, strict=True)
    ]
    flat = [span for row in spans for span in row]
    mine = [[flat[i] for i in np.flatnonzero(got.ids == piece)] for piece in got.words]
    return mine, tokens.truth(block)


ENCODERS = {
    "letters": {"pattern": "."},
    "letters and line breaks": {"pattern": "(?s)."},
    "words and signs": {"pattern": r"\w+|[^\w\s]"},
    "words without apostrophes": {"pattern": r"\w+"},
    "between spaces": {"pattern": r"\S+"},
    "with marks": {"pattern": r"\w", "marks": (2, 3)},
    "some dropped": {"pattern": r"\w+", "known": lambda token: "a" in token},
    "at least eight": {"pattern": r"\w", "least": 8, "marks": (2, 3)},
}


def longest_piece(tokens, text):
    """How many ids the longest stretch without white space would have, were nothing cut."""
    return max((len(tokens.pattern.findall(piece)) for piece in text.split()), default=0)


@pytest.mark.parametrize("kind", ENCODERS)
@settings(max_examples=40)
@given(strings=texts, limit=longest, keep=st.sampled_from(["start", "end"]), cut=st.booleans())
def test_words_get_the_ids_that_their_characters_became(kind, strings, limit, keep, cut):
    tokens = Tokens(**ENCODERS[kind], limit=limit if cut else None, keep=keep)
    # Without an id there is nothing to ask a net about.
    strings = [text for text in strings if tokens.ids(text)]
    if keep == "end":
        # Pieces that are cut themselves when they are encoded alone look like others.
        strings = [text for text in strings if not (cut and longest_piece(tokens, text) > limit)]
        strings = [text for text in strings if not repeats(tokens, text, limit)]
    mine, truth = aligned(tokens, strings)
    assert mine == truth


def repeats(tokens, text, limit):
    """Whether a text's end reads like its beginning, so that it cannot be told which of them was cut off."""
    every = [text[a:b] for a, b in (match.span() for match in tokens.pattern.finditer(text)) if tokens.known(text[a:b])]
    return every[:limit] == every[-limit:]


@given(strings=texts)
def test_spans_align_ids(strings):
    tokens = Tokens("(?s).")
    block = Texts.of(strings)
    rows = [
        Row((np.array(tokens.ids(text), dtype=int),), np.array(tokens.spans(text), dtype=int).reshape(-1, 2))
        for text in strings
    ]
    got = by_spans(block, rows)
    flat = [span for text in strings for span in tokens.spans(text)]
    assert [[flat[i] for i in np.flatnonzero(got.ids == piece)] for piece in got.words] == tokens.truth(block)


def test_an_unknown_word_that_is_padding_has_no_ids():
    encoder = Encoder(lambda texts: [([5 * (word == "good") for word in text.split()] + [0] * 4)[:4] for text in texts])
    block = Texts.of(["strange good things"])
    got = Pieces(encoder).align(block, encoder.rows(block.strings()))
    assert [np.flatnonzero(got.ids == piece).tolist() for piece in got.words] == [[], [1], []]


def test_the_first_text_that_does_not_fit_is_named():
    encoder = Encoder(lambda texts: [[len(text), 1] if "b" in text else [7] * len(text.split()) for text in texts])
    block = Texts.of(["a a a", "a a b c", "b a"])
    with pytest.raises(ModelError, match="'a a b c' are not those of its words"):
        Pieces(encoder).align(block, encoder.rows(block.strings()))


def test_a_piece_is_encoded_once():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return [[len(word) for word in text.split()] for text in texts]

    encoder = Encoder(encode)
    pieces = Pieces(encoder)
    for strings in (["to be or", "not to be"], ["or to be"]):
        block = Texts.of(strings)
        pieces.align(block, encoder.rows(strings))
    asked = [text for text in asked if text]
    assert len(asked) == len(set(asked))
