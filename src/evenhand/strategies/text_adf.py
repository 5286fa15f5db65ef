"""ADF for text: gradients by words lead texts to where who is spoken of matters, then around there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from evenhand.search import Problem, Search, swap
from evenhand.spaces.text.individuals import TextPairs
from evenhand.strategies._checks import at_least, one_of, truth
from evenhand.strategies._texts import Choice, TextWalk, in_rounds, lead, walk_around


@dataclass(frozen=True)
class TextAdf:
    """Replace the word at which a text and its most different counterpart diverge, until the text is found.

    Zhang, Wang, Sun and others, "Automatic fairness testing of neural classifiers through adversarial sampling", TSE
    2021. With ``direction="asc"`` the word with the largest difference of the two gradients is replaced by the similar
    word that lies most in the direction of the loss's gradient; with ``"hotflip"`` that swap is made of all that, to
    first order, changes the two losses most differently. Walks around those that were found replace words that matter
    little to both. With ``pair=False`` it looks at the text alone: the plain adversarial search that the paper
    compares with. Needs a model that gives gradients of words. How many similar words a word has, the space says.
    The paper ends with the last walk (``rounds=1``); here the next texts follow until the budget ends, and after them
    all texts again, with words replaced at random.

    >>> TextAdf(direction="hotflip", phase="global").max_iter
    10
    """

    direction: Literal["asc", "hotflip"] = "asc"
    """How word and replacement are chosen."""
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
    rounds: int | None = None
    """How often to take texts; None: until the budget ends or nothing new comes up, and once for a single phase."""

    needs: ClassVar[str] = "texts"
    uses_gradient: ClassVar[bool] = True
    gradient: ClassVar[str] = "model"

    def __post_init__(self) -> None:
        at_least(self, 1, "max_iter", "trials", "rounds")
        if self.seeds is not None:
            at_least(self, 1, "seeds")
        one_of(self, "direction", ("asc", "hotflip"))
        one_of(self, "phase", ("both", "global", "local"))
        truth(self, "pair")

    def search(self, problem: Problem) -> Search:
        """Lead every seed to discrimination, then walk around those that came there; again with the next seeds."""
        return in_rounds(problem, self, partial(self._round, problem))

    def _round(self, problem: Problem, walk: TextWalk) -> Search:
        found = yield from lead(problem, self, walk, self._choose)
        if self.phase != "global":
            yield from walk_around(problem, self, found, pair=self.pair)

    def _choose(self, pairs: TextPairs) -> Choice:
        chosen = yield from swap(pairs if self.pair else pairs.alone, self.direction)
        return chosen[:, 0], chosen[:, 1]
