"""Path coverage: how much of what a model distinguishes the tests of a run have come by."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import percent
from evenhand._rng import Stream
from evenhand._validate import is_int, is_number
from evenhand.criteria import Flip
from evenhand.engine.probe import Asker
from evenhand.engine.visited import block_size
from evenhand.errors import DECIDE, THRESHOLD, ModelError, RunError, SpaceError, StrategyError
from evenhand.retracing import retrace
from evenhand.runs.replay import asker_of
from evenhand.runs.run import Run
from evenhand.spaces.base import require
from evenhand.spaces.findings import Decisions
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space
from evenhand.surrogate import FOLDS, imitate

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

    The tree is grown from the model's decisions about uniform legal individuals. A test reaches every leaf that a
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
    asker = asker_of(run, model, "eh.coverage", Flip())
    tests = retrace(run, data)
    people, complete = _people(run, samples, seed)
    tree = imitate(run.space, people.rows, _decisions(asker, people, run.identity.chunk), complete)
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
    drawn, end = space.sampler.deal(stream, 0, samples)
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


def _decisions(asker: Asker, people: Individuals, chunk: int) -> npt.NDArray[Any]:
    if asker.model.regression:
        raise _no_decisions(f"{asker.model.name} returns numbers")
    table = Decisions()
    parts = [table.encode(asker.labels(people[i : i + chunk].rows, DECIDE)) for i in range(0, len(people), chunk)]
    codes = np.concatenate(parts)
    if len(known := np.unique(codes)) > DECISIONS:
        raise _no_decisions(f"{asker.model.name} gave {len(known):,} different answers")
    return codes


def _no_decisions(got: str) -> ModelError:
    return ModelError(
        f"{got}, but coverage wants decisions, at most {DECISIONS} different ones",
        remedy=("make numbers decisions with ", THRESHOLD),
    )


def _check_arguments(run: Any, accuracy: Any, samples: Any, seed: Any) -> tuple[int, int]:
    """Raise in words where an argument is of the wrong kind; return samples and seed as plain numbers."""
    if not isinstance(run, Run):
        raise RunError(f"run must be an eh.Run, got {type(run).__name__}; eh.Run.load(directory) reads one")
    require(run.space, "attributes")
    if not is_number(accuracy) or not 0 < accuracy <= 1:
        raise StrategyError(f"accuracy must be a number above 0 and up to 1, got {accuracy!r}")
    if not is_int(samples) or samples < LEAST:
        raise StrategyError(f"samples must be a whole number of at least {LEAST}, got {samples!r}")
    if not is_int(seed) or not 0 <= seed < 2**63:
        raise StrategyError(f"seed must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    return int(samples), int(seed)
