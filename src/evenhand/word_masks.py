"""What a word matters to a decision: how its score changes once the word is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from evenhand._rng import mix
from evenhand.search import of_class
from evenhand.spaces.text.individuals import TextPairs
from evenhand.spaces.text.space import WORDS
from evenhand.spaces.text.tokens import Positions, Texts

if TYPE_CHECKING:
    from evenhand.asker import Asker
    from evenhand.spaces.text.space import BoundTextSpace

Slope = npt.NDArray[np.float64]


class Effects(Protocol):
    """Says what words of texts matter to a decision."""

    words: int
    """The most words of texts that are asked at once, as long as they are of more than one text."""

    def costs(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Positions]:
        """Count the texts that are asked for each, and their words."""
        ...

    def ask(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Slope, Slope]:
        """Return words that can move, and for each its effect, a row, at its text and at the rival."""
        ...


class Masks:
    """Scores of texts, and of their most different counterparts, without each of their words that can move.

    Of more than ``most`` such words in a text so many are tried, chosen by what is written in it.
    """

    words = WORDS

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def costs(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Positions]:
        """Count the texts that are asked for each, and their words."""
        texts = pairs.individuals.texts
        counts = np.bincount(texts.rows[self._tried(pairs, most)], minlength=len(pairs))
        rows = pairs.sides * (1 + counts)
        return rows, rows * texts.lengths

    def ask(self, pairs: TextPairs, most: int | None) -> tuple[Positions, Slope, Slope]:
        """Return words that can move, and for each its effect, a row, at its text and at the rival."""
        texts, flat = pairs.individuals.texts, self._tried(pairs, most)
        asked, rows = _masked(texts, flat), texts.rows[flat]
        if pairs.most_different is not None:
            asked += _masked(pairs.most_different.texts, pairs.places[flat])
        classes = np.tile(np.concatenate([pairs.classes, pairs.classes[rows]]), pairs.sides)
        scores = of_class(self._asker.scores(asked), classes).reshape(pairs.sides, -1)
        # The score of a class falls where its loss rises.
        effects = scores[:, rows] - scores[:, len(texts) :]
        other = np.zeros_like(effects[0]) if pairs.most_different is None else effects[1]
        return flat, effects[0][:, None], other[:, None]

    def _tried(self, pairs: TextPairs, most: int | None) -> Positions:
        ground = cast("BoundTextSpace", self._asker.ground)
        flat = np.flatnonzero(ground.movable(pairs.individuals))
        rows = pairs.individuals.texts.rows[flat]
        counts = np.bincount(rows, minlength=len(pairs))
        if most is None or counts.max(initial=0) <= most:
            return flat
        positions = (flat - pairs.individuals.texts.starts[rows]).astype(np.uint64)
        order = np.lexsort((mix(pairs.individuals.ids.view(np.uint64)[rows] + positions), rows))
        ranks = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(flat[order[ranks < most]])


def _masked(texts: Texts, flat: Positions) -> list[str]:
    return texts.strings() + texts.without(flat)
