"""What a search and the oracle exchange: queries, verdicts, the problem of a run; where searches start.

A strategy is a generator: it yields queries and receives answers. ``judge``, ``label``, ``score``, ``contrast``,
``gradient``, ``swap`` and ``work`` are the questions it can ask, each used as ``answer = yield from
judge(individuals)``.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from evenhand._rng import Bits, Stream
from evenhand.errors import TEXT_SPACE, SpaceError, StrategyError
from evenhand.spaces.base import Block, BoundSpace, table
from evenhand.spaces.individuals import Individuals, Keys, Rows
from evenhand.spaces.text.individuals import TextPairs
from evenhand.spaces.text.space import BoundTextSpace

if TYPE_CHECKING:
    from evenhand._keyset import Memo
    from evenhand.spaces.tabular import Space

Kind = Literal["test", "label", "score", "contrast", "gradient", "swap", "work"]
Rule = Literal["asc", "hotflip", "hotflip-unsigned", "largest", "least"]
Search = Generator["Query", Any, None]
T = TypeVar("T")
LARGEST = 2**20
"""The most individuals that one round draws."""


@dataclass(frozen=True)
class Query:
    """One query of a search, about a block of individuals, or for a piece of pure work."""

    kind: Kind
    individuals: Block | None = None
    limit: int | None = None
    """For a test: maximum number of fresh individuals to judge. For a swap: maximum number of words to try."""
    call: Callable[[], Any] | None = None
    classes: npt.NDArray[np.int64] | None = None
    """For a gradient: the class whose loss is differentiated, for each individual."""
    jumps: Rows | None = None
    """For a gradient: the value of each nominal attribute that counts as one step away."""
    pairs: TextPairs | None = None
    """For a swap: texts that can move, and a counterpart of each."""
    rule: Rule = "largest"
    """For a swap: how the word is chosen."""
    draws: Bits | None = None
    """For a swap by the rule ``least``: random bits, a row for each text and a column for each word to draw."""


class Verdicts:
    """The answer to a test of a block.

    ``positions`` are the positions of individuals judged for the first time, in order; ``judged`` has their verdicts,
    and ``found`` the positions of those that are unfair. ``fresh`` and ``unfair`` are masks over the whole block.
    Repeats are looked up in the memo only if a mask is used.
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

    A counterpart with a different decision takes precedence over those with the same one.
    """

    verdicts: Verdicts
    most_different: Any
    """Individuals; for texts ``Counterparts``, whose words are aligned with those of the individuals."""
    classes: npt.NDArray[np.int64]
    """The model's decision for each individual, as a column of its scores."""


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

    The rule ``largest`` chooses the word whose effects on the loss, at the text and at its counterpart, differ most.
    ``asc`` chooses the same word, and ``hotflip`` the replacement that most raises the loss of the text nearer to the
    decision boundary, compared with that of the other (``hotflip-unsigned``: the replacement that changes the two
    losses most differently). For these two, the second column has the number of the similar word. ``least`` draws words
    that matter little to both, one for each column of ``draws``. If effects come from scores, at most ``limit`` words
    of a text are tried.
    """
    return (yield Query("swap", pairs.individuals, limit, pairs=pairs, rule=rule, draws=draws))


def of_class(scores: npt.NDArray[np.float64], classes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return each row's score of a class; a single score is that of class 1, and its negative that of class 0.

    >>> of_class(np.array([[0.25, 0.75]]), np.array([1])).tolist(), of_class(np.array([[2.0]]), np.array([0])).tolist()
    ([0.75], [-2.0])
    """
    if scores.shape[1] > 1:
        return scores[np.arange(len(scores)), classes]
    return np.where(classes == 1, 1, -1) * scores[:, 0]


def work(call: Callable[[], T]) -> Generator[Query, T, T]:
    """Ask for pure heavy work, a call that returns an array; its result is logged for resuming."""
    return (yield Query("work", call=call))


def watched(search: Search, look: Callable[[Query], object]) -> Search:
    """Pass on the queries of a search, and call ``look`` with each before it is answered.

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


class Draws:
    """Individuals drawn independently from populations, whose verdicts estimate how common discrimination is.

    Only the keys are kept, because a verdict does not depend on when, or by which search, it was found.
    """

    def __init__(self) -> None:
        self._keys: dict[str, list[Keys]] = {}
        self._judged: dict[str, int] = {}
        self._last: Mapping[str, Block] = {}

    def judge(
        self, parts: Mapping[str, Block], together: Block, limit: int | None = None
    ) -> Generator[Query, Verdicts, Verdicts]:
        """Judge as many draws of each population; ``together`` are all of them, one of each population in turn.

        Other individuals may follow them, so that one call of the model answers both.
        """
        self._last = parts
        for name, part in parts.items():
            self._keys.setdefault(name, []).append(part.keys)
        verdicts = yield from judge(together, limit)
        self._judged = {name: sum(map(len, keys)) for name, keys in self._keys.items()}
        return verdicts

    def verdicts(
        self, memo: Memo, testable: Callable[[Block], npt.NDArray[np.bool_] | None], plan: int = 0
    ) -> dict[str, tuple[npt.NDArray[np.bool_], int]]:
        """Return the verdicts of each population's draws, in order, and the number of those that were planned.

        ``plan`` is the number of draws planned for all populations together; until all are made, 0 were planned. Draws
        without counterparts are left out. If the run ended among draws, only those before the first unjudged one count.
        """
        known, unfair = dict[str, npt.NDArray[np.bool_]](), dict[str, npt.NDArray[np.bool_]]()
        for name, blocks in self._keys.items():
            judged = self._judged.get(name, 0)
            known[name], unfair[name] = memo.lookup(cast(Keys, np.concatenate(blocks)))
            if judged < len(known[name]):
                able, end = testable(self._last[name]), known[name][judged:]
                end &= np.logical_and.accumulate(end if able is None else end | ~able)
        # Which individuals have counterparts does not depend on the model, so neither does the moment of the plan.
        made = sum((np.cumsum(one) for one in known.values()), np.zeros(1, dtype=np.int64))
        rounds = int((made <= plan).sum()) if made[-1] >= plan else 0
        return {name: (unfair[name][one], int(one[:rounds].sum())) for name, one in known.items()}


@dataclass
class Problem:
    """The input of a search: the space, the coded data rows if there are any, and the random stream."""

    bound: BoundSpace
    """The space bound to the data of the run, for searches of other kinds of spaces."""
    stream: Stream
    data: Any = None
    """Individuals, or None."""
    counts: dict[str, int] = field(default_factory=dict)
    """Counts made by the search; part of ``run.counts``."""
    offers: frozenset[str] = frozenset()
    """Queries besides tests that a search with ``uses_gradient = "optional"`` may make: "label", "gradient"."""
    memo: Memo | None = field(default=None, repr=False)
    """The verdicts of this run, which show what is already judged."""
    spent: Callable[[], int] = field(default=lambda: 0, repr=False)
    """Returns the number of model rows that the run has used so far."""
    draws: Draws = field(default_factory=Draws, repr=False)
    arms: dict[str, dict[str, int]] = field(default_factory=dict)
    """For a search that divides its budget among others: what each of them asked and found; part of ``run.arms``."""
    _drawn: int = field(default=0, repr=False)

    @property
    def space(self) -> Space:
        """The space, for searches of attributes."""
        return table(self.bound)

    @property
    def texts(self) -> BoundTextSpace:
        """The space with its texts, for searches of texts."""
        if not self.bound.supports("texts"):
            raise StrategyError(
                f"this search needs texts, but the space has {self.bound.space.noun}s", remedy=("use ", TEXT_SPACE)
            )
        return cast("BoundTextSpace", self.bound)

    @property
    def exhausted(self) -> bool:
        """Whether every valid individual of a small space has been drawn."""
        sampler = self.space.sampler if self.bound.supports("attributes") else None
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

    Class attributes declare its needs. ``uses_data = False``: it never uses ``problem.data``, so that runs with and
    without data are the same run. ``uses_gradient = True``: it asks for contrasts and gradients, so that a model
    without them is refused before the search starts; ``"optional"``: it asks for them if ``problem.offers`` has
    "gradient". ``needs = "texts"``, or another feature that a space ``supports``: it does not search attributes;
    ``"any"``: it searches both attributes and texts.
    """

    def search(self, problem: Problem) -> Search:
        """Yield queries and receive answers, until there is nothing left to ask."""
        ...


def count_rounds(rounds: int | None) -> Iterator[int]:
    """Count the rounds of a search; None: without end.

    >>> list(count_rounds(3))
    [0, 1, 2]
    """
    return itertools.count() if rounds is None else iter(range(rounds))


def round_size(first: int, number: int) -> int:
    """Return how many individuals a round draws: twice as many as the one before.

    >>> [round_size(64, number) for number in range(4)]
    [64, 128, 256, 512]
    """
    return max(first, min(first << min(number, 62), LARGEST))


MOST, CELLS = 50_000, 20_000_000
"""Maximum number of rows, and of numbers in total, to cluster; if there are more rows, a seeded choice."""
WIDEST = 256
"""A nominal attribute with more values does not count in the distances."""


def cluster_seeds(
    problem: Problem, clusters: int, least: int | None = None, *, turns: bool = True
) -> Generator[Query, Any, Individuals]:
    """Return the different individuals of the data, from each cluster in turn, or cluster after cluster.

    Of very many rows a seeded choice. Without data, ``least`` individuals are drawn uniformly (None: as many as can be
    clustered). The run's seed decides which individual of a cluster comes first; individuals that differ only in
    protected attributes are one.
    """
    space = problem.space
    nominal = ~space.ordered & (space.sizes <= WIDEST)
    width = max(1, int(space.ordered.sum() + space.sizes[nominal].sum()))
    most = min(MOST, CELLS // width)
    least = most if least is None else least
    people = problem.sample(least) if problem.data is None else problem.data
    people = people[problem.stream.shuffled(np.arange(len(people)), len(people), "seeds")]
    _, first = np.unique(people.keys, return_index=True)
    people = people[np.sort(first)[: max(least, most)]]
    state = int(problem.stream.bits("kmeans", 0, 0)[0] >> np.uint64(32))
    cluster = yield from work(lambda: kmeans(space, people.rows, clusters, state))
    return people[in_turn(cluster) if turns else np.argsort(cluster, kind="stable")]


def kmeans(space: Space, rows: Rows, clusters: int, state: int) -> npt.NDArray[np.int32]:
    """Cluster rows of codes; distances count the space's own steps, and two nominal values are one step apart."""
    from sklearn.cluster import KMeans

    nominal = np.flatnonzero(~space.ordered & (space.sizes <= WIDEST))
    ones = [np.sqrt(0.5) * (rows[:, [j]] == np.arange(space.sizes[j])) for j in nominal]
    features = np.hstack([rows[:, space.ordered].astype(np.float64), *ones])
    if not features.shape[1]:
        return np.zeros(len(rows), dtype=np.int32)
    with warnings.catch_warnings():
        # Fewer different rows than clusters give fewer clusters.
        warnings.simplefilter("ignore")
        model = KMeans(min(clusters, len(features)), n_init=1, random_state=state).fit(features)
    return np.asarray(model.labels_, dtype=np.int32)


def in_turn(cluster: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Order positions so that the clusters take turns.

    >>> in_turn(np.array([0, 0, 0, 1, 2, 2])).tolist()
    [0, 3, 4, 1, 5, 2]
    """
    order = np.argsort(cluster, kind="stable")
    start = np.searchsorted(cluster[order], cluster[order], side="left")
    turn = np.empty(len(cluster), dtype=np.int64)
    turn[order] = np.arange(len(cluster)) - start
    return np.lexsort((cluster, turn))


def random_seeds(problem: Problem, n: int) -> Individuals:
    """Return random individuals to continue with after the data; none where all were drawn, or none can be."""
    try:
        return problem.sample(n)
    except SpaceError:
        # The constraints are so tight that only rows of the data meet them.
        return problem.space.individuals(np.empty((0, len(problem.space.names)), dtype=np.int32))


PRINTED, PROGRAM = 1.0, math.exp(-1)
"""Values of ``stray``: for the algorithms as printed in the papers, which keep every step, and for the programs
published with AEQUITAS and ADF, which walk inside SciPy's basin hopping: at temperature 1, it accepts a step that
leaves discrimination with this probability."""
