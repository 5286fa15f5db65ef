"""Which ids of a text belong to which of its words: by encoding words alone, or by the characters of the ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.errors import TEXT_IMPORTANCE, ModelError
from evenhand.models.text.encoding import Encoder, Ints, Row, sizes
from evenhand.spaces.text.tokens import Texts, ranges

_CHUNK = re.compile(r"\s*\S+|\s+")


class Alignment(NamedTuple):
    """Texts are made of pieces, which are numbered through; the ids of one piece follow each other."""

    ids: Ints
    """The piece that each id belongs to, text by text; -1 for padding and the like."""
    words: Ints
    """The piece that each word belongs to: one of its own, or one that it shares with what is written with it."""
    pieces: int
    """How many there are."""


class _Cut(NamedTuple):
    """Texts in pieces that can be encoded one by one."""

    pieces: Ints
    """The numbers of the pieces in the table of pieces, text by text."""
    lengths: Ints
    """How many pieces each text has."""
    words: Ints
    """The place of each word among the pieces."""


class Pieces:
    """The ids of words, gaps and chunks, each encoded alone once, and texts put together of them.

    Where the ids of a text's pieces, one after the other, are the ids of the text, each id belongs to its piece. That
    is tried with words and gaps, then with the parts between white space, for encoders that take a word and its comma
    as one token. Ids that even an empty text has are left out on both sides.

    >>> encoder = Encoder(lambda texts: [[len(word) for word in text.split()] for text in texts])
    >>> pieces = Pieces(encoder)
    >>> texts = Texts.of(["to be or"])
    >>> pieces.align(texts, encoder.rows(texts.strings()))
    Alignment(ids=array([1, 3, 5]), words=array([1, 3, 5]), pieces=7)
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._numbers: dict[str, int] = {}
        self._ids = _Ragged()

    @cached_property
    def _special(self) -> Ints:
        return self._encoder.ids_alone("")

    def of(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the ids of words, one word after the other, and how many each has."""
        return self._ids.take(np.array([self._number(word) for word in words], dtype=np.int64))

    def align(self, texts: Texts, rows: Sequence[Row]) -> Alignment:
        """Find the piece of every id and of every word, or raise ModelError about the first text that has none."""
        cut = self._words(texts)
        ids, failed = self._match(cut, rows)
        if not failed.any():
            return Alignment(ids, cut.words, len(cut.pieces))
        again = self._chunks(texts[failed])
        other, still = self._match(again, [rows[i] for i in np.flatnonzero(failed).tolist()])
        if still.any():
            text = texts[np.flatnonzero(failed)[still][:1]].strings()[0]
            raise ModelError(
                f"the ids that encode gives for {text!r:.60} are not those of its words one by one, so gradients "
                "cannot be assigned to words",
                remedy=("encode word by word, or use ", TEXT_IMPORTANCE),
            )
        # The new pieces are numbered behind the others.
        ids[np.repeat(failed, sizes(rows))] = np.where(other >= 0, other + len(cut.pieces), -1)
        words = cut.words.copy()
        words[failed[texts.rows]] = again.words + len(cut.pieces)
        return Alignment(ids, words, len(cut.pieces) + len(again.pieces))

    def _number(self, piece: str) -> int:
        number = self._numbers.get(piece)
        if number is None:
            number = self._numbers[piece] = len(self._numbers)
            ids = self._encoder.ids_alone(piece)
            self._ids.append(ids[~np.isin(ids, self._special)])
        return number

    def _words(self, texts: Texts) -> _Cut:
        """Cut texts into lead, word, gap, word, gap."""
        number = texts.vocabulary.column(self._number, np.int64)
        lengths = 2 * texts.lengths + 1
        places = np.arange(len(texts.words)) * 2 + texts.rows + 1
        pieces = np.empty(int(lengths.sum()), dtype=np.int64)
        pieces[2 * texts.starts[:-1] + np.arange(len(texts))] = number[texts.leads]
        pieces[places], pieces[places + 1] = number[texts.words], number[texts.gaps]
        return _Cut(pieces, lengths, places)

    def _chunks(self, texts: Texts) -> _Cut:
        """Cut texts before white space."""
        found = [_CHUNK.findall(string) for string in texts.strings()]
        flat = [chunk for chunks in found for chunk in chunks]
        lengths = np.array([len(chunks) for chunks in found], dtype=np.int64)
        # Words and chunks cover the same characters, all texts written one after the other.
        ends = np.cumsum([len(chunk) for chunk in flat])
        places = np.searchsorted(ends, _begins(texts), side="right")
        return _Cut(np.array([self._number(chunk) for chunk in flat], dtype=np.int64), lengths, places)

    def _match(self, cut: _Cut, rows: Sequence[Row]) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the piece of each id, and which texts could not be put together of their pieces."""
        ids = np.concatenate([np.empty(0, dtype=np.int64), *(row.fields[0] for row in rows)])
        text = np.repeat(np.arange(len(rows)), sizes(rows))
        real = ~np.isin(ids, self._special)
        got = np.bincount(text[real], minlength=len(rows))
        expected, per_piece = self._ids.take(cut.pieces)
        owner = np.repeat(np.arange(len(cut.pieces)), per_piece)
        of_text = np.repeat(np.arange(len(rows)), cut.lengths)
        wanted = np.bincount(of_text, weights=per_piece, minlength=len(rows)).astype(np.int64)
        begin = np.cumsum(wanted) - wanted
        out, todo = np.full(len(ids), -1), got <= wanted
        # An encoder that reads only so much drops the end, or the beginning.
        for skipped in (np.zeros_like(wanted), wanted - got):
            mine = np.flatnonzero(real & todo[text])
            at = ranges(begin + skipped, np.where(todo, got, 0))
            wrong = np.bincount(text[mine], weights=expected[at] != ids[mine], minlength=len(rows)) > 0
            fits = ~wrong[text[mine]]
            out[mine[fits]] = owner[at[fits]]
            todo &= wrong
        return out, todo | (got > wanted)


class _Ragged:
    """Arrays of different lengths, one after the other; grows."""

    def __init__(self) -> None:
        self._parts: list[Ints] = []
        self._flat, self._lengths = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    def append(self, values: npt.NDArray[np.integer]) -> None:
        self._parts.append(values.astype(np.int64))

    def take(self, which: Ints) -> tuple[Ints, Ints]:
        """Return the members of some arrays, and how many each has."""
        if self._parts:
            self._flat = np.concatenate([self._flat, *self._parts])
            self._lengths = np.concatenate([self._lengths, [len(part) for part in self._parts]]).astype(np.int64)
            self._parts = []
        begins, lengths = np.cumsum(self._lengths) - self._lengths, self._lengths[which]
        return self._flat[ranges(begins[which], lengths)], lengths


def by_spans(texts: Texts, rows: Sequence[Row]) -> Alignment:
    """Align by the characters of ids: an id belongs to the word of its last character, else of its first.

    >>> texts, spans = Texts.of(["to be"]), np.array([[0, 0], [0, 1], [1, 2], [2, 5]])
    >>> by_spans(texts, [Row((np.zeros(4, int),), spans)]).ids.tolist()
    [-1, 0, 0, 1]
    """
    spans = np.concatenate([np.empty((0, 2), dtype=np.int64), *(row.spans for row in rows if row.spans is not None)])
    begins = _begins(texts)
    lengths = texts.vocabulary.column(len, np.int64)
    ends = begins + lengths[texts.words]
    tokens = np.bincount(texts.rows, weights=lengths[texts.words] + lengths[texts.gaps], minlength=len(texts))
    characters = lengths[texts.leads] + tokens.astype(np.int64)
    offsets = np.repeat(np.cumsum(characters) - characters, sizes(rows))
    ids = np.full(len(spans), -1)
    for place in (spans[:, 0], spans[:, 1] - 1):
        character = offsets + place
        word = np.searchsorted(begins, character, side="right") - 1
        inside = (word >= 0) & (spans[:, 1] > spans[:, 0])
        inside[inside] = character[inside] < ends[word[inside]]
        ids[inside] = word[inside]
    return Alignment(ids, np.arange(len(texts.words)), len(texts.words))


def _begins(texts: Texts) -> Ints:
    """Return the place of the first character of each word, all texts written one after the other."""
    lengths = texts.vocabulary.column(len, np.int64)
    tokens = lengths[texts.words] + lengths[texts.gaps]
    before = np.cumsum(tokens) - tokens
    leads = np.cumsum(lengths[texts.leads])
    out: Ints = before + leads[texts.rows]
    return out
