"""Terms that were found in texts: where, which, and how they are written."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.text.articles import articles
from evenhand.text.texts import Positions, Texts, ranges
from evenhand.text.tokens import Case


class Casing(IntEnum):
    """How a term in a text differs from its spelling in the lexicon; what replaces it differs in the same way."""

    SAME = 0
    LOWER = 1
    UPPER = 2
    CAPITAL = 3

    @classmethod
    def of(cls, found: str, spelling: str, starts: bool) -> Casing:
        """Compare a term with its spelling; ``starts`` if a sentence starts with it.

        >>> Casing.of("MUSLIMS", "Muslims", False).name, Casing.of("Muslims", "Muslims", True).name
        ('UPPER', 'CAPITAL')
        """
        if found == spelling:
            return cls.CAPITAL if starts and found[:1].isupper() else cls.SAME
        if Case.of(found) is Case.UPPER:
            return cls.UPPER
        if found == found.lower():
            return cls.LOWER
        return cls.CAPITAL if found[:1].isupper() else cls.SAME

    def write(self, spelling: str) -> str:
        """Write another term so.

        >>> Casing.CAPITAL.write("the Netherlands"), Casing.LOWER.write("Muslims")
        ('The Netherlands', 'muslims')
        """
        if self is Casing.CAPITAL:
            return spelling[:1].upper() + spelling[1:]
        return spelling.upper() if self is Casing.UPPER else spelling.lower() if self is Casing.LOWER else spelling


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Terms found in a block of texts, in order: words ``start`` to ``stop`` of ``text``, with identity and form."""

    text: Positions
    start: Positions
    stop: Positions
    form: Positions
    identity: Positions
    casing: Positions

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, which: Any) -> Occurrences:
        """Return some of them, by mask, numbers or slice."""
        return Occurrences(*(getattr(self, field.name)[which] for field in fields(self)))

    def of(self, rows: npt.NDArray[np.integer[Any]]) -> Occurrences:
        """Return the terms of texts that were made from these, where text ``i`` was made from ``rows[i]``.

        A free change replaces one word by one word, so terms stay where they were.
        """
        size = int(max(self.text.max(initial=-1), rows.max(initial=-1))) + 1
        counts = np.bincount(self.text, minlength=size)
        found = self[ranges((np.cumsum(counts) - counts)[rows], counts[rows])]
        found.text[:] = np.repeat(np.arange(len(rows)), counts[rows])
        return found

    def covered(self, texts: Texts) -> npt.NDArray[np.bool_]:
        """Tell which words of the texts belong to a term or are the article before one; the others are free."""
        out = np.zeros(len(texts.words), dtype=bool)
        flat = texts.starts[self.text] + self.start
        out[flat[articles(texts, flat)] - 1] = True
        out[ranges(flat, self.stop - self.start)] = True
        return out

    def without(self, texts: Texts) -> Positions:
        """Return the texts without any term, which cannot be tested."""
        return np.setdiff1d(np.arange(len(texts)), self.text)
