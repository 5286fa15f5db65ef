"""What the searches of texts share: their settings, rounds of texts to start from, and walkers."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from evenhand.errors import TEXTS, DataError
from evenhand.search import Problem, Query, Search, Verdicts
from evenhand.spaces.text.individuals import TextIndividuals
from evenhand.spaces.text.space import replace_random_word
from evenhand.spaces.text.tokens import Positions
from evenhand.strategies._seeds import count_rounds
from evenhand.strategies._settings import check_settings

IDLE = 100
"""A search ends after so many individuals for each text without a fresh test."""
NUDGES = 10
"""The most words that are replaced at random before a text is started from again."""


@dataclass(frozen=True)
class TextWalk:
    """Walkers side by side: their numbers, and the texts where they are."""

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
        walkers = np.concatenate([part.walkers for part in parts])
        return TextWalk(walkers, TextIndividuals.join([part.texts for part in parts]))


Led = Generator[Query, Any, TextWalk]


@dataclass(frozen=True, kw_only=True)
class TextSearch:
    """A global phase that leads texts to discrimination, and a local phase that walks on from those found."""

    seeds: int | None = 1000
    """Texts that a round starts from, drawn from the data; None: all."""
    max_iter: int = 10
    """Judgements of each seed in the global phase."""
    trials: int = 1000
    """Steps of each walk of the local phase."""
    phase: Literal["both", "global", "local"] = "both"
    """``local`` walks from those seeds that are discriminatory to begin with."""
    rounds: int | None = None
    """How often to take texts; None: until the budget ends or nothing new comes up, and once for a single phase."""

    needs: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        check_settings(self)

    def search(self, problem: Problem) -> Search:
        """Run both phases from one set of texts after the other; end where nothing new has come up for long."""
        texts, idle = _different_texts(problem), 0
        for walk in self._starts(problem, texts):
            search, answer = self._round(problem, walk), None
            while True:
                try:
                    query = search.send(answer)
                except StopIteration:
                    break
                answer = yield query
                verdicts = getattr(answer, "verdicts", answer)
                if isinstance(verdicts, Verdicts):
                    assert query.individuals is not None
                    idle = 0 if len(verdicts.positions) else idle + len(query.individuals)
            if idle >= IDLE * len(texts):
                return

    def _round(self, problem: Problem, walk: TextWalk) -> Search:
        found = yield from self._global_phase(problem, walk)
        if self.phase != "global" and len(found):
            yield from self._local_phase(problem, found)

    def _global_phase(self, problem: Problem, walk: TextWalk) -> Led:
        raise NotImplementedError

    def _local_phase(self, problem: Problem, walk: TextWalk) -> Search:
        raise NotImplementedError

    @property
    def _iterations(self) -> int:
        return 1 if self.phase == "local" else self.max_iter

    def _starts(self, problem: Problem, texts: TextIndividuals) -> Iterator[TextWalk]:
        """Yield the texts that each round starts from.

        First every text of the data once, as it is. Then all again, with words replaced at random and under new
        numbers, so that walks from them go elsewhere.
        """
        size = self.seeds or len(texts)
        cuts = range(0, len(texts), size)
        for number in count_rounds(self.rounds if self.phase == "both" else self.rounds or 1):
            again, cut = divmod(number, len(cuts))
            part = texts[cuts[cut] : cuts[cut] + size]
            walk = TextWalk(again * len(texts) + cuts[cut] + np.arange(len(part)), part)
            for step in range(min(again, NUDGES)):
                walk = move_randomly(problem, walk, "again", step)
            if len(walk):
                yield walk
            elif again and not problem.texts.movable(texts).any():
                return


def move_randomly(problem: Problem, walk: TextWalk, phase: str, step: int) -> TextWalk:
    """Replace a random word of each text by a random similar one; texts without such a word stay behind."""
    able, texts = replace_random_word(problem.texts, walk.texts, problem.stream, phase, walk.walkers, step)
    if len(able) < len(walk) and phase != "again":
        problem.count("texts_that_cannot_move", len(walk) - len(able))
    return TextWalk(walk.walkers[able], texts)


def _different_texts(problem: Problem) -> TextIndividuals:
    """Return the different texts of the data, in an order that the run's seed decides.

    Texts that differ only in the one term that is judged are one.
    """
    texts: TextIndividuals = problem.texts.seeds if problem.data is None else problem.data
    if not len(texts):
        raise DataError("there is no text to start from", remedy=("give texts with a protected term: ", TEXTS))
    texts = texts[problem.stream.shuffled(np.arange(len(texts)), len(texts), "seeds")]
    _, first = np.unique(texts.keys, return_index=True)
    return texts[np.sort(first)]
