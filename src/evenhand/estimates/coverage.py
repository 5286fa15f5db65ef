"""Path coverage: how much of what a model distinguishes the tests of a run have come by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import percent
from evenhand._rng import Stream
from evenhand._validate import is_int, is_number
from evenhand.budget import Budget
from evenhand.criteria import Flip
from evenhand.engine.accounting import Clock, Stop, Stored
from evenhand.engine.gradients import DIFFERENCES
from evenhand.engine.oracle import Oracle
from evenhand.engine.probe import ModelProbe
from evenhand.engine.store import ANSWERS
from evenhand.engine.visited import Trail, block_size
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
"""A nominal attribute with more values is not seen by the tree."""
Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Inputs:
    """Rows of codes as a tree should see them.

    An ordered attribute is one column, to be cut anywhere. Each value of a nominal one has a column of its own, and so
    has a missing value: a cut between two codes would group values that have nothing in common.

    >>> from evenhand.spaces.attributes import Boolean, Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Nominal("work", ["a", "b", "c"]), Boolean("sex")], protected="sex")
    >>> Inputs(space)(np.array([[4, 2, 1]])).tolist()
    [[4.0, 1.0, 0.0, 0.0, 1.0]]
    """

    def __init__(self, space: Space) -> None:
        self._ordered = np.flatnonzero(space.ordered)
        self._single = [(j, code) for j, a in enumerate(space.attributes) for code in _single(a)]
        # At least one column, be it of nothing but zeros: a tree wants one.
        self.columns = max(1, len(self._ordered) + len(self._single))

    def __call__(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Build the columns."""
        ordered = len(self._ordered)
        # Column after column in memory, as it is written here and read by the tree.
        codes = np.ascontiguousarray(rows.T)
        out = np.zeros((self.columns, len(rows)), dtype=np.float32)
        out[:ordered] = codes[self._ordered]
        for column, (j, code) in enumerate(self._single, ordered):
            out[column] = codes[j] == code
        return out.T


def _single(attribute: Attribute) -> range:
    """Codes that have a column of their own; of two nominal values one tells the other."""
    if attribute.ordered:
        return range(attribute.present, attribute.size)
    return range(int(attribute.size == 2), attribute.size if attribute.size <= WIDEST else 0)


@dataclass(frozen=True)
class Surrogate:
    """A tree, what it is shown, and its accuracy."""

    inputs: Inputs
    tree: Any
    accuracy: float
    """How right it is about individuals that it was not grown from; every decision counts alike."""

    @property
    def leaves(self) -> int:
        """How many leaves it has."""
        return int(self.tree.get_n_leaves())

    @property
    def nodes(self) -> int:
        """How many nodes it has, leaves included."""
        return int(self.tree.tree_.node_count)

    def leaf(self, rows: Rows) -> Codes:
        """Return the node of the leaf that each row comes to."""
        return np.asarray(self.tree.apply(self.inputs(rows), check_input=False))


def imitate(space: Space, rows: Rows, decisions: npt.NDArray[Any], whole: bool = False) -> Surrogate:
    """Grow the tree, of whatever size, that tells the decisions of others best.

    Accuracy is the share that is told right of each decision, averaged over the decisions, so that a tree that knows
    only the commonest one is not accurate. It is cross-validated; where ``rows`` are the whole space, there are no
    others and it is counted.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("sex")], protected="sex")
    >>> rows = space.coding.rows(np.arange(18))
    >>> done = imitate(space, rows, rows[:, 0] > 5, whole=True)
    >>> done.leaves, done.accuracy
    (2, 1.0)
    """
    inputs = Inputs(space)
    seen = inputs(rows)
    known, said = np.unique(decisions, return_inverse=True)
    said = said.reshape(-1)
    weights = 1 / (len(known) * np.bincount(said))[said]
    parts = [
        _curve(_grow(seen[train], said[train]), seen[test], said[test], weights[test])
        for train, test in _folds(len(rows), whole)
    ]
    most = max(map(len, parts))
    # A tree that can grow no more stays as accurate as it is. Rounded, so that of equals the smallest is the best.
    curve = np.round(np.sum([np.pad(part, (0, most - len(part)), mode="edge") for part in parts], axis=0), 9)
    size = 2 + int(curve[1:].argmax()) if most > 1 else 1
    return Surrogate(inputs, _grow(seen, said, size), float(curve[size - 1]))


def _folds(n: int, whole: bool) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """Yield masks to grow from and to test on; individuals come in random order, so every fifth is a fair choice."""
    if whole:
        yield np.ones(n, dtype=bool), np.ones(n, dtype=bool)
        return
    for fold in range(FOLDS):
        test = np.arange(n) % FOLDS == fold
        yield ~test, test


def _grow(seen: npt.NDArray[np.float32], said: Codes, leaves: int | None = None) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    # A limit on leaves, however large, makes the tree grow where it gains most.
    most = max(2, len(seen) if leaves is None else leaves)
    return DecisionTreeClassifier(max_leaf_nodes=most, class_weight="balanced", random_state=0).fit(seen, said)


def _curve(tree: Any, seen: npt.NDArray[np.float32], said: Codes, weights: Floats) -> Floats:
    """Return the weight that is told right by the tree when it had one leaf, two, three and so on.

    Every split has added two nodes behind all others, so the tree that had m leaves is the first 2 m - 1 nodes; and
    an individual that passes a node is classified correctly or not by the last node that was there.
    """
    path = tree.decision_path(seen)
    who = np.repeat(np.arange(len(seen)), np.diff(path.indptr))
    told = tree.classes_[tree.tree_.value[:, 0].argmax(axis=1)]
    right = (told[path.indices] == said[who]).astype(np.float64)
    change = np.diff(right, prepend=0)
    change[path.indptr[:-1]] = right[path.indptr[:-1]]
    gains = np.bincount(path.indices, change * weights[who], tree.tree_.node_count)
    return np.asarray(np.cumsum(gains)[::2])


def retrace(run: Run, data: Any = None) -> Iterator[Individuals]:
    """Give one individual of each test of a run, block by block; no model is asked.

    Parameters
    ----------
    run
        From memory, or kept in a directory. In a space of 2**62 individuals or more, memory holds some million tests.
    data
        The rows that the run was given, if it was read from its directory and its search starts from data.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda frame: frame["age"] > 3, space, strategy="themis")
    >>> sum(len(block) for block in retrace(run))
    9
    """
    if not run.space.supports("attributes"):
        raise RunError("which texts a run has tested is not kept; only its findings are: run.findings")
    trail = None if run.origin is None else run.origin.trail
    if trail is not None and trail.known:
        return iter(trail)
    if run.directory is None:
        raise RunError(
            "the individuals that this run tested are not known any more: it comes from another process, or its tests "
            "are too many to keep in so large a space",
            remedy=("run it with ", DIRECTORY),
        )
    strategy, people = (run.origin.strategy, run.origin.data) if run.origin else _made_with(run, data)
    return _repeated(run, strategy, people)


def _repeated(run: Run, strategy: Strategy, data: Individuals | None) -> Iterator[Individuals]:
    """Let the search ask again, answer from the log, and yield what it tests, until all tests have been seen."""
    assert run.directory is not None
    if not run.tests:
        return
    identity, log = run.identity, Stored(run.directory / ANSWERS)
    probe = ModelProbe(Absent(run.gradient), run.space, Flip(), gradient=None if run.gradient is None else "auto")
    # Whatever ended the run: its tests are the first so many, because a budget never changes what a search asks.
    oracle = Oracle(probe, Budget(tests=run.tests), identity.seed, identity.chunk, log, Clock(log.times))
    answer: Any = None
    going = True
    with closing(strategy.search(Problem(run.space, Stream(identity.seed), data))) as search:
        while going:
            oracle.trail = Trail(run.space)
            try:
                answer = oracle.answer(search.send(answer))
            except (StopIteration, Stop):
                going = False
            yield from oracle.trail
    if oracle.tests < run.tests:
        raise RunError(
            f"{run.directory} holds the answers to {oracle.tests:,} of the run's {run.tests:,} tests; "
            "restore it from a copy"
        )


def _made_with(run: Run, data: Any) -> tuple[Strategy, Individuals | None]:
    """Make the search of a run that was read from its directory, and what it starts from."""
    name, settings = run.identity.search, run.identity.settings
    if known(name) is None:
        # What a directory names is not imported: somebody else may have written it.
        raise RunError(
            f"{run.directory} was made by {name}, a search that is neither evenhand's own nor of an installed package, "
            "so its tests cannot be told from the directory alone; take the run that eh.audit returns for that "
            "directory, or install the search with an entry point"
        )
    people = None
    if run.identity.data is not None:
        if data is None:
            raise RunError(f"the tests of {name} depend on the data that it started from", remedy=("give them: ", DATA))
        people = run.space.encode(data).individuals
        if run.space.digest_of(people) != run.identity.data:
            raise RunError(f"these are not the data that the run in {run.directory} was made with; give those")
    return make(name, **settings), people


class Absent(Model):
    """Stands in for the model of a search that is answered from its log."""

    name = "the model"
    has_scores = True

    def __init__(self, gradient: str | None) -> None:
        self.gradient_source = None if gradient == DIFFERENCES else gradient

    def labels(self, X: Any) -> Any:
        """Never asked."""
        raise NotImplementedError


LEAST = 100
"""The fewest samples."""
DECISIONS = 100
"""With more different answers a model is taken for a regression."""


@dataclass(frozen=True)
class Coverage:
    """How many leaves of a tree that imitates the model are reached by a run's tests.

    >>> Coverage(reached=45, leaves=60, tests=1000, accuracy=0.95, wanted=0.9, rows=20_000)
    Coverage: 1,000 tests reach 45 of 60 leaves (75%) of a tree that is right on 95% of decisions
    """

    reached: int
    """Leaves that an individual of some test, or a counterpart, comes to."""
    leaves: int
    """Leaves of the tree."""
    tests: int
    accuracy: float
    """How right the tree is about individuals that it was not grown from; every decision counts alike."""
    wanted: float
    """The accuracy that was asked for."""
    rows: int
    """Rows that the model was asked to grow the tree, outside all budgets."""

    @property
    def share(self) -> float:
        """The share of leaves that are reached."""
        return self.reached / self.leaves

    @property
    def accurate(self) -> bool:
        """Whether the tree is as accurate as was asked for; if not, its leaves say little about the model."""
        return self.accuracy >= self.wanted

    @property
    def words(self) -> str:
        """Say it to a reader."""
        short = "" if self.accurate else f", less than the {percent(self.wanted)} asked for"
        return (
            f"{self.reached:,} of {self.leaves:,} {'leaf' if self.leaves == 1 else 'leaves'} ({percent(self.share)}) "
            f"of a tree that is right on {percent(self.accuracy)} of decisions{short}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give all of it in plain values."""
        return asdict(self) | {"share": self.share, "accurate": self.accurate}

    def __repr__(self) -> str:
        return f"Coverage: {self.tests:,} {'test reaches' if self.tests == 1 else 'tests reach'} {self.words}"


def coverage(
    run: Run,
    model: Any = None,
    data: Any = None,
    *,
    accuracy: float = 0.9,
    samples: int = 20_000,
    seed: int = 0,
) -> Coverage:
    """Measure how many leaves of a decision tree that imitates the model are reached by a run's tests.

    The tree is grown from the model's decisions about uniform valid individuals. A test reaches every leaf that a
    member of its family comes to.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory.
    model
        Anything that ``wrap`` takes; needed for a run that was read from its directory, else by default the run's own.
    data
        The rows that the run was given, if it was read from its directory and its search starts from data.
    accuracy
        How accurate the tree should be; the result says whether it is.
    samples
        How many individuals to grow it from. The model is asked about each; that is not part of the run's budget.
    seed
        Same seed, same tree.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> def refuse(frame):
    ...     return (frame["age"] < 4) & (frame["sex"] == "F")
    >>> eh.coverage(eh.audit(refuse, space, strategy="themis"))
    Coverage: 9 tests reach 3 of 3 leaves (100%) of a tree that is right on 100% of decisions
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
    """Draw uniform individuals who can be tested, and say whether they are all that there are."""
    space = run.space
    # Draws of their own: those of a random search with the same seed would reach every leaf that they made.
    stream = Stream(int(Stream(seed).bits("coverage", 0, 0)[0] >> np.uint64(1)))
    drawn, end = space.sampler.draw(stream, 0, samples)
    complete = space.sampler.deck and end >= space.sampler.count
    people = drawn if not space.constraints else drawn[_testable(space, drawn, run.identity.seed)]
    if len(people) < (1 if complete else FOLDS):
        raise SpaceError(
            f"{len(people)} of {len(drawn):,} individuals that were drawn have two counterparts that the constraints "
            "allow; draw more of them (samples=...) or loosen the constraints"
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
        f"{got}, but coverage wants decisions, at most {DECISIONS} different ones",
        remedy=("make numbers decisions with ", THRESHOLD),
    )


def _check_arguments(run: Any, accuracy: Any, samples: Any, seed: Any) -> tuple[int, int]:
    """Raise in words where an argument is of the wrong kind; return samples and seed as plain numbers."""
    check_run(run)
    require(run.space, "attributes")
    if not is_number(accuracy) or not 0 < accuracy <= 1:
        raise StrategyError(f"accuracy must be a number above 0 and up to 1, got {accuracy!r}")
    if not is_int(samples) or samples < LEAST:
        raise StrategyError(f"samples must be a whole number of at least {LEAST}, got {samples!r}")
    if not is_int(seed) or not 0 <= seed < 2**63:
        raise StrategyError(f"seed must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    return int(samples), int(seed)
