"""Texts to start from, and walkers that go from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.errors import DataError
from evenhand.search import Problem
from evenhand.text.individuals import TextIndividuals
from evenhand.text.texts import Positions


@dataclass(frozen=True)
class TextWalk:
    """Walkers side by side: who they are, and which texts they stand at."""

    walkers: Positions
    texts: TextIndividuals

    def __len__(self) -> int:
        return len(self.walkers)

    def __getitem__(self, which: Any) -> TextWalk:
        """Return some of the walkers."""
        return TextWalk(self.walkers[which], self.texts[which])

    @staticmethod
    def join(parts: Sequence[TextWalk]) -> TextWalk:
        """Put walkers one after the other."""
        return TextWalk(
            np.concatenate([part.walkers for part in parts]), TextIndividuals.join([part.texts for part in parts])
        )


def seeds(problem: Problem, most: int | None) -> TextWalk:
    """Return up to ``most`` different texts of the data (None: all), in an order that the run's seed decides.

    Texts that differ in the one term that is judged are one.
    """
    texts: TextIndividuals = problem.texts.seeds if problem.data is None else problem.data
    if not len(texts):
        raise DataError("there is no text to start from; give texts with a protected term: data=[...]")
    order = problem.stream.shuffled(np.arange(len(texts)), len(texts), "seeds")
    _, first = np.unique(texts.keys[order], return_index=True)
    chosen = order[np.sort(first)[:most]]
    return TextWalk(np.arange(len(chosen)), texts[chosen])
