"""Texts to start from, and walkers that go from one to the next."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import DataError
from evenhand.search import Problem, Query, Search, Verdicts, contrast, judge, swap
from evenhand.spaces.text.individuals import TextIndividuals, TextPairs
from evenhand.spaces.text.space import BoundTextSpace, replace_random_word
from evenhand.spaces.text.tokens import Positions
from evenhand.strategies._seeds import numbers

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
            able, moved = replace_random_word(problem.texts, walk.texts, problem.stream, "again", walk.walkers, step)
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


Numbers: TypeAlias = npt.NDArray[np.integer[Any]]
Choice: TypeAlias = Generator[Query, Any, tuple[Numbers, Numbers]]
"""Asks; then says for each text the position of a word, and which of its similar words replaces it."""


def lead(
    problem: Problem, settings: Settings, walk: TextWalk, choose: Callable[[TextPairs], Choice]
) -> Generator[Query, Any, TextWalk]:
    """Global phase: judge, and replace the chosen word of what is not discriminatory; return what was found."""
    found = []
    iterations = 1 if settings.phase == "local" else settings.max_iter
    for iteration in range(iterations):
        seen = yield from contrast(walk.texts)
        found.append(walk[seen.verdicts.found])
        fair = np.flatnonzero(~seen.verdicts.unfair)
        if iteration == iterations - 1:
            break
        able = fair[_able(problem, walk.texts[fair])]
        if not len(able):
            break
        walk, pairs = walk[able], TextPairs(walk.texts, seen.most_different, seen.classes)[able]
        positions, which = yield from choose(pairs)
        walk = TextWalk(walk.walkers, replaced(problem.texts, walk.texts, positions, which))
    return TextWalk.join(found)


def walk_around(
    problem: Problem, settings: Settings, walk: TextWalk, *, pair: bool = True, every: int = 1, limit: int | None = None
) -> Search:
    """Local phase: words that matter little to both are replaced by a similar one, drawn uniformly.

    What words matter is asked at every so many trials.
    """
    if not len(walk):
        return
    # They have just been judged, and are remembered.
    seen = yield from contrast(walk.texts)
    for trial in range(settings.trials):
        if trial % every == 0:
            able = _able(problem, walk.texts)
            if not len(able):
                break
            most_different = seen.most_different if pair else None
            walk, pairs = walk[able], TextPairs(walk.texts, most_different, seen.classes)[able]
            ahead = range(trial, min(trial + every, settings.trials))
            draws = np.stack([problem.stream.bits("choice", walk.walkers, step) for step in ahead], axis=1)
            words = yield from swap(pairs, "least", draws, limit)
        walk = _drawn(problem, walk, words[:, trial % every], trial)
        if (trial + 1) % every or trial + 1 == settings.trials:
            yield from judge(walk.texts)
        else:
            seen = yield from contrast(walk.texts)


def replaced(ground: BoundTextSpace, texts: TextIndividuals, positions: Numbers, which: Numbers) -> TextIndividuals:
    """Replace one word of each text by one of its similar words; where there is none, it stays."""
    assert ground.moves is not None
    flat = texts.texts.starts[:-1] + positions
    words = texts.texts.words[flat]
    similar = ground.moves.of(words)[np.arange(len(flat)), which]
    return texts.put(flat, np.where(similar >= 0, similar, words))


def _drawn(problem: Problem, walk: TextWalk, positions: Numbers, trial: int) -> TextWalk:
    """Replace a word of each text by one of its similar words, drawn uniformly."""
    ground, texts = problem.texts, walk.texts.texts
    assert ground.moves is not None
    counts = ground.moves.counts(texts.words[texts.starts[:-1] + positions])
    bits = problem.stream.bits("similar", walk.walkers, trial) % np.maximum(counts, 1).astype(np.uint64)
    return TextWalk(walk.walkers, replaced(ground, walk.texts, positions, bits.astype(np.int64)))


def _able(problem: Problem, texts: TextIndividuals) -> Positions:
    """Return which texts have a word that can be replaced; the others are counted and stay behind."""
    movable = problem.texts.movable(texts)
    able = np.flatnonzero(np.bincount(texts.texts.rows[movable], minlength=len(texts)))
    if len(able) < len(texts):
        problem.count("texts_that_cannot_move", len(texts) - len(able))
    return able
