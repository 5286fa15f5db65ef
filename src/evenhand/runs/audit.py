"""``eh.audit``: the driver passes queries and answers between a search and the oracle, and returns the run."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand import __version__
from evenhand._format import percent
from evenhand._interrupts import Token, check, check_cancel, mark_handled, watched
from evenhand._rng import Stream
from evenhand._validate import check_int, check_seed
from evenhand.budget import Budget, StopReason
from evenhand.criteria import Criterion, Flip, Pairwise, check_criterion
from evenhand.engine.determinism import PROBES, Checked, check_kept, confirm, not_reproduced
from evenhand.engine.judge import CHUNK, SCORED, Exclude, ModelProbe, compare_scores, unread
from evenhand.engine.oracle import Clock, Oracle, Origin, Status, Stop, Stored
from evenhand.engine.store import PENDING, About, Directory, Log, RunIdentity, digest_of_answers
from evenhand.errors import (
    TEXT_SPACE,
    BudgetError,
    EvenhandError,
    FlakyModel,
    RunError,
    SpaceError,
    StrategyError,
    search,
)
from evenhand.models.base import Model
from evenhand.models.transport import RequestsSpent
from evenhand.models.wrap import wrap
from evenhand.runs.pair_sentences import Pair, pairs_at
from evenhand.runs.run import COUNTS, EndLost, Run, RunEstimate, estimate_of_draws
from evenhand.search import Problem, Strategy
from evenhand.spaces.base import AnySpace, Block, check_space, table
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import DEPENDS
from evenhand.strategies import describe, make

DEFAULT_TESTS = 100_000
UNTESTABLE = 1000
COUNTED = 2_000_000
"""Maximum number of individuals to count one by one after all were judged."""
RETRACED = 2**16
"""Maximum number of stored tests to collect, to check some of them before a finished run is returned."""


def audit(
    model: Any,
    space: AnySpace,
    strategy: str | Strategy | None = None,
    budget: Budget | int | None = None,
    seed: int = 0,
    criterion: Criterion | None = None,
    data: Any = None,
    directory: str | Path | None = None,
    *,
    executor: Executor | int | None = None,
    progress: Callable[[Status], None] | bool | None = None,
    confirm: int | None = None,
    cancel: Token | None = None,
) -> Run:
    """Search a model's input space for individuals that are treated differently.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes: a callable on a batch, an estimator, a model file. ``wrap(model, batch_size=,
        chunk=, timeout=)`` controls how it is called.
    space
        The valid inputs, and which attributes are protected; for texts a ``TextSpace``.
    strategy
        A name (``"kosei"``) or a strategy with settings (``Kosei(samples=500)``); by default ``"auto"``, which
        estimates how common discrimination is (``run.estimate``) and divides its budget among several searches.
    budget
        When to stop: a number of tests, or an ``eh.Budget``; by default after 100,000 tests.
    seed
        Same seed, same findings.
    criterion
        What counts as different; by default a changed decision.
    data
        Real rows, for searches that start from them; for a ``TextSpace``, the texts.
    directory
        Where to keep the run. The same call with the same directory continues an unfinished run and returns a finished
        one; a larger budget extends it.
    executor
        Where the model is called: a number of processes on this machine, a ``concurrent.futures.Executor``, or a
        ``dask.distributed.Client``; by default in this process. The run is the same.
    progress
        Called with a ``Status`` after every block. By default a terminal or a notebook shows how far the run is; False:
        nothing is shown.
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
    chosen = strategy_for(space, strategy)
    limits, automatic = Budget.of(budget), isinstance(progress, bool | None)
    seed = check_seed(seed, StrategyError)
    check_criterion(criterion)
    if not (automatic or callable(progress)):
        raise StrategyError("must be a function of an eh.results.Status", parameter="progress", value=progress)
    if confirm is not None:
        confirm = check_int("confirm", confirm, BudgetError, 0, remedy="use None for all findings")
    check_cancel(cancel)
    driver = Driver(wrap(model).on(executor), space, chosen, seed, criterion, data)
    of: Any = space
    most = of.tests if of.supports("attributes") and of.countable else None
    with show_progress(automatic and progress is not False, most) as show:
        called: Any = show if automatic else progress
        return driver.run(limits or Budget(tests=DEFAULT_TESTS), directory, called, confirm, cancel)


class SoFar(NamedTuple):
    """What is known about a run that goes on."""

    estimate: dict[str, RunEstimate]
    curve: list[tuple[int, int, int]]
    """Tests, model rows and findings, as in ``Run.points``."""
    pairs: list[Pair]
    """The first findings, not yet confirmed, with little of those that are rows of the data."""


class Driver:
    """Passes queries and answers between one search and the oracle.

    Individuals that ``exclude`` selects are skipped, as if they had been judged before.
    """

    def __init__(
        self,
        model: Any,
        space: AnySpace,
        strategy: Strategy,
        seed: int,
        criterion: Criterion | None = None,
        data: Any = None,
        exclude: Exclude | None = None,
    ) -> None:
        wrapped = wrap(model)
        self.strategy, self.seed, self.chunk, self._exclude = strategy, seed, wrapped.chunk or CHUNK, exclude
        self.start = space.bind(data, wrapped)
        criterion = criterion or Flip()
        self.probe = ModelProbe(wrapped, self.start.bound, criterion, gradient_for(strategy, wrapped, criterion))
        self.problem = Problem(
            self.start.bound,
            Stream(seed),
            self.start.people,
            offers=offered(self.probe),
            spent=lambda: self.oracle.rows,
        )
        self.problem.counts |= {name: n for name, n in self.start.counts.items() if n}
        self.place: Directory | None = None
        self.about = About.now()
        self._remote = wrapped.remote

    @watched()
    def run(
        self,
        budget: Budget,
        directory: str | Path | None = None,
        progress: Callable[[Status], None] | None = None,
        confirm: int | None = None,
        cancel: Token | None = None,
    ) -> Run:
        """Run the search, or return the run that the directory holds."""
        probe = self.probe
        if self._remote is not None:
            self._remote.start()
        fixed = self.start.bound.probes(self.start.people)
        with probe.client.calls.at_once():
            # One call, because scores can depend slightly on the size of a call.
            labels, scores = probe.both(fixed.rows)
        probe.check_gap(scores)
        self.identity = self._identity(labels if scores is None else scores)
        place = self.place = None if directory is None else Directory(directory, self.identity)
        try:
            if place is not None:
                self.about = About.read(place.path)
                _refuse_unsteady(place)
            known = None if place is None else _finished(place, budget, confirm)
            log = (Log if known is None else Stored)(None if place is None else place.answers)
            oracle = Oracle(probe, budget, self.seed, self.chunk, log, Clock(log.times), progress, self._exclude)
            oracle.rows_apart += len(fixed) * probe.cost
            oracle.findings.keep_example(labels)
            oracle.steadiness.spare = lambda: self.start.bound.probes(self.start.people, PROBES).rows
            self.oracle, self.problem.memo = oracle, oracle.memo
            if known is not None:
                self._check_same_model(known)
                known.origin = Origin(probe, self.strategy, self.start.people, None)
                known.pairs.keep_example(labels)
                return known
            # Only from here on, so that a cancelled run has a result to return.
            oracle.cancel = probe.client.calls.cancel = cancel
            if self._remote is not None and place is not None:
                self._remote.keep(place.path / PENDING, lambda: log.end)
            return self._drive(confirm)
        finally:
            if self._remote is not None:
                self._remote.release(ended=False)
            if place is not None:
                place.close()

    def _identity(self, answers: npt.NDArray[Any]) -> RunIdentity:
        """Identify the run; ``answers`` are the model's labels, or its scores, for the fixed individuals."""
        probe, people, data = self.probe, self.start.people, None
        if people is not None and getattr(self.strategy, "uses_data", True):
            data = probe.bound.digest_of(people)
        if probe.scored and probe.slopes is not None:
            probe.slopes.check(answers)
        if probe.scored and probe.word_slopes is not None:
            probe.word_slopes.check(probe, answers)
        return RunIdentity(
            space=probe.bound.describe(),
            strategy=describe(self.strategy),
            seed=self.seed,
            criterion=probe.criterion,
            chunk=self.chunk,
            data=data,
            model=probe.model.name,
            answers=digest_of_answers(answers),
            model_sha256=probe.model.sha256,
            gradient=probe.gradient,
        )

    def _drive(self, confirm_most: int | None) -> Run:
        """Run the search, check its findings, and store the result."""
        oracle, place, scored = self.oracle, self.place, None
        checked = Checked(confirm_most)
        try:
            with oracle.probe.model.same_model():
                stop = self._search()
                oracle.check_same_model()
                self._check_testable(stop)
                oracle.check_rows()
                checked, rows, unsteady = confirm(
                    oracle.probe, oracle.findings, oracle.seed, oracle.chunk, confirm_most
                )
                oracle.rows_apart += rows
                if unsteady is not None:
                    stored = [at for at in checked.refuted if at < oracle.stored_findings]
                    if stored:
                        checked = Checked(confirm_most)
                        found = np.array(stored)
                        raise not_reproduced(oracle.probe, oracle.findings, found, place.path if place else None)
                    raise unsteady
                scored = self._compare_scores()
            if self._remote is not None:
                self._remote.release(ended=True)
            check()
        except KeyboardInterrupt:
            mark_handled()
            stop = StopReason.INTERRUPTED
        except EvenhandError as error:
            kept = place is not None and _kept(oracle.log, place)
            where = f"kept in {place.path}" if place and kept else "the error's attribute partial is the run so far"
            error.add_note(f"{oracle.tests:,} tests had been judged; {where}")
            if isinstance(error, FlakyModel):
                checked = checked.marked_unsteady(error)
            error.partial = self._run(StopReason.INTERRUPTED, checked)
            if place is not None and isinstance(error, FlakyModel):
                # Readers of the directory must know that its findings are not reliable.
                place.finish((_mark_unsteady(place, error) if oracle.replayed_rows else error.partial).to_store())
            raise
        finally:
            oracle.log.close()
        run = self._run(stop, checked)
        run.scored = scored
        # A smaller budget than before gives the first stored findings, and does not change the directory.
        part = oracle.log.upcoming is not None or oracle.cut
        try:
            oracle.log.check()
            if place is not None and (oracle.log.appended or not part):
                place.finish(run.to_store())
            if place is not None:
                place.check()
        except RunError as error:
            error.add_note(f"{run.tests:,} tests had been judged; the error's attribute partial is the whole run")
            error.partial = run
            raise
        return run

    def _search(self) -> StopReason:
        """Pass queries and answers between the search and the oracle until one of them stops."""
        oracle, search = self.oracle, self.strategy.search(self.problem)
        # The clock may also end a run between two calls of one block.
        oracle.probe.client.calls.between = oracle.check_clock
        if self._remote is not None:
            self._remote.allow(oracle.budget.requests)
        try:
            answer: Any = None
            while True:
                answer = oracle.answer(search.send(answer))
        except StopIteration:
            return StopReason.FINISHED
        except Stop as end:
            return end.reason
        except RequestsSpent:
            return StopReason.REQUESTS
        finally:
            if self._remote is not None:
                self._remote.allow(None)
            oracle.probe.client.calls.between = None
            oracle.clock.stop()
            search.close()

    def _check_same_model(self, known: Run) -> None:
        """Raise if the model of a finished run has changed: query findings again first, then other tests."""
        oracle, place = self.oracle, self.place
        assert place is not None
        try:
            check_kept(oracle.probe, known.pairs, oracle.chunk, known.directory)
            # The log does not contain the individuals: the search produces them again.
            oracle.budget = Budget(tests=min(known.tests, RETRACED)) if known.tests else Budget(tests=1)
            self._search()
            oracle.check_same_model()
        except FlakyModel as error:
            error.partial = _mark_unsteady(place, error)
            place.finish(error.partial.to_store())
            raise

    def _compare_scores(self) -> tuple[int, int] | None:
        """If nothing was found, compare the scores of counterparts, outside all budgets."""
        oracle, bound = self.oracle, self.problem.bound
        if oracle.findings.count or not oracle.tests:
            return None
        some = bound.probes(self.start.people, SCORED)
        scored, rows = compare_scores(oracle.probe, bound.families(some, oracle.seed))
        oracle.rows_apart += rows
        return scored

    def _check_testable(self, stop: StopReason) -> None:
        """Raise if the constraints leave no individual to compare; a few unlucky draws prove nothing."""
        oracle, problem = self.oracle, self.problem
        if oracle.tests or not oracle.untestable:
            return
        over = problem.exhausted or (problem.data is not None and stop is StopReason.FINISHED)
        if oracle.untestable >= UNTESTABLE or over:
            raise nothing_to_compare(problem.bound.space, oracle.untestable)

    def _run(self, stop: StopReason, checked: Checked) -> Run:
        """Make the run of what has been asked so far."""
        oracle, start = self.oracle, self.start
        counted = (
            oracle.repeats, oracle.untestable, start.clipped, start.dropped, oracle.checked, oracle.replayed_rows
        )  # fmt: skip
        counts = dict(zip(COUNTS, counted, strict=True))
        for name, n in self.problem.counts.items():
            counts[name] = counts.get(name, 0) + n
        apart = getattr(oracle.findings, "apart", None)
        if apart is not None and apart.count:
            counts[DEPENDS] = apart.count
        if self._remote is not None:
            counts["requests"] = self._remote.spent
        last = (oracle.tests, oracle.rows, oracle.findings.count)
        points = oracle.curve if oracle.curve and oracle.curve[-1] == last else [*oracle.curve, last]
        checked.apply(oracle.findings, oracle.seed)
        return Run(
            oracle.bound.space,
            self.identity,
            oracle.budget,
            stop,
            oracle.tests,
            dict(oracle.asked),
            oracle.clock.seconds,
            counts,
            oracle.findings,
            checked.counted(points),
            dict(_versions()),
            None if self.place is None else self.place.path,
            Origin(oracle.probe, self.strategy, start.people, oracle.judged),
            unread(oracle.probe),
            checked=checked,
            arms=self.problem.arms,
            estimate=self._estimate(stop),
            about=self.about,
        )

    def so_far(self, n: int = 3) -> SoFar:
        """Return what is known while the run goes on; to be called by its ``progress``.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
        >>> driver = Driver(lambda f: (f["age"] < 4) & (f["sex"] == "F"), space, eh.Themis(), 0)
        >>> seen = []
        >>> _ = driver.run(eh.Budget(tests=9), progress=lambda status: seen.append(driver.so_far(1)))
        >>> seen[-1].curve[-1][0], len(seen[-1].pairs)
        (9, 1)
        """
        oracle, people = self.oracle, self.start.people
        first = np.arange(min(n, oracle.findings.count))
        pairs = pairs_at(oracle.findings, first)
        if people is not None and oracle.bound.supports("attributes") and len(first):
            known = np.isin(oracle.findings.individuals("individual", first).keys, people.keys)
            pairs = [pair.masked() if of_data else pair for pair, of_data in zip(pairs, known, strict=True)]
        last = (oracle.tests, oracle.rows, oracle.findings.count)
        return SoFar(
            self._estimate(StopReason.INTERRUPTED), [*oracle.curve, last], [pair.synthetic() for pair in pairs]
        )

    def _estimate(self, stop: StopReason) -> dict[str, RunEstimate]:
        """Estimate from the independent draws of the search, if it makes any.

        There is none if the verdict depends on the individual and not only on its family, as repeats share one verdict.
        """
        probe, bound = self.probe, self.problem.bound
        if not isinstance(probe.criterion, Pairwise):
            return {}
        share, tests, seed = float(getattr(self.strategy, "share", 0.0)), self.oracle.budget.tests, self.oracle.seed
        plan = first = int(share * (tests or 0))
        kept = {} if self.place is None else (self.place.result or {}).get("estimate", {})
        for one in kept.values():
            # An extended run keeps its first plan; a second one would double the error probability.
            first = one.get("plan", 0)

        def testable(block: Block) -> npt.NDArray[np.bool_] | None:
            return bound.families(block, seed).testable

        draws = self.problem.draws
        if stop is StopReason.EXHAUSTED:
            draws.finish()
        drawn = draws.verdicts(self.oracle.memo, testable, first)
        at_plan = stop is StopReason.TESTS and plan == first
        out = {name: estimate_of_draws(name, one, first, at_plan) for name, one in drawn.items()}
        if "uniform" in out and stop is StopReason.EXHAUSTED and not bound.space.sampled:
            out["uniform"] = self._everyone(table(bound)) or out["uniform"]
        return out

    def _everyone(self, space: Space) -> RunEstimate | None:
        """Count individuals, after all were judged; None where there are too many to count one by one."""
        found, of = space.combinations * self.oracle.findings.count, space.combinations * self.oracle.tests
        if space.constraints or space.links:
            # A test may stand for fewer individuals than another.
            if not space.coding.fits or space.coding.total > COUNTED:
                return None
            found = of = 0
            for start in range(0, space.coding.total, self.chunk):
                ids = np.arange(start, min(start + self.chunk, space.coding.total))
                people = Individuals(space, ids=ids)
                known, unfair = self.oracle.memo.lookup(people[space.valid(people.rows)].keys)
                found, of = found + int(unfair.sum()), of + int(known.sum())
        return RunEstimate("uniform", found, of, exact=True)


def gradient_for(strategy: Strategy, model: Model, criterion: Criterion) -> Any:
    """Return the source of gradients that a search asks for; None for a search without.

    An optional search gets them only if they cost no second call per test: from the model itself, or from known scores
    that decide.
    """
    uses: Any = getattr(strategy, "uses_gradient", False)
    if not uses:
        return None
    if uses != "optional":
        return getattr(strategy, "gradient", "auto")
    able = model.has_scores and model.decides and not model.regression and criterion.needs_decisions
    known = model.classes is not None or model.gradient_source is not None or model.has_words
    return "auto" if able and known else None


def offered(probe: ModelProbe) -> frozenset[str]:
    """Return the queries besides tests that a model can answer."""
    out = set[str]()
    if probe.criterion.needs_decisions and not probe.model.regression:
        out.add("label")
    if probe.contrasts:
        out.add("gradient")
        out |= {"word-gradient"} if probe.model.has_words else set()
    return frozenset(out)


def nothing_to_compare(space: Any, tried: int) -> SpaceError:
    """Return the error for a space whose constraints leave no individual with a counterpart."""
    return SpaceError(
        f"none of {tried:,} individuals has two valid counterparts, so nothing can be compared",
        remedy=f"loosen the constraints on {', '.join(map(repr, space.protected))}",
    )


def _kept(log: Log, place: Directory) -> bool:
    """Whether a run that an error ended can be read from its directory."""
    log.close()
    try:
        log.check()
        place.check()
    except RunError:
        return False
    return place.answers.exists()


def _finished(place: Directory, budget: Budget, confirm: int | None) -> Run | None:
    """Return the stored run, if it ended with this budget and at least as many findings are confirmed."""
    result = place.result
    if result is None or result.get("stop") == StopReason.INTERRUPTED.value or result.get("budget") != budget.to_dict():
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
    known.checked = known.checked.marked_unsteady(error)
    known.pairs.confirmed = None
    return known


def strategy_for(space: Any, strategy: str | Strategy | None) -> Strategy:
    """Return a search that fits the space, by default the space's own."""
    check_space(space)
    chosen = make(space.default_strategy if strategy is None else strategy)
    check_kind(space, chosen)
    return chosen


def check_kind(space: Any, strategy: Strategy) -> None:
    """Raise if a search needs another kind of space."""
    needs, name = needs_of(strategy), describe(strategy)["strategy"]
    if needs == "any":
        needs = "texts" if space.supports("texts") else "attributes"
    if not space.supports(needs):
        kind = "attributes" if space.supports("attributes") else f"{space.noun}s"
        other = ("use ", TEXT_SPACE, ", or ") if needs == "texts" else ("use ",)
        raise StrategyError(
            f"{name} searches {needs}, but the space is one of {kind}",
            remedy=(*other, search(space.default_strategy), f" (a search of your own sets needs = {needs!r})"),
        )


def needs_of(strategy: Any) -> str:
    """Return the feature of a space that a search needs, by default attributes; "any": attributes or texts."""
    return str(getattr(strategy, "needs", "attributes"))


@cache
def _versions() -> dict[str, str]:
    """Return the versions of evenhand, Python and the main packages; reading them takes as long as a small audit."""
    packages = {package: metadata.version(package) for package in ("numpy", "pandas", "scipy", "scikit-learn")}
    return {"evenhand": __version__, "python": platform.python_version(), **packages}


# Progress: a bar in a terminal, a line in a notebook, and nothing elsewhere.

FIRST, PAUSE = 0.5, 0.1
"""Seconds before the first and between two updates: what is over at once shows nothing."""
SMALLEST_SHARE = 1e-6
"""With a smaller share of the work done, the time left is not shown."""


@contextmanager
def show_progress(wanted: bool = True, tests: int | None = None) -> Iterator[Callable[[Status], None] | None]:
    """Show how far a run is; yield what ``audit`` calls, or None if it would not be seen.

    ``tests`` is how many tests the space has, if they can end the run.
    """
    if not wanted or not (_in_notebook() or sys.stderr.isatty()):
        yield None
        return
    shown: Any = None
    last = time.monotonic() + FIRST - PAUSE

    def show(status: Status) -> None:
        nonlocal shown, last
        now = time.monotonic()
        if now - last >= PAUSE:
            last = now
            shown = shown or (NotebookLine() if _in_notebook() else TerminalBar())
            shown.update(done(status, tests), line(status, tests))

    try:
        yield show
    finally:
        if shown is not None:
            shown.close()


class TerminalBar:
    """A bar on the error stream, which disappears at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        text = TextColumn("{task.fields[text]}", markup=False)
        console = Console(stderr=True, highlight=False)
        self.bar = Progress(BarColumn(bar_width=24), text, console=console, transient=True)
        self.task = self.bar.add_task("", total=1.0, text="")
        self.bar.start()

    def update(self, share: float, text: str) -> None:
        """Show how much is done."""
        self.bar.update(self.task, completed=share, text=text)

    def close(self) -> None:
        """Remove the bar."""
        self.bar.stop()


class NotebookLine:
    """A line below a cell, which is replaced as the run goes on."""

    def __init__(self) -> None:
        self.handle = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, share: float, text: str) -> None:
        """Show how much is done."""
        self.handle.update({"text/plain": f"{percent(share)}: {text}"}, raw=True)

    def close(self) -> None:
        """Empty the line."""
        self.handle.update({"text/plain": ""}, raw=True)


def _in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def done(status: Status, tests: int | None = None) -> float:
    """Return the share that is used of the limit closest to being reached.

    >>> from evenhand.budget import Budget
    >>> from evenhand.engine.oracle import Status
    >>> done(Status(tests=50, findings=5, rows=100, seconds=1.0, budget=Budget(tests=100, findings=50)))
    0.5
    """
    limits = vars(status.budget)
    shares = [getattr(status, name) / limit for name, limit in limits.items() if limit is not None]
    if tests is not None:
        shares.append(status.tests / tests)
    return min(1.0, max(shares, default=0.0))


def line(status: Status, tests: int | None = None) -> str:
    """Describe the progress of a run.

    >>> from evenhand.budget import Budget
    >>> from evenhand.engine.oracle import Status
    >>> line(Status(tests=50, findings=5, rows=100, seconds=2.0, budget=Budget(tests=100)))
    '50 tests, 25/s, 5 found (10% of tests), 2 s left'
    """
    seconds = max(status.seconds, 1e-9)
    share = done(status, tests)
    left = f", {_duration(seconds * (1 - share) / share)} left" if share > SMALLEST_SHARE else ""
    rate = status.findings / status.tests if status.tests else 0.0
    return (
        f"{status.tests:,} tests, {status.tests / seconds:,.0f}/s, "
        f"{status.findings:,} found ({percent(rate)} of tests){left}"
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
