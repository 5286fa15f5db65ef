"""Swaps: a text with a protected term replaced by each other term that fits there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.spaces.attributes import Mask
from evenhand.spaces.text.lexicon import Lexicon
from evenhand.spaces.text.matcher import Casing, Finder, Occurrences
from evenhand.spaces.text.tokens import Positions, Texts, Vocabulary, agree, is_article, ranges, splice


@dataclass(frozen=True, eq=False)
class Options:
    """Possible swaps, in the order of the texts."""

    source: Positions
    """The text of each."""
    unit: Positions
    """Which term: the number of the occurrence or, of several together, of the first."""
    identity: Positions
    """The identity that is swapped in."""
    order: Positions
    """Occurrences, those that are swapped together one after the other."""
    begin: Positions
    """Where those of each option begin in the order."""
    count: Positions
    """How many are swapped together."""

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, which: Any) -> Options:
        """Return some of them, by mask or numbers."""
        return Options(
            self.source[which], self.unit[which], self.identity[which], self.order, self.begin[which], self.count[which]
        )


@dataclass(frozen=True, eq=False)
class Counterparts:
    """Texts that differ from others in a protected term only, in the order of those."""

    texts: Texts
    source: Positions
    """Which text each was made from."""
    unit: Positions
    """Which term was swapped: the number of the occurrence or, of several together, of the first."""
    identity: Positions
    """What it was swapped for."""
    origin: Positions
    """For each word of ``texts``, where it stands in its source; -1 if it belongs to the new term."""

    def __getitem__(self, which: Any) -> Counterparts:
        """Return some of them, by mask, numbers or slice."""
        rows = np.arange(len(self.texts))[which]
        words = ranges(self.texts.starts[rows], self.texts.lengths[rows])
        return Counterparts(
            self.texts[rows], self.source[rows], self.unit[rows], self.identity[rows], self.origin[words]
        )


class Swaps:
    """The terms of lexicons, ready to be found and swapped in texts of one vocabulary.

    Terms are swapped for those of the same lexicon and form. ``ambiguous`` is as in ``TextSpace``.

    >>> from evenhand.spaces.text.lexicon import load
    >>> texts = Texts.of(["A Christian wrote it.", "Nobody did."])
    >>> swaps = Swaps([load("religion")], texts.vocabulary)
    >>> found = swaps.find(texts)
    >>> len(found), found.without(texts).tolist()
    (1, [1])
    >>> swaps.counterparts(texts, found).texts.strings()[-3:]
    ['A Zoroastrian wrote it.', 'An atheist wrote it.', 'An agnostic wrote it.']
    """

    def __init__(self, lexicons: Sequence[Lexicon], vocabulary: Vocabulary, ambiguous: str = "context") -> None:
        self.vocabulary = vocabulary
        self.finder = Finder(lexicons, ambiguous)
        self.identities = [name for lexicon in lexicons for name in lexicon.identities]
        self.table, spellings = _table(lexicons)
        """The number of what is written for a form (row) of an identity (column); -1 where there is none."""
        self.pieces = Texts.of([casing.write(text) for text in spellings for casing in Casing], vocabulary)

    def find(self, texts: Texts) -> Occurrences:
        """Find all terms that can be swapped."""
        return self.look(texts)[0]

    def look(self, texts: Texts) -> tuple[Occurrences, Mask]:
        """Find all terms that can be swapped, and the words that this depends on."""
        found, seen = self.finder.look(texts)
        return found[(self.table[found.form] >= 0).sum(axis=1) > 1], seen

    def fixed(self, word: str) -> bool:
        """Whether a word must neither come nor go for terms to stay: a term begins with it, or it is an article.

        >>> from evenhand.spaces.text.lexicon import load
        >>> swaps = Swaps([load("country")], Vocabulary())
        >>> [word for word in ("New", "old", "an", "french") if swaps.fixed(word)]
        ['New', 'an', 'french']
        """
        return self.finder.head(word) or is_article(word)

    def counterparts(self, texts: Texts, found: Occurrences, *, together: bool = False) -> Counterparts:
        """Swap terms for those of every other identity that has their form; capitals and articles follow.

        One occurrence at a time or, ``together``, all occurrences of an identity in a text.

        >>> from evenhand.spaces.text.lexicon import load
        >>> texts = Texts.of(["He lost his keys."])
        >>> swaps = Swaps([load("gender")], texts.vocabulary)
        >>> swaps.counterparts(texts, swaps.find(texts)).texts.strings()
        ['She lost his keys.', 'He lost her keys.']
        >>> swaps.counterparts(texts, swaps.find(texts), together=True).texts.strings()
        ['She lost her keys.']
        """
        options = self.options(found, together=together)
        made, origin = self.swapped(texts[options.source], found, options, np.arange(len(options)))
        return Counterparts(made, options.source, options.unit, options.identity, origin)

    def options(self, found: Occurrences, *, together: bool = False) -> Options:
        """List what ``counterparts`` swaps, without swapping."""
        first, order, counts = _units(found, together)
        begin = np.cumsum(counts) - counts
        unit, identity = np.nonzero(self._fits(found, first, order, begin))
        return Options(found.text[first[unit]], first[unit], identity, order, begin[unit], counts[unit])

    def widths(self, found: Occurrences, texts: int, *, together: bool = False) -> Positions:
        """Count the counterparts of each of so many texts."""
        first, order, counts = _units(found, together)
        fits = self._fits(found, first, order, np.cumsum(counts) - counts).sum(axis=1)
        return np.bincount(found.text[first], weights=fits, minlength=texts).astype(np.int64)

    def swapped(
        self,
        texts: Texts,
        found: Occurrences,
        options: Options,
        rows: Positions,
        shift: Positions | int = 0,
    ) -> tuple[Texts, Positions]:
        """Swap an option in each of ``rows``; the other texts stay as they are.

        Where the texts are pieces, ``shift`` is the word at which each begins. Also returned is, for each word of the
        new texts, its old position, or -1 if it belongs to a new term.
        """
        row, which = np.repeat(rows, options.count), options.order[ranges(options.begin, options.count)]
        identity, shift = (np.repeat(np.broadcast_to(v, len(rows)), options.count) for v in (options.identity, shift))
        piece = self.table[found.form[which], identity] * len(Casing) + found.casing[which]
        start, stop = found.start[which] - shift, found.stop[which] - shift
        first, shouted = self.pieces.words[self.pieces.starts[piece]], found.casing[which] == Casing.UPPER
        texts = agree(texts, texts.starts[row] + start, first, shouted)
        return splice(texts, row, start, stop, self.pieces, piece)

    def _fits(self, found: Occurrences, first: Positions, order: Positions, begin: Positions) -> Mask:
        """Return which identities (columns) each unit (row) can be swapped for."""
        if not len(first):
            return np.zeros((0, self.table.shape[1]), dtype=bool)
        fits: Mask = np.logical_and.reduceat(self.table[found.form[order]] >= 0, begin)
        fits[np.arange(len(first)), found.identity[first]] = False
        return fits


def _table(lexicons: Sequence[Lexicon]) -> tuple[Positions, list[str]]:
    """Number the written terms of all lexicons."""
    forms, identities = (sum(len(getattr(lexicon, of)) for lexicon in lexicons) for of in ("forms", "identities"))
    table = np.full((forms, identities), -1)
    spellings: list[str] = []
    top = left = 0
    for lexicon in lexicons:
        for i, cells in enumerate(lexicon.cells):
            for j, cell in enumerate(cells):
                if cell:
                    table[top + j, left + i] = len(spellings)
                    spellings.append(cell[0])
        top, left = top + len(lexicon.forms), left + len(lexicon.identities)
    return table, spellings


def _units(found: Occurrences, together: bool) -> tuple[Positions, Positions, npt.NDArray[np.int64]]:
    """Group occurrences that are swapped at once: the first of each group, all by group, and how many each has."""
    if not together:
        every = np.arange(len(found))
        return every, every, np.ones(len(found), dtype=np.int64)
    groups = np.stack([found.text, found.identity], axis=1)
    _, first, which, counts = np.unique(groups, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return first, np.argsort(which.ravel(), kind="stable"), counts
