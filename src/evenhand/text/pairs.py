"""Texts, each beside one of its counterparts: what a search compares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.text.individuals import TextIndividuals
from evenhand.text.swaps import Counterparts
from evenhand.text.texts import Positions


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Texts, a counterpart of each, and what the model decides for the texts."""

    individuals: TextIndividuals
    most_different: Counterparts | None
    """None where a search looks at the texts alone."""
    classes: npt.NDArray[np.int64]
    """The decisions, as columns of the scores."""

    def __len__(self) -> int:
        return len(self.individuals)

    def __getitem__(self, which: Any) -> TextPairs:
        """Return some of them, by mask, positions or slice."""
        most_different = None if self.most_different is None else self.most_different[which]
        return TextPairs(self.individuals[which], most_different, self.classes[which])

    @property
    def alone(self) -> TextPairs:
        """The texts without their counterparts."""
        return replace(self, most_different=None)

    @property
    def sides(self) -> int:
        """How many texts there are of each."""
        return 1 if self.most_different is None else 2

    @cached_property
    def places(self) -> Positions:
        """For each word of the texts, where it stands among all words of the counterparts; -1 if it does not."""
        assert self.most_different is not None
        texts, (others, origin) = self.individuals.texts, (self.most_different.texts, self.most_different.origin)
        there = np.flatnonzero(origin >= 0)
        places = np.full(len(texts.words), -1)
        places[texts.starts[others.rows[there]] + origin[there]] = there
        return places
