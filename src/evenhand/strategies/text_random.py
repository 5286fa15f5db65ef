"""RP, the baseline of text: random words are replaced by random similar ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.search import Problem, Search, judge
from evenhand.strategies._texts import Led, TextSearch, TextWalk, move_randomly


@dataclass(frozen=True)
class TextRandom(TextSearch):
    """Replace random words of texts by random similar words, until a text is found and around those that are.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. It is their baseline RP: the phases of ADF, with word and replacement chosen "completely at random". Among
    which words the paper leaves open: here uniformly among those that are free and have similar words. A walk goes on
    from where it is, found or not, and similar words are those of the word that is there now. All texts advance
    together; the path of one does not depend on the others. The paper ends with the last walk (``rounds=1``); here
    the next texts follow until the budget ends, and after them all texts again, with words replaced at random.

    >>> TextRandom(phase="global").max_iter
    10
    """

    def _global_phase(self, problem: Problem, walk: TextWalk) -> Led:
        """Judge, and change what is not discriminatory."""
        found = []
        for iteration in range(self._iterations):
            verdicts = yield from judge(walk.texts)
            found.append(walk[verdicts.found])
            walk = walk[np.flatnonzero(~verdicts.unfair)]
            if iteration == self._iterations - 1 or not len(walk):
                break
            walk = move_randomly(problem, walk, "lead", iteration)
        return TextWalk.join(found)

    def _local_phase(self, problem: Problem, walk: TextWalk) -> Search:
        """Change and judge, again and again."""
        for trial in range(self.trials):
            walk = move_randomly(problem, walk, "walk", trial)
            if not len(walk):
                break
            yield from judge(walk.texts)
