"""Estimates how common discrimination is, from independent individuals only."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from evenhand._interrupts import Token, check_cancel, watched
from evenhand._validate import check_choice, check_confidence, check_int, check_number, check_seed
from evenhand.criteria import Criterion, Flip, check_criterion
from evenhand.engine.determinism import TRIED, scores_come_along
from evenhand.engine.judge import SCORED, Exclude, Judge, ModelProbe, compare_gaps, compare_scores
from evenhand.errors import (
    DATA,
    TEXTS,
    BudgetError,
    DataError,
    EstimateError,
    EvenhandError,
    FlakyModel,
    ModelError,
    StrategyError,
    Use,
)
from evenhand.estimates.pair_counts import Favour, look_for
from evenhand.estimates.populations import (
    SMALL,
    Data,
    Near,
    Population,
    Target,
    Uniform,
    named,
    target_of,
    target_of_run,
)
from evenhand.estimates.result import Estimate, make
from evenhand.estimates.survey import NoisyModel, ProgressOnly, Reading, Survey, Watch, flaky
from evenhand.models.wrap import wrap
from evenhand.runs.run import Run
from evenhand.spaces.base import AnySpace, check_space

Method = Literal["clopper-pearson", "anytime", "lln"]
DEFAULT_SAMPLES = 100_000
CHUNK = 16_384
"""Maximum rows of one block; networks are fastest on blocks that fit into the processor's cache."""


@dataclass(frozen=True)
class Interval:
    """How the interval of an estimate is computed, and when its verdict is reached.

    Parameters
    ----------
    method
        ``"clopper-pearson"`` for a fixed number of samples, the default; ``"anytime"`` if the results may stop the
        sample, the default with a stop rule; ``"lln"``, the interval of AEQUITAS.
    experiments
        Number of experiments into which ``"lln"`` divides the samples.
    tolerance
        If no difference was found for a pair but its share may exceed this, the verdict is "insufficient evidence".
    repeats
        How often each row of a non-deterministic model is queried; by default chosen from its noise. With 1, such a
        model raises an error. Other numbers must be even, because the repeats are split into two halves.
    """

    method: Method | None = None
    experiments: int = 400
    tolerance: float = 0.01
    repeats: int | None = None

    def __post_init__(self) -> None:
        if self.method is not None:
            check_choice("interval", self.method, get_args(Method), EstimateError)
        check_int("experiments", self.experiments, BudgetError, 2)
        check_number("tolerance", self.tolerance, EstimateError, 0, below=1)
        if self.repeats is not None:
            check_int("repeats", self.repeats, BudgetError, 1)
            if self.repeats > 1 and self.repeats % 2:
                raise BudgetError(
                    "must be 1 or even, because it is split in two halves", parameter="repeats", value=self.repeats
                )


@dataclass(frozen=True)
class StopRule:
    """What ends an estimate, in addition to the number of samples; the first rule that is met.

    Parameters
    ----------
    half_width
        Stop when both ends of the interval are at most this far from the estimated share.
    seconds
        Stop after this time.
    when
        Called with a ``Reading`` after every block; the estimate ends if it returns True. The interval is then one that
        holds at every moment.
    cancel
        Ends the estimate from another thread, as Ctrl-C does: a ``threading.Event``, or another object with
        ``is_set()``. It is checked between model calls.
    """

    half_width: float | None = None
    seconds: float | None = None
    when: Callable[[Reading], object] | None = None
    cancel: Token | None = None

    def __post_init__(self) -> None:
        if self.half_width is not None:
            check_number("half_width", self.half_width, BudgetError, above=0, below=0.5)
        if self.seconds is not None:
            check_number("seconds", self.seconds, BudgetError, above=0)
        if self.when is not None and not callable(self.when):
            raise EstimateError("must be a function of a Reading", parameter="when", value=self.when)
        check_cancel(self.cancel)

    @property
    def may_stop(self) -> bool:
        """Whether ``when`` may end the estimate depending on its results."""
        return self.when is not None and not isinstance(self.when, ProgressOnly)


@dataclass(frozen=True)
class Plan:
    """The arguments of an estimate: which individuals to judge, when to stop, and the confidence."""

    population: Population = field(default_factory=Uniform)
    samples: int | None = None
    confidence: float = 0.95
    interval: Interval = Interval()
    stop: StopRule = StopRule()

    def __post_init__(self) -> None:
        if self.samples is not None:
            check_int("samples", self.samples, BudgetError, 1)
        check_confidence(self.confidence, EstimateError)
        method, stop = self.interval.method, self.stop
        if method not in (None, "anytime") and (stop.half_width is not None or stop.may_stop):
            raise EstimateError(
                f"must be 'anytime' if {'half_width' if stop.half_width else 'when'} depends on the sample",
                parameter="interval",
                value=method,
                remedy="leave it out, or fix the number of samples instead",
            )
        if isinstance(self.population, Uniform) and self.population.exact:
            ends = {"samples": self.samples, "half_width": stop.half_width, "seconds": stop.seconds, "interval": method}
            for name, end in ends.items():
                if end is not None:
                    raise EstimateError(
                        "has no effect with exact=True, which judges all individuals",
                        parameter=name,
                        value=end,
                        remedy="leave one of the two out",
                    )
        if method == "lln":
            self._check_lln()

    def _check_lln(self) -> None:
        if self.stop.seconds is not None or isinstance(self.population, Data):
            raise EstimateError(
                "'lln' needs a fixed number of independent draws",
                remedy="leave out seconds, and use population 'uniform' or 'near'",
            )
        experiments = self.interval.experiments
        if self.wanted % experiments:
            nearest = max(1, round(self.wanted / experiments)) * experiments
            raise EstimateError(
                f"'lln' makes {experiments:,} experiments of equal size, which {self.wanted:,} samples cannot fill",
                remedy=f"give samples={nearest} or another number of experiments",
            )

    @property
    def wanted(self) -> int:
        """Number of samples if no other rule ends the estimate; for data, the population decides."""
        return DEFAULT_SAMPLES if self.samples is None else self.samples

    @property
    def open(self) -> bool:
        """Whether a rule other than the number of samples ends the estimate."""
        return self.stop.half_width is not None or self.stop.seconds is not None

    @property
    def watched(self) -> bool:
        """Whether the interval must hold at every moment, because the results or the clock end the sample."""
        return self.interval.method == "anytime" or (self.interval.method is None and self.open)


def estimate(
    model: Any,
    space: AnySpace,
    population: Population | Literal["uniform", "data", "near"] | None = None,
    *,
    data: Any = None,
    samples: int | None = None,
    confidence: float = 0.95,
    interval: Interval | Method | None = None,
    favourable: Any = None,
    criterion: Criterion | None = None,
    seed: int = 0,
    executor: Executor | int | None = None,
    stop: StopRule | Callable[[Reading], object] | None = None,
) -> Estimate:
    """Estimate the share of individuals that a model treats differently, and who is favoured.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes. ``wrap(model, batch_size=, timeout=)`` controls how it is called.
    space
        The valid inputs, and which attributes are protected; for texts a ``TextSpace``.
    population
        Whose share to estimate: ``"data"`` (default if ``data`` is given, and for texts), the rows of ``data``, or its
        texts with a protected term; ``"uniform"`` (default otherwise), valid individuals, all equally likely;
        ``"near"``, rows moved a few steps. With settings, one of ``eh.populations``: ``Uniform(exact=)``,
        ``Data(frame, weights=, about=)``, ``Near(frame, steps=, weights=)``.
    data
        Real rows, for the populations ``"data"`` and ``"near"``; the texts of a ``TextSpace``.
    samples
        Number of individuals to judge; by default 100,000, or every row of the data.
    confidence
        Confidence level of the intervals.
    interval
        ``"clopper-pearson"`` for a fixed number of samples, the default; ``"anytime"`` if the results may stop the
        sample, the default with a stop rule; ``"lln"``, the interval of AEQUITAS. With settings an ``eh.Interval``.
    favourable
        The favourable decision; a list of such decisions; or ``eh.Order`` of all decisions, worst first. For numbers,
        ``"higher"`` or ``"lower"``. Without it, the estimate does not say who is favoured: it reports how often
        decisions differ and, for numbers, who gets more.
    criterion
        What counts as different; by default a changed decision.
    seed
        Same seed, same sample.
    executor
        Where the model is called: a number of processes on this machine, a ``concurrent.futures.Executor``, or a
        ``dask.distributed.Client``; by default in this process. The estimate is the same.
    stop
        What ends the estimate earlier: ``eh.StopRule(half_width=0.01, seconds=60)``, or a function that is called with
        a ``Reading`` after every block and ends the estimate by returning True.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected=["sex"])
    >>> def refuse(frame):
    ...     return (frame["age"] < 4) & (frame["sex"] == "F")
    >>> eh.estimate(refuse, space)
    Estimate: exactly 33.3% of all 18 valid individuals are treated differently; all were tested
    >>> result = eh.estimate(refuse, space, eh.populations.Uniform(exact=False), samples=1000)
    >>> result.low < 1 / 3 < result.high
    True
    """
    check_space(space)
    if stop is not None and not isinstance(stop, StopRule) and not callable(stop):
        raise EstimateError("must be an eh.StopRule or a function of a Reading", parameter="stop", value=stop)
    plan = Plan(
        _population(population, data, space),
        samples,
        confidence,
        interval if isinstance(interval, Interval) else Interval(interval),
        stop if isinstance(stop, StopRule) else StopRule(when=stop),
    )
    seed = check_seed(seed, StrategyError)
    check_criterion(criterion)
    _check_fit(plan.population, space, favourable)
    criterion = criterion or Flip()
    if criterion.needs_scores and (plan.interval.repeats or 1) > 1:
        raise EstimateError(
            f"takes the most frequent decision, but {criterion!r} compares scores",
            parameter="repeats",
            value=plan.interval.repeats,
            remedy="omit repeats, and average the scores in the model itself",
        )
    wrapped = wrap(model).on(executor)
    target = target_of(plan, space, criterion, seed, CHUNK)
    probe = ModelProbe(wrapped, target.bound, criterion)
    return measured(plan, target, probe, Favour(probe.model, favourable), seed, CHUNK)[0]


def estimate_again(
    run: Run, population: str, model: Any, data: Any, favourable: Any, confidence: float, most: int
) -> Estimate:
    """Ask a model about the independent draws of its run again, which shows who is favoured; the rate is the run's.

    Of more than ``most`` draws, only the first are asked.
    """
    known = run.estimate[population]
    target, samples = target_of_run(run, known, data), min(known.samples, most)
    if known.exact and known.samples <= min(most, SMALL):
        everyone = Plan(Uniform(exact=True), confidence=confidence)
        own = target_of(everyone, run.space, run.identity.criterion, run.identity.seed, CHUNK)
        target, samples = replace(own, known=known), known.samples
    # The moment that was planned is fixed in advance, and so is the end of the rows; other moments are not.
    at_plan = known.exact or known.planned == known.samples
    plan = Plan(
        Data() if population == "data" else Uniform(exact=False),
        samples,
        confidence,
        Interval(None if at_plan else "anytime"),
    )
    probe = ModelProbe(wrap(model), target.bound, run.identity.criterion)
    found = measured(plan, target, probe, Favour(probe.model, favourable), run.identity.seed, CHUNK)[0]
    if (found.found, found.samples) != (known.found, known.samples) and samples == known.samples:
        raise ModelError(
            f"{probe.model.name} treats {found.found:,} of the {found.samples:,} individuals differently that the run "
            f"drew; it found {known.found:,} of {known.samples:,}",
            remedy="give the run's own model and data",
        )
    return replace(found, found=known.found, samples=known.samples)


def _population(given: Any, data: Any, space: AnySpace) -> Population:
    """Make the population, with the data of the call if it has none."""
    if given is None:
        given = "uniform" if data is None and space.supports("attributes") else "data"
    if not isinstance(given, Population):
        return named(given, data)
    if isinstance(given, Uniform) or data is None:
        return given
    if given.frame is not None:
        raise DataError(f"is given twice: leave it out, or the frame of {type(given).__name__}", parameter="data")
    return replace(given, frame=data)


def _check_fit(population: Population, space: AnySpace, favourable: Any) -> None:
    """Raise if a population needs rows and has none, or if an argument does not fit the space."""
    weights = None if isinstance(population, Uniform) else population.weights
    given = {"population": None if isinstance(population, Data) else population.name}
    for name, value in {**given, "weights": weights, "favourable": favourable}.items():
        if value is not None and not space.supports("attributes"):
            instead = ("give ", Use('population="data"', "estimate.population", "data"), " and ", TEXTS)
            raise EstimateError(
                f"is for attributes, but this is a space of {space.noun}s",
                parameter=name,
                value=value,
                remedy=instead if name == "population" else "leave it out",
            )
    own = getattr(space, "own_data", None)
    if isinstance(population, Data | Near) and population.frame is None and own is None:
        what, remedy = ("texts", TEXTS) if space.supports("texts") else ("rows with the columns of the space", DATA)
        raise DataError(
            f"must have {what} for population={population.name!r}", parameter="data", remedy=("give ", remedy)
        )


@watched()
def measured(
    plan: Plan,
    target: Target,
    probe: ModelProbe,
    favour: Favour,
    seed: int,
    chunk: int = CHUNK,
    exclude: Exclude | None = None,
    keep_all: bool = False,
) -> tuple[Estimate, Survey]:
    """Survey a population, again with repeats if the model is noisy, and make an estimate.

    Individuals selected by ``exclude`` are skipped; ``keep_all`` keeps all verdicts.
    """
    probe.scored = scores_come_along(probe, target.population.take(0, min(TRIED, chunk))[0].rows)
    watch = Watch(plan, target, chunk)
    half, noise, spent = (plan.interval.repeats or 0) // 2, 0.0, probe.client.calls.rows
    keep_all |= plan.interval.method == "lln" or target.weights is not None or exclude is not None
    while True:
        judge = Judge(probe, seed, chunk=chunk, half=half, exclude=exclude)
        survey = Survey(judge, target.population, favour, keep_all, target.weights, spent)
        survey.noise = noise
        try:
            with probe.model.same_model():
                stop = watch.run(survey)
            break
        except NoisyModel as noisy:
            if plan.interval.repeats == 1:
                raise flaky(noisy.noise, probe.model.name) from None
            half, noise, spent = noisy.half, noisy.noise, judge.rows + survey.checked
        except EvenhandError as error:
            # If answers depend on chance or on the batch, no verdict so far is reliable.
            if survey.samples and not isinstance(error, FlakyModel):
                error.add_note(f"{survey.samples:,} {target.bound.space.noun}s had been judged")
                error.partial = make(plan, target, survey, "interrupted", watch, seed)
            raise
    if probe.criterion.needs_decisions:
        survey.apart += look_for(favour, probe)
    favour.check()
    scored = None if survey.found else _compare_scores(survey, target)
    found = make(plan, target, survey, stop, watch, seed)
    found.scored = scored
    return found, survey


def _compare_scores(survey: Survey, target: Target) -> tuple[int, int] | None:
    """If nothing was found, check whether scores of counterparts differ: available ones, or some queried for this."""
    judge = survey.judge
    if judge.probe.scored or judge.probe.model.decides:
        # Scores that cost nothing besides decisions would be available by now, so there are none.
        return compare_gaps(judge.probe, survey.kept.gaps)
    families = judge.probe.bound.families(target.population.take(0, SCORED)[0], judge.seed)
    scored, rows = compare_scores(judge.probe, families)
    survey.apart += rows
    return scored
