"""Many texts as arrays of word numbers, so that thousands are handled without an object for each token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError
from evenhand.text.tokens import Case, split

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
    """Strings and their numbers; it grows with what it is asked for, and a number never changes.

    Where a word is, its lower case is too.

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
        """Return what a function says of each string, by number; it is asked once for each."""
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
        """Write words in the cases of others; both are arrays of one shape.

        >>> vocabulary = Vocabulary()
        >>> ids = vocabulary.written(vocabulary.ids(["imam", "imam"]), np.array([Case.UPPER, Case.LOWER]))
        >>> vocabulary.words[ids].tolist()
        ['IMAM', 'imam']
        """
        pairs, which = np.unique(ids.astype(np.int64) * len(Case) + cases, return_inverse=True)
        words, kinds = self.words[pairs // len(Case)].tolist(), (pairs % len(Case)).tolist()
        out: Ids = self.ids([Case(kind).write(word) for word, kind in zip(words, kinds, strict=True)])
        written: Ids = out[which.reshape(np.shape(ids))]
        return written


def ranges(starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Positions:
    """Return the members of many ranges, one after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
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
        """Cut strings into words; new ones are added to the vocabulary."""
        vocabulary = Vocabulary() if vocabulary is None else vocabulary
        leads: list[str] = []
        parts: list[str] = []
        ends = [0]
        for number, string in enumerate([strings] if isinstance(strings, str) else strings):
            if not isinstance(string, str):
                got = f"text {number} must be a string, got {string!r:.60} ({type(string).__name__})"
                raise DataError(f"{got}; drop missing texts and convert others")
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
        """Put blocks of one vocabulary one after the other.

        >>> one = Texts.of(["a b"])
        >>> Texts.join([one, one]).strings()
        ['a b', 'a b']
        """
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

    def padded(self, fill: int = -1) -> Ids:
        """Return the words as a matrix, one row for each text, filled up at the end.

        >>> Texts.of(["one two", "three"]).padded().tolist()
        [[0, 2], [4, -1]]
        """
        out = np.full((len(self), int(self.lengths.max(initial=0))), fill, dtype=np.int32)
        out[self.rows, np.arange(len(self.words)) - self.starts[self.rows]] = self.words
        return out

    def cut(self, rows: Positions, starts: Positions, stops: Positions) -> Texts:
        """Return pieces: words ``starts`` to ``stops`` of ``rows``, with the gaps behind them.

        >>> Texts.of(["one, two, three"]).cut(np.array([0]), np.array([1]), np.array([3])).strings()
        ['two, three']
        """
        lengths = stops - starts
        flat = ranges(self.starts[rows] + starts, lengths)
        leads = np.repeat(self.vocabulary.ids([""]), len(rows))
        return Texts(
            self.vocabulary, leads, self.words[flat], self.gaps[flat], np.concatenate([[0], np.cumsum(lengths)])
        )

    def put(self, flat: npt.NDArray[np.integer[Any]], words: Ids) -> Texts:
        """Return the texts with other words at some places of ``words``; gaps stay.

        >>> texts = Texts.of(["one two", "three"])
        >>> texts.put(np.array([2]), texts.vocabulary.ids(["four"])).strings()
        ['one two', 'four']
        """
        changed = self.words.copy()
        changed[flat] = words
        return Texts(self.vocabulary, self.leads, changed, self.gaps, self.starts)

    def without(self, flat: Positions) -> list[str]:
        """Return for each of some places of ``words`` the text without the word there; gaps stay.

        >>> Texts.of(["one, two", "three"]).without(np.array([0, 1, 2]))
        [', two', 'one, ', '']
        """
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
