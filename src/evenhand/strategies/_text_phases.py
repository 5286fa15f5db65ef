"""The two phases of searches that compare a text with its most different counterpart."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.search import Problem, Query, Search, contrast, judge, swap
from evenhand.spaces.text.individuals import TextIndividuals, TextPairs
from evenhand.spaces.text.space import BoundTextSpace
from evenhand.spaces.text.tokens import Positions
from evenhand.strategies._text_seeds import Settings, TextWalk

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
