"""ADF for text: gradients by words lead texts to the decision boundary, then along it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.search import Problem, Query, Search, contrast, judge, swap
from evenhand.spaces.text.individuals import TextIndividuals, TextPairs
from evenhand.spaces.text.tokens import Positions
from evenhand.strategies._texts import Led, TextSearch, TextWalk

Numbers: TypeAlias = npt.NDArray[np.integer[Any]]
Choice: TypeAlias = Generator[Query, Any, tuple[Numbers, Numbers]]
"""Asks; then returns for each text the position of a word, and which of its similar words replaces it."""


@dataclass(frozen=True, kw_only=True)
class PairSearch(TextSearch):
    """The two phases, for any way to choose a word and its replacement."""

    pair: bool = True
    """Whether the most different counterpart is looked at as well."""

    uses_gradient: ClassVar[bool] = True

    @property
    def _effort(self) -> tuple[int, int | None]:
        """After how many steps of a walk it is asked again what words matter, and about how many words."""
        return 1, None

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        raise NotImplementedError

    def _global_phase(self, problem: Problem, walk: TextWalk) -> Led:
        """Judge, and replace the chosen word of what is not discriminatory."""
        found = []
        for iteration in range(self._iterations):
            seen = yield from contrast(walk.texts)
            found.append(walk[seen.verdicts.found])
            if iteration == self._iterations - 1:
                break
            able = _movable(problem, walk.texts, np.flatnonzero(~seen.verdicts.unfair))
            if not len(able):
                break
            walk, pairs = walk[able], TextPairs(walk.texts, seen.most_different, seen.classes)[able]
            positions, which = yield from self._choose(problem, pairs if self.pair else pairs.alone)
            walk = TextWalk(walk.walkers, _replaced(problem, walk.texts, positions, which))
        return TextWalk.join(found)

    def _local_phase(self, problem: Problem, walk: TextWalk) -> Search:
        """Replace words that matter little to both texts by a similar one, drawn uniformly."""
        every, limit = self._effort
        # They have just been judged, and are remembered.
        seen = yield from contrast(walk.texts)
        for trial in range(self.trials):
            if trial % every == 0:
                able = _movable(problem, walk.texts)
                if not len(able):
                    break
                pairs = TextPairs(walk.texts, seen.most_different if self.pair else None, seen.classes)[able]
                walk, ahead = walk[able], range(trial, min(trial + every, self.trials))
                draws = np.stack([problem.stream.bits("choice", walk.walkers, step) for step in ahead], axis=1)
                words = yield from swap(pairs, "least", draws, limit)
            walk = _replaced_randomly(problem, walk, words[:, trial % every], trial)
            if (trial + 1) % every or trial + 1 == self.trials:
                yield from judge(walk.texts)
            else:
                seen = yield from contrast(walk.texts)


@dataclass(frozen=True)
class TextAdf(PairSearch):
    """Replace the word at which a text and its most different counterpart diverge, until the text is found.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. With ``direction="asc"`` the word with the largest difference of the two gradients is replaced by the similar
    word that lies most in the direction of the loss's gradient; with ``"hotflip"`` that swap is made of all that, to
    first order, changes the two losses most differently. Walks around those that were found replace words that matter
    little to both. With ``pair=False`` it looks at the text alone: the plain adversarial search that the paper
    compares with. Needs a model that gives gradients of words. How many similar words a word has, the space decides.
    The paper ends with the last walk (``rounds=1``); here the next texts follow until the budget ends, and after them
    all texts again, with words replaced at random.

    >>> TextAdf(direction="hotflip", phase="global").max_iter
    10
    """

    direction: Literal["asc", "hotflip"] = "asc"
    """How word and replacement are chosen."""

    gradient: ClassVar[str] = "model"

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        del problem
        chosen = yield from swap(pairs, self.direction)
        return chosen[:, 0], chosen[:, 1]


def _movable(problem: Problem, texts: TextIndividuals, which: Positions | None = None) -> Positions:
    """Return which of some texts have a word that can be replaced; the others are counted and stay behind."""
    movable = np.bincount(texts.texts.rows[problem.texts.movable(texts)], minlength=len(texts)) > 0
    which = np.arange(len(texts)) if which is None else which
    able = which[movable[which]]
    if len(able) < len(which):
        problem.count("texts_that_cannot_move", len(which) - len(able))
    return able


def _replaced(problem: Problem, texts: TextIndividuals, positions: Numbers, which: Numbers) -> TextIndividuals:
    """Replace one word of each text by one of its similar words; where there is none, it stays."""
    assert problem.texts.moves is not None
    flat = texts.texts.starts[:-1] + positions
    words = texts.texts.words[flat]
    similar = problem.texts.moves.of(words)[np.arange(len(flat)), which]
    return texts.put(flat, np.where(similar >= 0, similar, words))


def _replaced_randomly(problem: Problem, walk: TextWalk, positions: Numbers, trial: int) -> TextWalk:
    """Replace a word of each text by one of its similar words, drawn uniformly."""
    texts = walk.texts.texts
    assert problem.texts.moves is not None
    counts = problem.texts.moves.counts(texts.words[texts.starts[:-1] + positions])
    bits = problem.stream.bits("similar", walk.walkers, trial) % np.maximum(counts, 1).astype(np.uint64)
    return TextWalk(walk.walkers, _replaced(problem, walk.texts, positions, bits.astype(np.int64)))
