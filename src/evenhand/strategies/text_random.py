"""RP, the baseline of text: random words are replaced by random similar ones."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from evenhand.search import Problem, Query, Search, judge
from evenhand.spaces.text.space import replace_random_word
from evenhand.strategies._checks import at_least, one_of
from evenhand.strategies._texts import TextWalk, in_rounds


@dataclass(frozen=True)
class TextRandom:
    """Replace random words of texts by random similar words, until a text is found and around those that are.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. It is their baseline RP: the phases of ADF, with word and replacement chosen "completely at random". Among
    which words the paper leaves open: here uniformly among those that are free and have similar words. A walk goes on
    from where it is, found or not, and similar words are those of the word that stands there now. All texts advance
    together; what becomes of one is independent of the others. The paper ends with the last walk (``rounds=1``); here
    the next texts follow until the budget ends, and after them all texts again, with words replaced at random.

    >>> TextRandom(phase="global").max_iter
    10
    """

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
        if self.seeds is not None:
            at_least(self, 1, "seeds")
        at_least(self, 1, "max_iter", "trials", "rounds")
        one_of(self, "phase", ("both", "global", "local"))

    def search(self, problem: Problem) -> Search:
        """Change every seed until it is found, then walk around those that were; again with the next seeds."""
        return in_rounds(problem, self, partial(self._round, problem))

    def _round(self, problem: Problem, walk: TextWalk) -> Search:
        found = yield from self._lead(problem, walk)
        if self.phase != "global":
            yield from self._walk(problem, found)

    def _lead(self, problem: Problem, walk: TextWalk) -> Generator[Query, Any, TextWalk]:
        """Global phase: judge, and change what is not discriminatory."""
        found: list[TextWalk] = []
        iterations = 1 if self.phase == "local" else self.max_iter
        for iteration in range(iterations):
            verdicts = yield from judge(walk.texts)
            found.append(walk[verdicts.found])
            walk = walk[np.flatnonzero(~verdicts.unfair)]
            if iteration == iterations - 1 or not len(walk):
                break
            walk = _moved(problem, walk, "lead", iteration)
        return TextWalk.join(found)

    def _walk(self, problem: Problem, walk: TextWalk) -> Search:
        """Local phase: change and judge, again and again."""
        for trial in range(self.trials):
            if not len(walk):
                break
            walk = _moved(problem, walk, "walk", trial)
            yield from judge(walk.texts)


def _moved(problem: Problem, walk: TextWalk, phase: str, step: int) -> TextWalk:
    """Change one word of each; who has none that can be changed stays behind and is counted."""
    able, texts = replace_random_word(problem.texts, walk.texts, problem.stream, phase, walk.walkers, step)
    if len(able) < len(walk):
        problem.count("texts_that_cannot_move", len(walk) - len(able))
    return TextWalk(walk.walkers[able], texts)
