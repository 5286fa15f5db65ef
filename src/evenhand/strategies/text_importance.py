"""ADF for text without gradients: a word's effect is the change of the score when it is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenhand.search import Problem, of_class, score, swap
from evenhand.spaces.text.individuals import TextPairs
from evenhand.strategies.text_adf import Choice, PairSearch


@dataclass(frozen=True, kw_only=True)
class TextImportance(PairSearch):
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

    words: int = 100
    """Words of a text that are left out, one after the other; of more, so many are chosen as if at random."""
    every: int = 10
    """Steps of a walk after which it is asked again what words matter."""

    gradient: ClassVar[str] = "scores"

    @property
    def _effort(self) -> tuple[int, int | None]:
        return self.every, self.words

    def _choose(self, problem: Problem, pairs: TextPairs) -> Choice:
        """Choose a word by leaving words out, and its replacement by trying all."""
        chosen = yield from swap(pairs, "largest", limit=self.words)
        moves, texts = problem.texts.moves, pairs.individuals.texts
        assert moves is not None
        similar = moves.of(texts.words[texts.starts[:-1] + chosen[:, 0]])
        row, which = np.nonzero(similar >= 0)
        tried = pairs.individuals[row]
        tried = tried.put(tried.texts.starts[:-1] + chosen[row, 0], similar[row, which])
        scores = np.full(similar.shape, np.inf)
        scores[row, which] = of_class((yield from score(tried)), pairs.classes[row])
        return chosen[:, 0], scores.argmin(axis=1)
