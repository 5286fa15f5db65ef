"""The driver of an audit: passes questions and answers between a search and the oracle, and returns the run."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._interrupts import Token, check, settled, watched
from evenhand._rng import Stream
from evenhand._validate import check_int, check_number, check_seed
from evenhand._version import __version__
from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion, Flip
from evenhand.engine.accounting import Clock, Status, Stop, Stored
from evenhand.engine.confirm import Checked, check_kept, confirm, otherwise
from evenhand.engine.judge import CHUNK
from evenhand.engine.oracle import Oracle
from evenhand.engine.probe import ModelProbe
from evenhand.engine.store import (
    Directory,
    Log,
    RunIdentity,
)
from evenhand.engine.unused import SCORED, compare_scores, unread
from evenhand.engine.visited import Origin
from evenhand.errors import (
    TEXT_SPACE,
    BudgetError,
    EvenhandError,
    FlakyModel,
    ModelError,
    RunError,
    SpaceError,
    StrategyError,
    search,
)
from evenhand.models.wrap import wrap
from evenhand.runs.run import COUNTS, EndLost, Run
from evenhand.search import Problem, Strategy
from evenhand.spaces.base import AnySpace, Block, Bound, require
from evenhand.strategies import describe, make

DEFAULT_TESTS = 100_000
UNTESTABLE = 1000
RETRACED = 2**16
"""How many tests of a finished run are repeated, to check some of them, before it is returned."""


def audit(
    model: Any,
    space: AnySpace,
    strategy: str | Strategy | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    criterion: Criterion | None = None,
    data: Any = None,
    directory: str | Path | None = None,
    *,
    chunk: int = CHUNK,
    timeout: float | None = None,
    progress: Callable[[Status], None] | None = None,
    confirm: int | None = None,
    cancel: Token | None = None,
) -> Run:
    """Search a model's input space for individuals that are treated differently.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes: a callable on a batch, an estimator, a model file.
    space
        The valid inputs, and which attributes are protected; for texts a ``TextSpace``.
    strategy
        A name (``"kosei"``) or a strategy with settings (``Kosei(samples=500)``); by default the one that suits the
        space, ``"kosei"`` or, for texts, ``"text-random"``.
    budget
        When to stop; by default after 100,000 tests.
    seed
        Same seed, same findings.
    criterion
        What counts as different; by default a changed decision.
    data
        Real rows, for strategies that start from them; the texts of a ``TextSpace``.
    directory
        Where to keep the run. The same call with the same directory continues an unfinished run and returns a finished
        one; a larger budget extends it.
    chunk
        Maximum rows of one block, which is judged and logged as a unit. The model sees a block in one or more calls;
        ``wrap(model, batch_size=)`` fixes their size.
    timeout
        Maximum seconds of one model call.
    progress
        Called with a ``Status`` after every block.
    confirm
        Maximum number of findings to query again before the run is returned; by default all. The seed chooses them, and
        ``run.findings`` marks the others as not confirmed.
    cancel
        Ends the run from another thread, as Ctrl-C does: a ``threading.Event``, or another object with ``is_set()``.
        It is checked between model calls.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected=["sex"])
    >>> def refuse(frame):
    ...     return (frame["age"] < 4) & (frame["sex"] == "F")
    >>> run = eh.audit(refuse, space, strategy="themis")
    >>> run.found, run.tests, run.stop.value
    (3, 9, 'exhausted')
    """
    return run_search(
        model,
        space,
        strategy,
        budget,
        seed,
        criterion,
        data,
        directory,
        chunk=chunk,
        timeout=timeout,
        progress=progress,
        confirm=confirm,
        cancel=cancel,
    )


@watched()
def run_search(
    model: Any,
    space: AnySpace,
    strategy: str | Strategy | None,
    budget: Budget | None,
    seed: int,
    criterion: Criterion | None = None,
    data: Any = None,
    directory: str | Path | None = None,
    *,
    chunk: int = CHUNK,
    timeout: float | None = None,
    progress: Callable[[Status], None] | None = None,
    exclude: Callable[[Any], npt.NDArray[np.bool_]] | None = None,
    confirm: int | None = None,
    cancel: Token | None = None,
) -> Run:
    """Run an audit; individuals that ``exclude`` selects are skipped, as if they had been judged before."""
    chosen = strategy_for(space, strategy)
    seed, chunk = check_arguments(seed, chunk, budget, criterion, timeout, progress)
    if confirm is not None:
        confirm = check_int("confirm", confirm, BudgetError, 0, remedy="use None for all findings")
    check_cancel(cancel)
    budget = budget or Budget(tests=DEFAULT_TESTS)
    wrapped = wrap(model)
    start = space.bind(data, wrapped)
    gradient: Any = getattr(chosen, "gradient", "auto") if getattr(chosen, "uses_gradient", False) else None
    probe = ModelProbe(wrapped, start.ground, criterion or Flip(), timeout, gradient)
    fixed = start.ground.probes(start.people)
    with probe.client.calls.at_once():
        # One call, because scores can depend slightly on the size of a call.
        labels, scores = probe.both(fixed.rows)
    identity = _identity(probe, chosen, seed, chunk, start.people, labels if scores is None else scores)
    place = None if directory is None else Directory(directory, identity)
    try:
        if place is not None:
            _refuse_unsteady(place)
        known = None if place is None else _finished(place, budget, confirm)
        log = (Log if known is None else Stored)(None if place is None else place.answers)
        oracle = Oracle(probe, budget, seed, chunk, log, Clock(log.times), progress, exclude)
        oracle.rows_apart += len(fixed) * probe.cost
        oracle.findings.keep_example(labels)
        problem = Problem(start.ground, Stream(seed), start.people)
        problem.counts |= {name: n for name, n in start.counts.items() if n}
        if known is not None:
            assert place is not None
            try:
                _check_same_model(known, chosen, problem, oracle)
            except FlakyModel as error:
                error.partial = _mark_unsteady(place, error)
                place.finish(error.partial.to_dict())
                raise
            known.origin = Origin(probe, chosen, start.people, None)
            known.pairs.keep_example(labels)
            return known
        # Only from here on, so that a cancelled run has a result to return.
        oracle.cancel = probe.client.calls.cancel = cancel
        return _drive(chosen, problem, oracle, identity, start, place, confirm)
    finally:
        if place is not None:
            place.close()


def _drive(
    strategy: Strategy,
    problem: Problem,
    oracle: Oracle,
    identity: RunIdentity,
    start: Bound,
    place: Directory | None,
    most: int | None,
) -> Run:
    """Run the search, check its findings, and store the result."""
    scored = None
    checked = Checked(most)
    try:
        stop = _search(strategy, problem, oracle)
        oracle.check_same_model()
        _check_testable(oracle, problem, stop)
        oracle.check_rows()
        checked, rows, unsteady = confirm(oracle.probe, oracle.findings, oracle.seed, oracle.chunk, most)
        oracle.rows_apart += rows
        if unsteady is not None:
            stored = [at for at in checked.refuted if at < oracle.stored_findings]
            if stored:
                checked = Checked(most)
                raise otherwise(oracle.probe, oracle.findings, np.array(stored), place.path if place else None)
            raise unsteady
        scored = _compare_scores(oracle, problem, start)
        check()
    except KeyboardInterrupt:
        settled()
        stop = StopReason.INTERRUPTED
    except EvenhandError as error:
        kept = place is not None and _kept(oracle.log, place)
        where = f"kept in {place.path}" if place and kept else "the error's attribute partial is the run so far"
        error.add_note(f"{oracle.tests:,} tests had been judged; {where}")
        if isinstance(error, FlakyModel):
            checked = checked.accused(error)
        error.partial = _run(oracle, problem, StopReason.INTERRUPTED, identity, start, place, strategy, checked)
        if place is not None and isinstance(error, FlakyModel):
            # Readers of the directory must know what is wrong with its findings.
            place.finish((_mark_unsteady(place, error) if oracle.replayed_rows else error.partial).to_dict())
        raise
    finally:
        oracle.log.close()
    run = _run(oracle, problem, stop, identity, start, place, strategy, checked)
    run.scored = scored
    # A smaller budget than before gives the first findings of what is stored, and leaves that as it is.
    part = oracle.log.upcoming is not None or oracle.cut
    try:
        oracle.log.check()
        if place is not None and (oracle.log.appended or not part):
            place.finish(run.to_dict())
        if place is not None:
            place.check()
    except RunError as error:
        error.add_note(f"{run.tests:,} tests had been judged; the error's attribute partial is the whole run")
        error.partial = run
        raise
    return run


def _kept(log: Log, place: Directory) -> bool:
    """Whether a run that an error ended can be read from its directory."""
    log.close()
    try:
        log.check()
        place.check()
    except RunError:
        return False
    return place.answers.exists()


def _search(strategy: Strategy, problem: Problem, oracle: Oracle) -> StopReason:
    """Pass queries and answers between the search and the oracle until one of them stops."""
    search = strategy.search(problem)
    # The clock may also end a run between two calls of one block.
    oracle.probe.client.calls.between = oracle.check_clock
    try:
        answer: Any = None
        while True:
            answer = oracle.answer(search.send(answer))
    except StopIteration:
        return StopReason.FINISHED
    except Stop as end:
        return end.reason
    finally:
        oracle.probe.client.calls.between = None
        oracle.clock.stop()
        search.close()


def _check_same_model(known: Run, strategy: Strategy, problem: Problem, oracle: Oracle) -> None:
    """Raise if the model of a finished run has changed: query findings again first, then other tests."""
    check_kept(oracle.probe, known.pairs, oracle.chunk, known.directory)
    # The log does not contain the individuals: the search produces them again.
    oracle.budget = Budget(tests=min(known.tests, RETRACED)) if known.tests else Budget(tests=1)
    _search(strategy, problem, oracle)
    oracle.check_same_model()


def _compare_scores(oracle: Oracle, problem: Problem, start: Bound) -> tuple[int, int] | None:
    """If nothing was found, compare the scores of counterparts, outside all budgets."""
    probe = oracle.probe
    if oracle.findings.count or not oracle.tests:
        return None
    some = problem.ground.probes(start.people, SCORED)
    scored, rows = compare_scores(probe, problem.ground.families(some, oracle.seed))
    oracle.rows_apart += rows
    return scored


def _check_testable(oracle: Oracle, problem: Problem, stop: StopReason) -> None:
    """Raise if the constraints leave no individual to compare; a few unlucky draws prove nothing."""
    if oracle.tests or not oracle.untestable:
        return
    over = problem.exhausted or (problem.data is not None and stop is StopReason.FINISHED)
    if oracle.untestable >= UNTESTABLE or over:
        raise SpaceError(
            f"none of {oracle.untestable:,} individuals has two counterparts that the constraints allow, so nothing "
            "can be compared",
            remedy=f"loosen the constraints on {', '.join(map(repr, problem.ground.space.protected))}",
        )


def _run(
    oracle: Oracle,
    problem: Problem,
    stop: StopReason,
    identity: RunIdentity,
    start: Bound,
    place: Directory | None,
    strategy: Strategy,
    checked: Checked,
) -> Run:
    counted = (oracle.repeats, oracle.untestable, start.clipped, start.dropped, oracle.checked, oracle.replayed_rows)
    counts = dict(zip(COUNTS, counted, strict=True))
    for name, n in problem.counts.items():
        counts[name] = counts.get(name, 0) + n
    last = (oracle.tests, oracle.rows, oracle.findings.count)
    points = oracle.curve if oracle.curve and oracle.curve[-1] == last else [*oracle.curve, last]
    checked.settle(oracle.findings, oracle.seed)
    ground = oracle.ground
    return Run(
        ground.space,
        identity,
        oracle.budget,
        stop,
        oracle.tests,
        dict(oracle.asked),
        oracle.clock.seconds,
        counts,
        oracle.findings,
        checked.counted(points),
        versions(),
        None if place is None else place.path,
        Origin(oracle.probe, strategy, start.people, oracle.judged),
        unread(oracle.probe),
        checked=checked,
    )


def _finished(place: Directory, budget: Budget, confirm: int | None) -> Run | None:
    """Return the stored run, if it ended with this budget and at least as many findings are confirmed."""
    result = place.result
    if result is None or result.get("stop") == StopReason.INTERRUPTED.value or result.get("budget") != vars(budget):
        return None
    asked, found = result.get("checked", {}).get("asked_again", 0), result.get("findings", 0) + result.get("refuted", 0)
    if asked < (found if confirm is None else min(confirm, found)):
        return None
    try:
        return Run.load(place.path)
    except EndLost:
        # The run can continue from the answers that are left.
        return None


def _refuse_unsteady(place: Directory) -> None:
    """Raise if the stored answers come from a noisy model: it is unknown which of them are right."""
    checked = Checked.of(place.result or {})
    if checked.unsteady is None:
        return
    error = FlakyModel(
        f"the predictions of the model were not reproducible in the run in {place.path}: {checked.unsteady}",
        checked.noise,
        remedy="make them reproducible, then use a new directory",
    )
    error.partial = Run.load(place.path)
    raise error


def _mark_unsteady(place: Directory, error: FlakyModel) -> Run:
    """Return the stored run, with the reason why none of its findings is confirmed."""
    known = Run.load(place.path)
    known.checked = known.checked.accused(error)
    known.pairs.confirmed = None
    return known


def _identity(
    probe: ModelProbe, strategy: Strategy, seed: int, chunk: int, people: Block | None, answers: npt.NDArray[Any]
) -> RunIdentity:
    """Identify a run; ``answers`` are the model's labels, or its scores, for the fixed individuals."""
    data = None
    if people is not None and getattr(strategy, "uses_data", True):
        data = probe.ground.digest_of(people)
    if probe.scored and probe.slopes is not None:
        probe.slopes.check(answers)
    if probe.scored and probe.word_slopes is not None:
        probe.word_slopes.check(probe, answers)
    return RunIdentity(
        space=probe.ground.describe(),
        strategy=describe(strategy),
        seed=seed,
        criterion=probe.criterion,
        chunk=chunk,
        data=data,
        model=probe.model.name,
        answers=digest_of_answers(answers),
        model_sha256=probe.model.sha256,
        gradient=probe.gradient,
    )


def digest_of_answers(answers: npt.NDArray[Any]) -> str:
    """Identify a model by its labels, or its rows of scores, for the fixed individuals."""
    values = [str(v) for v in answers] if answers.ndim == 1 else np.round(answers, 6).tolist()
    return hashlib.sha256(repr(values).encode()).hexdigest()


def strategy_for(space: Any, strategy: str | Strategy | None) -> Strategy:
    """Return a search that fits the space, by default the space's own."""
    if not isinstance(space, AnySpace):
        require(space, "attributes")
    chosen = make(space.default_strategy if strategy is None else strategy)
    check_kind(space, chosen)
    return chosen


def check_kind(space: Any, strategy: Strategy) -> None:
    """Raise if a search needs another kind of space.

    >>> from evenhand.strategies import TextRandom
    >>> from evenhand.spaces.text.space import TextSpace
    >>> check_kind(TextSpace("religion"), TextRandom())
    """
    needs, name = needs_of(strategy), describe(strategy)["strategy"]
    if not space.supports(needs):
        kind = "attributes" if space.supports("attributes") else f"{space.noun}s"
        other = ("use ", TEXT_SPACE, ", or ") if needs == "texts" else ("use ",)
        raise StrategyError(
            f"{name} searches {needs}, and the space is one of {kind}",
            remedy=(*other, search(space.default_strategy), f" (a search of your own sets needs = {needs!r})"),
        )


def needs_of(strategy: Any) -> str:
    """Return the feature of a space that a search needs, by default attributes."""
    return str(getattr(strategy, "needs", "attributes"))


def check_arguments(seed: Any, chunk: Any, budget: Any, criterion: Any, timeout: Any, progress: Any) -> tuple[int, int]:
    """Check the arguments that several functions share; return seed and chunk as Python integers."""
    seed, chunk = check_seed(seed, StrategyError), check_int("chunk", chunk, StrategyError, 2)
    if budget is not None and not isinstance(budget, Budget):
        raise BudgetError("must be an eh.Budget", parameter="budget", value=budget, remedy="use eh.Budget(tests=1000)")
    if criterion is not None and not isinstance(criterion, Criterion):
        raise StrategyError("must be eh.Flip(), eh.Gap(gamma) or made of them", parameter="criterion", value=criterion)
    if timeout is not None:
        check_number("timeout", timeout, ModelError, above=0, remedy="give seconds, or None for no limit")
    if progress is not None and not callable(progress):
        raise StrategyError("must be a function of an eh.results.Status", parameter="progress", value=progress)
    return seed, chunk


def check_cancel(cancel: Any) -> None:
    """Raise unless this is a token that can end a run."""
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise RunError(
            "must be an object with is_set()", parameter="cancel", value=cancel, remedy="use a threading.Event"
        )


def versions() -> dict[str, str]:
    """Return the versions of evenhand, Python and the main packages."""
    return {"evenhand": __version__, "python": platform.python_version(), **_packages()}


@cache
def _packages() -> dict[str, str]:
    """Look up versions once: reading them takes as long as a small audit."""
    return {package: metadata.version(package) for package in ("numpy", "pandas", "scipy", "scikit-learn")}
