"""Path coverage: how many leaves of a surrogate decision tree the tests of a run reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import percent
from evenhand._keyset import Visited, block_size
from evenhand._rng import Stream
from evenhand._validate import check_int, check_number, check_seed
from evenhand.budget import Budget
from evenhand.criteria import Flip
from evenhand.engine.gradients import DIFFERENCES
from evenhand.engine.judge import ModelProbe
from evenhand.engine.oracle import Clock, Oracle, Stop, Stored
from evenhand.engine.store import ANSWERS
from evenhand.errors import DATA, DECIDE, DIRECTORY, THRESHOLD, ModelError, RunError, SpaceError, StrategyError
from evenhand.models.base import Model
from evenhand.runs.replay import check_run, probe_of
from evenhand.runs.run import Run
from evenhand.search import Problem, Strategy
from evenhand.spaces.attributes import Attribute
from evenhand.spaces.base import require
from evenhand.spaces.findings import Decisions
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.tabular import Space
from evenhand.strategies import known, make

if TYPE_CHECKING:
    from evenhand.spaces.tabular import Space


FOLDS = 5
WIDEST = 256
"""The tree ignores nominal attributes with more values."""
Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Inputs:
    """Converts rows of codes into the inputs of a tree.

    An ordered attribute is one column, which can be cut anywhere. Each nominal value and each missing value has its own
    column, because a cut between two codes would group unrelated values.
    """

    def __init__(self, space: Space) -> None:
        self._ordered = np.flatnonzero(space.ordered)
        self._single = [(j, code) for j, a in enumerate(space.attributes) for code in _single(a)]
        # A tree needs at least one column, even of zeros.
        self.columns = max(1, len(self._ordered) + len(self._single))

    def __call__(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Build the columns."""
        ordered = len(self._ordered)
        # In column-major order, as it is written here and read by the tree.
        codes = np.ascontiguousarray(rows.T)
        out = np.zeros((self.columns, len(rows)), dtype=np.float32)
        out[:ordered] = codes[self._ordered]
        for column, (j, code) in enumerate(self._single, ordered):
            out[column] = codes[j] == code
        return out.T


def _single(attribute: Attribute) -> range:
    """Codes with their own column; for two nominal values, one column is enough."""
    if attribute.ordered:
        return range(attribute.present, attribute.size)
    return range(int(attribute.size == 2), attribute.size if attribute.size <= WIDEST else 0)


@dataclass(frozen=True)
class Surrogate:
    """A tree, its inputs, and its accuracy."""

    inputs: Inputs
    tree: Any
    accuracy: float
    """The accuracy on individuals that the tree was not fitted to; every decision counts equally."""

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int(self.tree.get_n_leaves())

    @property
    def nodes(self) -> int:
        """Number of nodes, including leaves."""
        return int(self.tree.tree_.node_count)

    def leaf(self, rows: Rows) -> Codes:
        """Return the node of the leaf that each row reaches."""
        return np.asarray(self.tree.apply(self.inputs(rows), check_input=False))


def imitate(space: Space, rows: Rows, decisions: npt.NDArray[Any], whole: bool = False) -> Surrogate:
    """Grow a tree of the size that best predicts the decisions on other individuals.

    Accuracy is the recall of each decision, averaged over the decisions, so that always predicting the most common one
    is not accurate. It is cross-validated, unless ``rows`` are the whole space, so that there are no other individuals.
    """
    inputs = Inputs(space)
    seen = inputs(rows)
    known, decided = np.unique(decisions, return_inverse=True)
    decided = decided.reshape(-1)
    weights = 1 / (len(known) * np.bincount(decided))[decided]
    parts = [
        _curve(_grow(seen[train], decided[train]), seen[test], decided[test], weights[test])
        for train, test in _folds(len(rows), whole)
    ]
    most = max(map(len, parts))
    # A tree that cannot grow further keeps its accuracy. Rounded, so that the smallest of equally accurate trees wins.
    curve = np.round(np.sum([np.pad(part, (0, most - len(part)), mode="edge") for part in parts], axis=0), 9)
    size = 2 + int(curve[1:].argmax()) if most > 1 else 1
    return Surrogate(inputs, _grow(seen, decided, size), float(curve[size - 1]))


def _folds(n: int, whole: bool) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """Yield masks for growing and testing; individuals are in random order, so every fifth is a random sample."""
    if whole:
        yield np.ones(n, dtype=bool), np.ones(n, dtype=bool)
        return
    for fold in range(FOLDS):
        test = np.arange(n) % FOLDS == fold
        yield ~test, test


def _grow(seen: npt.NDArray[np.float32], decided: Codes, leaves: int | None = None) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    # Any limit on leaves makes the tree grow where it gains most.
    most = max(2, len(seen) if leaves is None else leaves)
    return DecisionTreeClassifier(max_leaf_nodes=most, class_weight="balanced", random_state=0).fit(seen, decided)


def _curve(tree: Any, seen: npt.NDArray[np.float32], decided: Codes, weights: Floats) -> Floats:
    """Return the weight that the tree classifies correctly with one leaf, with two, and so on.

    Every split appends two nodes, so the tree with m leaves consists of the first 2 m - 1 nodes. An individual is
    classified by the last of these nodes on its path.
    """
    path = tree.decision_path(seen)
    who = np.repeat(np.arange(len(seen)), np.diff(path.indptr))
    predicted = tree.classes_[tree.tree_.value[:, 0].argmax(axis=1)]
    right = (predicted[path.indices] == decided[who]).astype(np.float64)
    change = np.diff(right, prepend=0)
    change[path.indptr[:-1]] = right[path.indptr[:-1]]
    gains = np.bincount(path.indices, change * weights[who], tree.tree_.node_count)
    return np.asarray(np.cumsum(gains)[::2])


def retrace(run: Run, data: Any = None) -> Iterator[Individuals]:
    """Yield one individual of each test of a run, block by block, without a model.

    Parameters
    ----------
    run
        A run from memory or from a directory. In spaces of 2**62 or more individuals, memory holds a few million tests.
    data
        The run's data rows; needed if it was loaded from its directory and its search starts from data.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda frame: frame["age"] > 3, space, strategy="themis")
    >>> sum(len(block) for block in retrace(run))
    9
    """
    if not run.space.supports("attributes"):
        raise RunError("a run on texts does not store its tests, only its findings", remedy="use run.findings")
    visited = None if run.origin is None else run.origin.visited
    if visited is not None and visited.known:
        return iter(visited)
    if run.directory is None:
        raise RunError(
            "the individuals that this run tested are not known: it was loaded from a directory, or its tests "
            "are too many to keep",
            remedy=("run it with ", DIRECTORY),
        )
    strategy, people = (run.origin.strategy, run.origin.data) if run.origin else _made_with(run, data)
    return _repeated(run, strategy, people)


def _repeated(run: Run, strategy: Strategy, data: Individuals | None) -> Iterator[Individuals]:
    """Repeat the search with answers from the log, and yield what it tests, until all tests are found."""
    assert run.directory is not None
    if not run.tests:
        return
    identity, log = run.identity, Stored(run.directory / ANSWERS)
    probe = ModelProbe(Absent(run.gradient), run.space, Flip(), gradient=None if run.gradient is None else "auto")
    # These are always the first tests, because a budget never changes what a search asks.
    oracle = Oracle(probe, Budget(tests=run.tests), identity.seed, identity.chunk, log, Clock(log.times))
    answer: Any = None
    going = True
    # What the search asked shows what it was offered.
    offers = {"label"} if run.asked.get("label") else set()
    offers |= set() if run.gradient is None else {"gradient"}
    problem = Problem(
        run.space,
        Stream(identity.seed),
        data,
        offers=frozenset(offers),
        memo=oracle.memo,
        spent=lambda: oracle.rows,
    )
    with closing(strategy.search(problem)) as search:
        while going:
            oracle.visited = Visited(run.space)
            try:
                answer = oracle.answer(search.send(answer))
            except (StopIteration, Stop):
                going = False
            yield from oracle.visited
    if oracle.tests < run.tests:
        raise RunError(
            f"{run.directory} holds the answers to {oracle.tests:,} of the run's {run.tests:,} tests",
            remedy="restore it from a copy",
        )


def _made_with(run: Run, data: Any) -> tuple[Strategy, Individuals | None]:
    """Rebuild the search of a run that was loaded from its directory, and what it starts from."""
    name, settings = run.identity.search, run.identity.settings
    if known(name) is None:
        # Names in a directory are not imported, because another person may have written it.
        raise RunError(
            f"{run.directory} was made by the search {name}, which is not installed, so its tests cannot be repeated",
            remedy="give the run that eh.audit returned, or install the search with an entry point",
        )
    people = None
    if run.identity.data is not None:
        if data is None:
            raise RunError(
                f"the tests of {name} depend on the data that the search started from", remedy=("give them: ", DATA)
            )
        people = run.space.encode(data).individuals
        if run.space.digest_of(people) != run.identity.data:
            raise RunError(f"this is not the data of the run in {run.directory}", remedy="give the data of that audit")
    return make(name, **settings), people


class Absent(Model):
    """Replaces the model of a search that is answered from its log."""

    name = "the model"
    has_scores = True

    def __init__(self, gradient: str | None) -> None:
        self.gradient_source = None if gradient == DIFFERENCES else gradient

    def labels(self, X: Any) -> Any:
        """Never called."""
        raise NotImplementedError


LEAST = 100
"""The fewest samples."""
DECISIONS = 100
"""A model with more different answers is treated as a regression."""


@dataclass(frozen=True)
class Coverage:
    """How many leaves of a tree that imitates the model a run's tests reach.

    >>> Coverage(reached=45, leaves=60, tests=1000, accuracy=0.95, wanted=0.9, rows=20_000)
    Coverage: 1,000 tests reach 45 of 60 leaves (75%) of a surrogate tree with 95% agreement
    """

    reached: int
    """Leaves that an individual of some test, or one of its counterparts, reaches."""
    leaves: int
    """Leaves of the tree."""
    tests: int
    accuracy: float
    """The accuracy of the tree on individuals that it was not fitted to; every decision counts equally."""
    wanted: float
    """The requested accuracy."""
    rows: int
    """Model rows used to grow the tree, outside all budgets."""

    @property
    def share(self) -> float:
        """The share of leaves that are reached."""
        return self.reached / self.leaves

    @property
    def accurate(self) -> bool:
        """Whether the tree has the requested accuracy; if not, its leaves say little about the model."""
        return self.accuracy >= self.wanted

    @property
    def words(self) -> str:
        """The coverage in words."""
        short = "" if self.accurate else f", less than the requested {percent(self.wanted)}"
        return (
            f"{self.reached:,} of {self.leaves:,} {'leaf' if self.leaves == 1 else 'leaves'} ({percent(self.share)}) "
            f"of a surrogate tree with {percent(self.accuracy)} agreement{short}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self) | {"share": self.share, "accurate": self.accurate}

    def __repr__(self) -> str:
        return f"Coverage: {self.tests:,} {'test reaches' if self.tests == 1 else 'tests reach'} {self.words}"


def coverage(
    run: Run, model: Any = None, data: Any = None, *, accuracy: float = 0.9, samples: int = 20_000, seed: int = 0
) -> Coverage:
    """Measure how many leaves of a decision tree that imitates the model a run's tests reach.

    The tree is grown from the model's decisions about uniform valid individuals. A test reaches every leaf that a
    member of its family reaches.

    Parameters
    ----------
    run
        A run, from memory or from a directory.
    model
        The model, in any form that ``wrap`` takes; needed for a run that was loaded from its directory. By default the
        run's own.
    data
        The run's data rows; needed if it was loaded from its directory and its search starts from data.
    accuracy
        The accuracy that the tree should have; the result says whether it has.
    samples
        Number of individuals to grow the tree from. Each costs a model row, outside the run's budget.
    seed
        Same seed, same tree.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> def refuse(frame):
    ...     return (frame["age"] < 4) & (frame["sex"] == "F")
    >>> eh.coverage(eh.audit(refuse, space, strategy="themis"))
    Coverage: 9 tests reach 3 of 3 leaves (100%) of a surrogate tree with 100% agreement
    """
    samples, seed = _check_arguments(run, accuracy, samples, seed)
    probe = probe_of(run, model, "eh.coverage", Flip())
    tests = retrace(run, data)
    people, complete = _people(run, samples, seed)
    tree = imitate(run.space, people.rows, _decisions(probe, people, run.identity.chunk), complete)
    met = np.zeros(tree.nodes, dtype=bool)
    for block in tests:
        met[tree.leaf(run.space.families(block, run.identity.seed).asked)] = True
        if met.sum() == tree.leaves:
            break
    return Coverage(int(met.sum()), tree.leaves, run.tests, tree.accuracy, float(accuracy), len(people))


def _people(run: Run, samples: int, seed: int) -> tuple[Individuals, bool]:
    """Draw uniform testable individuals; return them, and whether they are all that exist."""
    space = run.space
    # A separate stream, because a random search with the same draws would reach every leaf that they made.
    stream = Stream(int(Stream(seed).bits("coverage", 0, 0)[0] >> np.uint64(1)))
    drawn, end = space.sampler.draw(stream, 0, samples)
    complete = space.sampler.deck and end >= space.sampler.count
    people = drawn if not space.constraints else drawn[_testable(space, drawn, run.identity.seed)]
    if len(people) < (1 if complete else FOLDS):
        raise SpaceError(
            f"{len(people)} of {len(drawn):,} drawn individuals have two valid counterparts",
            remedy="draw more (samples=...), or loosen the constraints",
        )
    return people, complete


def _testable(space: Space, people: Individuals, seed: int) -> npt.NDArray[np.bool_]:
    size = block_size(space)
    blocks = [space.families(people[i : i + size], seed).testable for i in range(0, len(people), size)]
    return np.concatenate([block for block in blocks if block is not None])


def _decisions(probe: ModelProbe, people: Individuals, chunk: int) -> npt.NDArray[Any]:
    if probe.model.regression:
        raise _no_decisions(f"{probe.model.name} returns numbers")
    table = Decisions()
    parts = [table.encode(probe.labels(people[i : i + chunk].rows, DECIDE)) for i in range(0, len(people), chunk)]
    codes = np.concatenate(parts)
    if len(known := np.unique(codes)) > DECISIONS:
        raise _no_decisions(f"{probe.model.name} gave {len(known):,} different answers")
    return codes


def _no_decisions(got: str) -> ModelError:
    return ModelError(
        f"{got}, but coverage needs decisions, at most {DECISIONS} different ones",
        remedy=("convert numbers to decisions with ", THRESHOLD),
    )


def _check_arguments(run: Any, accuracy: Any, samples: Any, seed: Any) -> tuple[int, int]:
    """Check the arguments; return samples and seed as plain integers."""
    check_run(run)
    require(run.space, "attributes")
    check_number("accuracy", accuracy, StrategyError, above=0, most=1)
    return check_int("samples", samples, StrategyError, LEAST), check_seed(seed, StrategyError)
