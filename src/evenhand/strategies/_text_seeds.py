"""Texts to start from, and walkers that go from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evenhand.errors import DataError
from evenhand.search import Problem, Search, Verdicts
from evenhand.spaces.text.individuals import TextIndividuals
from evenhand.spaces.text.space import nudged
from evenhand.spaces.text.tokens import Positions
from evenhand.strategies._rounds import numbers

IDLE = 100
"""A search ends after so many individuals for each text without a fresh test."""
NUDGES = 10
"""The most words that are replaced at random before a text is started from again."""


class Settings(Protocol):
    """The settings of a search of texts that decide where it starts and ends."""

    @property
    def seeds(self) -> int | None:
        """Texts that a round starts from; None: all."""

    @property
    def max_iter(self) -> int:
        """Judgements of each seed."""

    @property
    def trials(self) -> int:
        """Steps of each walk."""

    @property
    def phase(self) -> str:
        """Which phases there are."""

    @property
    def rounds(self) -> int | None:
        """How often to take texts."""


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


def in_rounds(problem: Problem, settings: Settings, search: Callable[[TextWalk], Search]) -> Search:
    """Search from one set of texts after the other; end where nothing new has come up for long."""
    texts, idle = _different(problem), 0
    size = len(texts) if settings.seeds is None else settings.seeds
    for walk in _starts(problem, texts, size, settings.rounds if settings.phase == "both" else settings.rounds or 1):
        part, answer = search(walk), None
        while True:
            try:
                query = part.send(answer)
            except StopIteration:
                break
            answer = yield query
            verdicts = getattr(answer, "verdicts", answer)
            if isinstance(verdicts, Verdicts):
                assert query.individuals is not None
                idle = 0 if len(verdicts.positions) else idle + len(query.individuals)
        if idle >= IDLE * len(texts):
            return


def _starts(problem: Problem, texts: TextIndividuals, size: int, rounds: int | None) -> Iterator[TextWalk]:
    """Yield the texts that each round starts from.

    First every text of the data once, as it is. Then all again, with words replaced at random and under new numbers, so
    that walks from them go elsewhere.
    """
    cuts = list(range(0, len(texts), size))
    for number in numbers(rounds):
        again, cut = divmod(number, len(cuts))
        part = texts[cuts[cut] : cuts[cut] + size]
        walk = TextWalk(again * len(texts) + cuts[cut] + np.arange(len(part)), part)
        for step in range(min(again, NUDGES)):
            able, moved = nudged(problem.texts, walk.texts, problem.stream, "again", walk.walkers, step)
            walk = TextWalk(walk.walkers[able], moved)
        if len(walk):
            yield walk
        elif again and not problem.texts.movable(texts).any():
            return


def _different(problem: Problem) -> TextIndividuals:
    """Return the different texts of the data, in an order that the run's seed decides.

    Texts that differ in the one term that is judged are one.
    """
    texts: TextIndividuals = problem.texts.seeds if problem.data is None else problem.data
    if not len(texts):
        raise DataError("there is no text to start from; give texts with a protected term: data=[...]")
    order = problem.stream.shuffled(np.arange(len(texts)), len(texts), "seeds")
    _, first = np.unique(texts.keys[order], return_index=True)
    return texts[order[np.sort(first)]]
