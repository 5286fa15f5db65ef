"""What a search and the oracle exchange: queries, verdicts, the problem of a run; where searches start.

A strategy is a generator: it yields queries and receives answers. ``judge``, ``label``, ``score``, ``contrast``,
``gradient``, ``swap`` and ``work`` are the questions it can ask, each used as ``answer = yield from
judge(individuals)``.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
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


class Numbered(Protocol):
    """Individuals by number: the same numbers give the same individuals."""

    @property
    def size(self) -> int | None:
        """Number of individuals, if none is drawn twice; None if draws are independent."""
        ...

    def take(self, start: int, n: int) -> tuple[Any, int]:
        """Return up to ``n`` individuals and the next number; fewer if there are no more."""
        ...


@dataclass(frozen=True)
class UniformDraws:
    """Valid individuals, all equally likely, drawn independently."""

    space: Space
    stream: Stream
    size: None = None

    def take(self, start: int, n: int) -> tuple[Individuals, int]:
        """Draw individuals."""
        return self.space.sampler.draw(self.stream, start, n, repeats=True)


@dataclass(frozen=True)
class EachRow:
    """The user's rows or texts, each once, in random order."""

    people: Any
    stream: Stream

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.people)

    def take(self, start: int, n: int) -> tuple[Any, int]:
        """Return the next rows."""
        end = min(start + n, self.size)
        return self.people[self.positions(start, end)], end

    def positions(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return the positions of the rows with these numbers."""
        return self.stream.shuffled(np.arange(start, end), self.size, "rows")


def independent(bound: BoundSpace, people: Any, stream: Stream) -> dict[str, Numbered]:
    """Return what a run with this stream draws from, besides its search: all individuals, and the rows of the data."""
    # A separate stream, because draws must not be those of a search.
    own = Stream(int(stream.bits("draws", 0, 0)[0] >> np.uint64(1)))
    out: dict[str, Numbered] = {}
    if people is not None and len(people):
        out["data"] = EachRow(people, own)
    if bound.supports("attributes"):
        out["uniform"] = UniformDraws(table(bound), own)
    return out


@dataclass(frozen=True)
class Drawn:
    """The verdicts of the draws from one population."""

    unfair: npt.NDArray[np.bool_]
    """In the order of the draws."""
    planned: int
    """Number of these draws that were planned; 0 until all planned ones were made."""
    left: int | None
    """Number of rows that were not drawn yet; None for a population without end."""


class Draws:
    """Individuals drawn independently from populations, whose verdicts estimate how common discrimination is.

    Only the keys are kept, because a verdict does not depend on when, or by which search, it was found.
    """

    def __init__(self, populations: Mapping[str, Numbered]) -> None:
        self.populations = dict(populations)
        self._next = dict.fromkeys(populations, 0)
        self._keys: dict[str, list[Keys]] = {}
        self._judged: dict[str, int] = {}
        self._last: Mapping[str, Block] = {}

    @property
    def over(self) -> bool:
        """Whether everything was drawn."""
        return not self._open()

    def _open(self) -> list[str]:
        sizes = {name: one.size for name, one in self.populations.items()}
        return [name for name, size in sizes.items() if size is None or self._next[name] < size]

    def take(self, n: int) -> Any:
        """Draw about ``n`` individuals, one of each population in turn; fewer when there are no more."""
        names, parts = self._open(), dict[str, Any]()
        for name in names:
            parts[name], self._next[name] = self.populations[name].take(self._next[name], -(-n // len(names)))
            self._keys.setdefault(name, []).append(parts[name].keys)
        self._last, blocks = parts, list(parts.values())
        if len(blocks) == 1:
            return blocks[0]
        turns = np.argsort(np.concatenate([np.arange(len(block)) for block in blocks]), kind="stable")
        return Individuals.join(blocks)[turns]

    def judge(self, drawn: Block, limit: int | None = None) -> Generator[Query, Verdicts, Verdicts]:
        """Judge what was drawn last.

        Other individuals may follow, so that one call of the model answers both.
        """
        verdicts = yield from judge(drawn, limit)
        self._judged = {name: sum(map(len, keys)) for name, keys in self._keys.items()}
        return verdicts

    def finish(self) -> None:
        """Draw all rows that are left, because every individual has been judged."""
        for name in self._open() if self._keys else []:
            if (size := self.populations[name].size) is not None:
                rest, self._next[name] = self.populations[name].take(self._next[name], size)
                self._keys.setdefault(name, []).append(rest.keys)
        self._judged = {name: sum(map(len, keys)) for name, keys in self._keys.items()}

    def verdicts(
        self, memo: Memo, testable: Callable[[Block], npt.NDArray[np.bool_] | None], plan: int = 0
    ) -> dict[str, Drawn]:
        """Return the verdicts of each population's draws.

        ``plan`` is the number of draws planned for all populations together. Draws without counterparts are left out.
        If the run ended among draws, only those before the first unjudged one count.
        """
        known, unfair, left = dict[str, npt.NDArray[np.bool_]](), dict[str, npt.NDArray[np.bool_]](), dict[str, Any]()
        for name, blocks in self._keys.items():
            judged, size = self._judged.get(name, 0), self.populations[name].size
            known[name], unfair[name] = memo.lookup(cast(Keys, np.concatenate(blocks)))
            through = len(known[name])
            if judged < through:
                able, end = testable(self._last[name]), known[name][judged:]
                reached = np.logical_and.accumulate(end if able is None else end | ~able)
                end &= reached
                through = judged + int(reached.sum())
            left[name] = None if size is None else size - through
        rounds = _planned_rounds(list(known.values()), plan, all(n == 0 for n in left.values()))
        return {name: Drawn(unfair[name][one], int(one[:rounds].sum()), left[name]) for name, one in known.items()}


def _planned_rounds(known: Sequence[npt.NDArray[np.bool_]], plan: int, over: bool) -> int:
    """Return how many draws of each population the plan has; 0 until all are made, or nothing is left to draw."""
    longest = max(map(len, known), default=0)
    # Which individuals have counterparts does not depend on the model, so neither does the moment of the plan.
    made = sum((np.pad(np.cumsum(one), (0, longest - len(one)), "edge") for one in known), np.zeros(longest, np.int64))
    if longest and made[-1] >= plan:
        return int((made <= plan).sum())
    return longest if over else 0


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
    arms: dict[str, dict[str, int]] = field(default_factory=dict)
    """For a search that divides its budget among others: what each of them asked and found; part of ``run.arms``."""
    _drawn: int = field(default=0, repr=False)

    @cached_property
    def draws(self) -> Draws:
        """The independent draws of the run."""
        return Draws(independent(self.bound, self.data, self.stream))

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
