"""ADF for text without gradients: what a word matters is what the scores say once it is left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from evenhand.search import Problem, Search, of_class, score, swap
from evenhand.spaces.text.individuals import TextPairs
from evenhand.strategies._checks import at_least, one_of, truth
from evenhand.strategies._texts import Choice, TextWalk, in_rounds, lead, walk_around


@dataclass(frozen=True)
class TextImportance:
    """Replace the word that matters most differently to a text and to its most different counterpart.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. They name it as future work: the phases of `TextAdf` for every model that gives scores. What a word matters is
    the change of the score of the text's decision when the word is left out. In the global phase the word for which
    that differs most between the two is replaced by the similar word that lowers the score most: all are tried, at the
    text. In the local phase words that matter little to both are replaced; what they matter is asked again at every
    ``every`` steps only, since it takes two rows for each word. With ``pair=False`` it looks at the text alone, with
    half the rows: right for models whose scores are sums over words, to which a word matters the same in both.

    >>> TextImportance(phase="global").words
    100
    """

    pair: bool = True
    """Whether the most different counterpart is looked at as well."""
    seeds: int | None = 1000
    """Texts that a round starts from, drawn from the data; None: all."""
    max_iter: int = 10
    """Judgements of each seed in the global phase."""
    trials: int = 1000
    """Steps of each walk of the local phase."""
    phase: Literal["both", "global", "local"] = "both"
    """``local`` walks from those seeds that are discriminatory to begin with."""
    words: int = 100
    """Words of a text that are left out, one after the other; of more, so many are chosen as if at random."""
    every: int = 10
    """Steps of a walk after which it is asked again what words matter."""
    rounds: int | None = None
    """How often to take texts; None: until the budget ends or nothing new comes up, and once for a single phase."""

    needs: ClassVar[str] = "texts"
    uses_gradient: ClassVar[bool] = True
    gradient: ClassVar[str] = "scores"

    def __post_init__(self) -> None:
        at_least(self, 1, "max_iter", "trials", "words", "every", "rounds")
        if self.seeds is not None:
            at_least(self, 1, "seeds")
        one_of(self, "phase", ("both", "global", "local"))
        truth(self, "pair")

    def search(self, problem: Problem) -> Search:
        """Lead every seed to discrimination, then walk around those that came there; again with the next seeds."""
        return in_rounds(problem, self, partial(self._round, problem))

    def _round(self, problem: Problem, walk: TextWalk) -> Search:
        found = yield from lead(problem, self, walk, partial(self._choose, problem))
        if self.phase != "global":
            yield from walk_around(problem, self, found, pair=self.pair, every=self.every, limit=self.words)

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        """Choose a word by leaving words out, and its replacement by trying all."""
        chosen = yield from swap(pairs if self.pair else pairs.alone, "largest", limit=self.words)
        moves, texts = problem.texts.moves, pairs.individuals.texts
        assert moves is not None
        similar = moves.of(texts.words[texts.starts[:-1] + chosen[:, 0]])
        row, which = np.nonzero(similar >= 0)
        tried = pairs.individuals[row]
        tried = tried.put(tried.texts.starts[:-1] + chosen[row, 0], similar[row, which])
        scores = np.full(similar.shape, np.inf)
        scores[row, which] = of_class((yield from score(tried)), pairs.classes[row])
        return chosen[:, 0], scores.argmin(axis=1)
