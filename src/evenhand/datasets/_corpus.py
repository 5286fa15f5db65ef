"""Labelled texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._rng import Stream
from evenhand.errors import DataError

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts with their labels: 1 is toxic, 0 is not.

    >>> corpus = Corpus(("Thank you.", "You fool.", "Well done."), np.array([0, 1, 0]))
    >>> len(corpus), corpus[corpus.labels == 1].texts
    (3, ('You fool.',))
    """

    texts: tuple[str, ...]
    labels: Labels

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise DataError(f"each text needs a label: got {len(self.texts)} texts and {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} texts, {int(self.labels.sum()):,} toxic)"

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Corpus:
        """Return some of the texts, by mask, numbers or slice."""
        rows = np.arange(len(self))[which]
        return Corpus(tuple(self.texts[row] for row in rows.tolist()), self.labels[rows])

    def split(self, share: float = 0.7, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Share the texts out at random, equal ones to the same side: those to train on, then the others.

        >>> train, test = Corpus(tuple("abcdefghij"), np.zeros(10, dtype=np.int64)).split(0.5)
        >>> sorted(train.texts + test.texts) == list("abcdefghij")
        True
        """
        numbers: dict[str, int] = {}
        which = np.array([numbers.setdefault(text, len(numbers)) for text in self.texts], dtype=np.int64)
        first = Stream(seed).unit("split", which, 0) < share
        return self[first], self[~first]
