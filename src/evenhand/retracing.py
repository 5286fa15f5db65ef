"""Whom a run has tested: from memory, or by repeating its search with the stored answers alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from evenhand._rng import Stream
from evenhand.budget import Budget
from evenhand.criteria import Flip
from evenhand.engine.accounting import Clock, Stop, Stored
from evenhand.engine.gradients import DIFFERENCES
from evenhand.engine.oracle import Oracle
from evenhand.engine.probe import Asker
from evenhand.engine.store import ANSWERS
from evenhand.engine.visited import Trail
from evenhand.errors import DATA, DIRECTORY, RunError
from evenhand.models.base import Model
from evenhand.runs.run import Run
from evenhand.search import Problem, Strategy
from evenhand.spaces.individuals import Individuals
from evenhand.strategies import known, make


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
    """Let the search ask again, answer from the log, and give whom it tests, until all tests have been seen."""
    assert run.directory is not None
    if not run.tests:
        return
    identity, log = run.identity, Stored(run.directory / ANSWERS)
    asker = Asker(Absent(run.gradient), run.space, Flip(), gradient=None if run.gradient is None else "auto")
    # Whatever ended the run: its tests are the first so many, because a budget never changes what a search asks.
    oracle = Oracle(asker, Budget(tests=run.tests), identity.seed, identity.chunk, log, Clock(log.times))
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
