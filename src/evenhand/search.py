"""What passes between a search and the oracle.

A strategy is a generator: it yields queries and receives answers. ``judge``, ``label``, ``score``, ``contrast``,
``gradient``, ``swap`` and ``work`` are the questions it can ask, each used as ``answer = yield from
judge(individuals)``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, Stream
from evenhand.errors import TEXT_SPACE, StrategyError
from evenhand.spaces.base import Block, BoundSpace, table
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.text.individuals import TextPairs
from evenhand.spaces.text.space import BoundTextSpace

if TYPE_CHECKING:
    from evenhand._keyset import Memo
    from evenhand.spaces.tabular import Space

Kind = Literal["test", "label", "score", "contrast", "gradient", "swap", "work"]
Rule = Literal["asc", "hotflip", "largest", "least"]
Search = Generator["Query", Any, None]
T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """One question of a search about a block of individuals (or a piece of pure work)."""

    kind: Kind
    individuals: Block | None = None
    limit: int | None = None
    """Of a test: how many fresh individuals to judge at most. Of a swap: how many words to try at most."""
    call: Callable[[], Any] | None = None
    classes: npt.NDArray[np.int64] | None = None
    """Of a gradient: the class whose loss is differentiated, for each individual."""
    jumps: Rows | None = None
    """Of a gradient: the value of each nominal attribute that counts as one step away."""
    pairs: TextPairs | None = None
    """Of a swap: texts that can move, and a counterpart of each."""
    rule: Rule = "largest"
    """Of a swap: how the word is chosen."""
    draws: Bits | None = None
    """Of a swap by the rule ``least``: random bits, a row for each text and a column for each word to draw."""


class Verdicts:
    """The answer to a test of a block.

    ``positions`` are the individuals judged now for the first time, in order, and ``judged`` their verdicts; ``found``
    are the positions of those that are unfair. ``fresh`` and ``unfair`` are masks over the whole block; repeats are
    looked up in the memo, and only if a mask is used.
    """

    def __init__(
        self, individuals: Block, positions: npt.NDArray[np.int64], judged: npt.NDArray[np.bool_], memo: Memo
    ) -> None:
        self._individuals, self._memo = individuals, memo
        self.positions, self.judged = positions, judged
        self.found = positions[judged]

    @cached_property
    def fresh(self) -> npt.NDArray[np.bool_]:
        """Which individuals were judged for the first time in this run."""
        out = np.zeros(len(self._individuals), dtype=bool)
        out[self.positions] = True
        return out

    @cached_property
    def unfair(self) -> npt.NDArray[np.bool_]:
        """Which individuals are treated differently, new or not."""
        out = np.zeros(len(self._individuals), dtype=bool)
        out[self.positions] = self.judged
        if len(self.positions) < len(out):
            again = np.flatnonzero(~self.fresh)
            out[again] = self._memo.unfair(self._individuals.keys[again])
        return out


@dataclass(frozen=True)
class Contrasts:
    """Verdicts, and for each individual the counterpart whose output differs most from its own.

    A counterpart with another decision comes before those with the same one.
    """

    verdicts: Verdicts
    most_different: Any
    """Individuals; of texts ``Counterparts``, whose words are aligned with those of the individuals."""
    classes: npt.NDArray[np.int64]
    """What the model decides for each individual, as a column of its scores."""


def judge(individuals: Block, limit: int | None = None) -> Generator[Query, Verdicts, Verdicts]:
    """Judge whether each individual is treated differently from its counterparts."""
    return (yield Query("test", individuals, limit))


def label(individuals: Block) -> Generator[Query, npt.NDArray[Any], npt.NDArray[Any]]:
    """Ask for the decisions of the individuals themselves."""
    return (yield Query("label", individuals))


def score(individuals: Block) -> Generator[Query, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Ask for the scores of the individuals themselves."""
    return (yield Query("score", individuals))


def contrast(individuals: Block) -> Generator[Query, Contrasts, Contrasts]:
    """Judge each individual, and ask which of its counterparts differs most from it."""
    return (yield Query("contrast", individuals))


def gradient(
    individuals: Individuals, classes: npt.NDArray[np.int64], jumps: Rows | None = None
) -> Generator[Query, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Ask how one step of each attribute changes the loss of the named classes: (individuals, attributes).

    A step of a nominal attribute goes to the value that ``jumps`` has for it.
    """
    return (yield Query("gradient", individuals, classes=classes, jumps=jumps))


def swap(
    pairs: TextPairs, rule: Rule, draws: Bits | None = None, limit: int | None = None
) -> Generator[Query, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Ask which word of each text to replace: its position, in the first column.

    By the rule ``largest`` the word whose effects on the loss at the text and at its counterpart differ most. By
    ``asc`` the same, and by ``hotflip`` the word of the best swap; then the second column has the number of the similar
    word. By ``least`` words that matter little to both are drawn, one for each column of ``draws``. Where effects come
    from scores, at most ``limit`` words of a text are tried.
    """
    return (yield Query("swap", pairs.individuals, limit, pairs=pairs, rule=rule, draws=draws))


def of_class(scores: npt.NDArray[np.float64], classes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return each row's score of a class; a single score speaks for class 1 and against class 0.

    >>> of_class(np.array([[0.25, 0.75]]), np.array([1])).tolist(), of_class(np.array([[2.0]]), np.array([0])).tolist()
    ([0.75], [-2.0])
    """
    if scores.shape[1] > 1:
        return scores[np.arange(len(scores)), classes]
    return np.where(classes == 1, 1, -1) * scores[:, 0]


def work(call: Callable[[], T]) -> Generator[Query, T, T]:
    """Hand out pure heavy work, a call that returns an array; its result is logged for resuming."""
    return (yield Query("work", call=call))


def watched(search: Search, look: Callable[[Query], object]) -> Search:
    """Pass a search's questions on, and call ``look`` with each before it is answered.

    >>> asked: list[Query] = []
    >>> search = watched(work(lambda: np.zeros(1)), asked.append)
    >>> next(search).kind, len(asked)
    ('work', 1)
    """
    answer = None
    while True:
        try:
            query = search.send(answer)
        except StopIteration:
            return
        look(query)
        answer = yield query


@dataclass
class Problem:
    """What a search is given: the space, the coded data rows (or none) and the random stream."""

    ground: BoundSpace
    """The space with the data of the run; what a search of another kind of space works with."""
    stream: Stream
    data: Any = None
    """Individuals, or None."""
    counts: dict[str, int] = field(default_factory=dict)
    """What the search counted; part of ``run.counts``."""
    _drawn: int = field(default=0, repr=False)

    @property
    def space(self) -> Space:
        """The space, for searches of attributes."""
        return table(self.ground)

    @property
    def texts(self) -> BoundTextSpace:
        """The space with its texts, for searches of texts."""
        if not self.ground.supports("texts"):
            raise StrategyError(
                f"this search needs texts, and the space has {self.ground.space.noun}s", remedy=("use ", TEXT_SPACE)
            )
        return cast("BoundTextSpace", self.ground)

    @property
    def exhausted(self) -> bool:
        """Whether every valid individual of a small space has been drawn."""
        sampler = self.space.sampler if self.ground.supports("attributes") else None
        return sampler is not None and sampler.deck and self._drawn >= sampler.count

    def sample(self, n: int) -> Individuals:
        """Return uniform valid individuals; fewer than ``n`` once all of a small space have been drawn."""
        individuals, self._drawn = self.space.sampler.draw(self.stream, self._drawn, n)
        return individuals

    def count(self, name: str, n: int) -> None:
        """Add to one of the search's own counts, which the run shows if they are not zero."""
        self.counts[name] = self.counts.get(name, 0) + int(n)


class Strategy(Protocol):
    """A search: a frozen dataclass with one method. Its fields are its settings.

    Class attributes declare what it needs. ``uses_data = False``: it never looks at ``problem.data``, so that runs with
    and without data are the same run. ``uses_gradient = True``: it asks for contrasts and gradients, so that a model
    without any is refused before it is asked. ``needs = "texts"``, or another feature that a space ``supports``: it
    does not search attributes.
    """

    def search(self, problem: Problem) -> Search:
        """Yield queries, receive answers, until there is nothing left to ask."""
        ...
