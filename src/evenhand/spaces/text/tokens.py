"""Tokens: a text split into words and gaps whose concatenation is the exact text; the case of a word.

A word is a run of letters, digits and the marks that belong to them, with apostrophes inside (``don't``); the endings
``'s 'll 'd 're 've 'm`` are words of their own, so that "he" is found in "he'll". Web addresses and abbreviations with
points (``U.S.``) are one word each. Everything else, hyphens too, is part of a gap.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError
from evenhand.spaces.attributes import Mask

_MARKS = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))
_JOINERS = "\u200c\u200d"


@lru_cache(maxsize=2)
def _pattern(ascii: bool) -> re.Pattern[str]:
    """Compile the pattern of words; plain ASCII has no marks and fewer letters."""
    if ascii:
        letter, sign, space, run, before = "[A-Za-z]", "[A-Za-z0-9]", r"\s\x1c-\x1f", "[A-Za-z0-9]+", r"\w"
    else:
        letter, sign, space = r"[^\W\d_]", r"[^\W_]", r"\s"
        # Python's regular expressions have no class of marks, so it is listed.
        marks = "".join(c for span in _MARKS for c in map(chr, span) if unicodedata.category(c)[0] == "M")
        # Most characters lie before the first mark; searching all marks for each would take most of the time.
        run = rf"{sign}+(?:(?![\0-\u02ff])[{_JOINERS}{marks}]+{sign}*)*"
        before = rf"\w{marks}"
    ending = rf"(?i:s|ll|d|re|ve|m)(?!{sign})"
    words = (
        rf"(?=[hHwW])(?i:https?://|www\.)[^{space}<>\"]+",
        rf"(?:{letter}\.){{2,}}(?:{letter}(?!{sign}))?",
        rf"{run}(?:['\u2019](?!{ending}){run})*",
    )
    return re.compile(rf"((?={sign})(?:{'|'.join(words)})|(?=['\u2019])(?<=[{before}]).{ending})", re.ASCII * ascii)


def split(text: str) -> list[str]:
    """Split a text into gap, word, gap, ..., word, gap; gaps may be empty, and ``"".join`` gives the text back.

    >>> split("She's a well-known (U.S.) jurist!")
    ['', 'She', '', "'s", ' ', 'a', ' ', 'well', '-', 'known', ' (', 'U.S.', ') ', 'jurist', '!']
    >>> split("")
    ['']
    """
    return _pattern(text.isascii()).split(text)


class Case(enum.IntEnum):
    """The case of a word."""

    LOWER = 0
    TITLE = 1
    UPPER = 2
    MIXED = 3

    @classmethod
    def of(cls, word: str) -> Case:
        """Return a word's case; a single capital counts as title; words without case, and "I", count as lower."""
        if word == "I":
            return cls.LOWER
        if word.isupper():
            return cls.UPPER if sum(map(str.isupper, word)) > 1 else cls.TITLE
        if word == word.lower():
            return cls.LOWER
        return cls.TITLE if word[1:] == word[1:].lower() else cls.MIXED

    def write(self, word: str) -> str:
        """Write another word in this case; lower and mixed leave it unchanged, so that "Paris" keeps its capital."""
        if self is Case.UPPER:
            return word.upper()
        return word[:1].upper() + word[1:] if self is Case.TITLE else word


Ids = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]


class _Numbers(dict[str, int]):
    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        lower = word.lower()
        if lower not in self:
            self[lower] = number + 1
        return number


class Vocabulary:
    """Strings and their numbers; it grows when new strings are looked up, and numbers never change.

    It also contains the lower case of each word.

    >>> vocabulary = Vocabulary()
    >>> vocabulary.ids(["an", "Imam", "an"]).tolist()
    [0, 1, 0]
    >>> vocabulary.words[vocabulary.lower].tolist()
    ['an', 'imam', 'imam']
    """

    def __init__(self) -> None:
        self._numbers = _Numbers()
        self._columns: dict[Any, npt.NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def ids(self, words: Sequence[str]) -> Ids:
        """Number strings; new ones are added."""
        return np.fromiter(map(self._numbers.__getitem__, words), dtype=np.int32, count=len(words))

    def column(self, of: Callable[[str], Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return the value of a function for each string, by number; it is called once for each."""
        known = self._columns.get(of, np.empty(0, dtype))
        if len(known) < len(self):
            fresh = [of(word) for word in islice(self._numbers, len(known), None)]
            known = self._columns[of] = np.concatenate([known, np.array(fresh, dtype)])
        return known

    @property
    def words(self) -> npt.NDArray[np.object_]:
        """The strings, by number."""
        return self.column(str, object)

    @property
    def lower(self) -> Ids:
        """The number of each string's lower case, by number."""
        return self.column(self._lower, np.int32)

    def _lower(self, word: str) -> int:
        return self._numbers[word.lower()]

    @property
    def cases(self) -> npt.NDArray[np.int8]:
        """The ``Case`` of each string, by number."""
        return self.column(Case.of, np.int8)

    def written(self, ids: npt.NDArray[np.integer[Any]], cases: npt.NDArray[np.int8]) -> Ids:
        """Write words in the cases of others; both are arrays of one shape."""
        pairs, which = np.unique(ids.astype(np.int64) * len(Case) + cases, return_inverse=True)
        words, kinds = self.words[pairs // len(Case)].tolist(), (pairs % len(Case)).tolist()
        out: Ids = self.ids([Case(kind).write(word) for word, kind in zip(words, kinds, strict=True)])
        written: Ids = out[which.reshape(np.shape(ids))]
        return written


def ranges(starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Positions:
    """Return the members of many ranges, one after the other."""
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    out: Positions = np.arange(total) + np.repeat(starts - ends + lengths, lengths)
    return out


@dataclass(frozen=True, eq=False)
class Texts:
    """A block of texts. A text is its lead (the gap before the first word), then each word with the gap behind it.

    The words of all texts lie one after the other; those of text ``i`` are at ``starts[i]`` to ``starts[i + 1]``.

    >>> texts = Texts.of(["Hello, you!", ""])
    >>> texts.lengths.tolist(), texts.strings()
    ([2, 0], ['Hello, you!', ''])
    """

    vocabulary: Vocabulary
    leads: Ids
    words: Ids
    gaps: Ids
    starts: Positions

    @classmethod
    def of(cls, strings: Iterable[str], vocabulary: Vocabulary | None = None) -> Texts:
        """Split strings into words; new ones are added to the vocabulary."""
        vocabulary = Vocabulary() if vocabulary is None else vocabulary
        leads: list[str] = []
        parts: list[str] = []
        ends = [0]
        for number, string in enumerate([strings] if isinstance(strings, str) else strings):
            if not isinstance(string, str):
                remedy = "drop missing texts and convert others"
                raise DataError(f"text {number} must be a string, got {string!r:.60}", value=string, remedy=remedy)
            lead, *rest = split(string)
            leads.append(lead)
            parts += rest
            ends.append(len(parts) // 2)
        ids = vocabulary.ids(parts)
        return cls(vocabulary, vocabulary.ids(leads), ids[0::2].copy(), ids[1::2].copy(), np.array(ends))

    def __len__(self) -> int:
        return len(self.leads)

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Texts:
        """Return some of the texts, by mask, numbers or slice; a number may come several times."""
        rows = np.arange(len(self))[which]
        lengths = self.lengths[rows]
        flat = ranges(self.starts[rows], lengths)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return Texts(self.vocabulary, self.leads[rows], self.words[flat], self.gaps[flat], starts)

    @staticmethod
    def join(parts: Sequence[Texts]) -> Texts:
        """Put blocks of one vocabulary one after the other."""
        leads, words, gaps = (np.concatenate([getattr(p, of) for p in parts]) for of in ("leads", "words", "gaps"))
        lengths = np.concatenate([part.lengths for part in parts])
        return Texts(parts[0].vocabulary, leads, words, gaps, np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def lengths(self) -> Positions:
        """How many words each text has."""
        return np.diff(self.starts)

    @property
    def rows(self) -> Positions:
        """Which text each word belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def strings(self) -> list[str]:
        """Join the tokens; what ``of`` was given comes back exactly."""
        words = self.vocabulary.words
        parts = np.empty(2 * len(self.words), dtype=object)
        parts[0::2], parts[1::2] = words[self.words], words[self.gaps]
        pieces, ends = parts.tolist(), (2 * self.starts).tolist()
        leads = words[self.leads].tolist()
        return [lead + "".join(pieces[a:b]) for lead, a, b in zip(leads, ends, ends[1:], strict=False)]

    def cut(self, rows: Positions, starts: Positions, stops: Positions) -> Texts:
        """Return pieces: words ``starts`` to ``stops`` of ``rows``, with the gaps behind them."""
        lengths = stops - starts
        flat = ranges(self.starts[rows] + starts, lengths)
        leads = np.repeat(self.vocabulary.ids([""]), len(rows))
        return Texts(
            self.vocabulary, leads, self.words[flat], self.gaps[flat], np.concatenate([[0], np.cumsum(lengths)])
        )

    def put(self, flat: npt.NDArray[np.integer[Any]], words: Ids) -> Texts:
        """Return the texts with other words at some places of ``words``; gaps stay."""
        changed = self.words.copy()
        changed[flat] = words
        return Texts(self.vocabulary, self.leads, changed, self.gaps, self.starts)

    def without(self, flat: Positions) -> list[str]:
        """Return for each of some places of ``words`` the text without the word there; gaps stay."""
        lengths, own, rows = self.vocabulary.column(len, np.int64), self.strings(), self.rows[flat]
        ends = np.append(0, np.cumsum(lengths[self.words] + lengths[self.gaps]))
        begin = ends[flat] - ends[self.starts[rows]] + lengths[self.leads[rows]]
        pieces = zip(rows.tolist(), begin.tolist(), (begin + lengths[self.words[flat]]).tolist(), strict=True)
        return [own[row][:a] + own[row][b:] for row, a, b in pieces]


def splice(
    texts: Texts, rows: Positions, starts: Positions, stops: Positions, pieces: Texts, which: Positions
) -> tuple[Texts, Positions]:
    """Replace words ``starts`` to ``stops`` of ``rows`` by pieces, texts of at least one word and no outer gaps.

    Replacements are ordered by row and start and do not overlap. Also returned is, for each word of the new texts, its
    position in the old one, or -1 if it is new.

    >>> texts, where = Texts.of(["to France, now"]), np.array([1])
    >>> pieces = Texts.of(["South Korea"], texts.vocabulary)
    >>> changed, origin = splice(texts, np.array([0]), where, where + 1, pieces, np.array([0]))
    >>> changed.strings(), origin.tolist()
    (['to South Korea, now'], [0, -1, -1, 2])
    """
    n, per_row = len(texts), np.bincount(rows, minlength=len(texts))
    first = np.ones(len(rows), dtype=bool)
    first[1:] = rows[1:] != rows[:-1]
    # Each row is: kept, piece, kept, piece, ..., kept.
    begins, lengths = np.empty((2, 2 * len(rows) + n), dtype=np.int64)
    kept, tails = 2 * np.arange(len(rows)) + rows, 2 * np.cumsum(per_row) + np.arange(n)
    before = np.where(first, 0, np.roll(stops, 1))
    begins[kept], lengths[kept] = texts.starts[rows] + before, starts - before
    begins[kept + 1], lengths[kept + 1] = len(texts.words) + pieces.starts[which], pieces.lengths[which]
    begins[tails], lengths[tails] = texts.starts[:-1], texts.lengths
    last = np.roll(first, -1)
    begins[tails[rows[last]]] += stops[last]
    lengths[tails[rows[last]]] -= stops[last]
    flat = ranges(begins, lengths)
    words = np.concatenate([texts.words, pieces.words])[flat]
    gaps = np.concatenate([texts.gaps, pieces.gaps])[flat]
    ends = np.cumsum(lengths)
    gaps[ends[kept + 1] - 1] = texts.gaps[texts.starts[rows] + stops - 1]
    out = Texts(texts.vocabulary, texts.leads, words, gaps, np.concatenate([[0], ends[tails]]))
    return out, np.where(flat < len(texts.words), flat - texts.starts[out.rows], -1)


ARTICLES = ("a", "an")
WRITTEN = {Case.LOWER: ("a", "an"), Case.TITLE: ("A", "An"), Case.UPPER: ("A", "AN")}

# Words written with a vowel but spoken without (Europe, unit, user, Ukraine, one, UK), and the reverse (hour, FBI).
_AS_YOU = re.compile(r"eu|ew|u[iy]|uni(?![dmn])|u[bcfgkqrst][aeiou]|ukr|one\b|once\b|u[ks]?\b|u\.|uae\b")
_SILENT = re.compile(r"hour|honest|hono|heir")
_SPELLED = re.compile(r"(F(?![AEIOULRY])|[HLMNX](?![AEIOUYGH])|R(?![AEIOUHWY])|S(?=[BDFGJSXZ]|$))[A-Z]*")
_EIGHT = re.compile(r"8|1[18](?!\d)")
_OPENING = "\"'\u201c\u2018(*"


def vowel(word: str) -> bool:
    """Whether a word starts with a vowel sound, by English spelling and known exceptions."""
    lower = word.lower()
    if _SPELLED.fullmatch(word) or _EIGHT.match(word) or _SILENT.match(lower):
        return True
    return lower[:1] in tuple("aeiouàáâäåæèéêëìíîïòóôöøùúûü") and not _AS_YOU.match(lower)


def plain(gap: str) -> bool:
    """Whether the words around a gap can belong together: the gap is space, and at most an opening quote or bracket."""
    return not gap.lstrip().strip(_OPENING) and gap.count("\n") < 2


def is_article(word: str) -> bool:
    """Whether a word is "a" or "an", in any case."""
    return word.lower() in ARTICLES


def articles(texts: Texts, flat: npt.NDArray[np.integer[Any]]) -> Mask:
    """Return which places of ``texts.words`` have an article before them."""
    vocabulary, before = texts.vocabulary, np.maximum(flat, 1) - 1
    near = vocabulary.column(plain, bool)[texts.gaps[before]] & ~np.isin(flat, texts.starts)
    out: Mask = near & vocabulary.column(is_article, bool)[texts.words[before]]
    return out


def agree(texts: Texts, flat: npt.NDArray[np.integer[Any]], words: Ids, shouted: Mask | bool = False) -> Texts:
    """Return the texts with the articles before some positions changed to fit ``words``, which are inserted later.

    Only articles whose sound changes: a wrong article is not corrected. ``shouted`` marks positions in capitals, where
    "A" becomes "AN".

    >>> texts = Texts.of(["A Christian, A JEW, an ATHEIST"])
    >>> words = texts.vocabulary.ids(["atheist", "ATHEIST", "JEW"])
    >>> agree(texts, np.array([1, 3, 5]), words, np.array([False, True, True])).strings()
    ['An Christian, AN JEW, a ATHEIST']
    """
    vocabulary = texts.vocabulary
    sounds, cases = vocabulary.column(vowel, bool), vocabulary.cases
    changed = articles(texts, flat) & (sounds[words] != sounds[texts.words[flat]])
    where, words = flat[changed] - 1, words[changed]
    case = cases[texts.words[where]]
    case = np.where((case == Case.TITLE) & np.broadcast_to(shouted, len(flat))[changed], Case.UPPER, case)
    written = np.array([vocabulary.ids(WRITTEN.get(kind, ARTICLES)) for kind in Case])
    return texts.put(where, written[case, sounds[words].astype(np.intp)])
