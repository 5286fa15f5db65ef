"""Measures how common discrimination is, from independent individuals only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from evenhand._interrupts import Token, watched
from evenhand._validate import check_choice, check_confidence, check_int, check_number
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import Exclude, Judge
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import TRIED, scores_come_along
from evenhand.engine.unused import SCORED, compare_gaps, compare_scores
from evenhand.errors import DATA, TEXTS, BudgetError, DataError, EstimateError, EvenhandError, FlakyModel, Use
from evenhand.estimates.pair_counts import Favour, look_for
from evenhand.estimates.populations import Data, Near, Population, Target, Uniform, named, target_of
from evenhand.estimates.result import Estimate, make
from evenhand.estimates.survey import NoisyModel, ProgressOnly, Reading, Survey, Watch, flaky
from evenhand.models.wrap import wrap
from evenhand.runs.audit import check_arguments, check_cancel
from evenhand.spaces.base import AnySpace, require

Method = Literal["clopper-pearson", "anytime", "lln"]
DEFAULT_SAMPLES = 100_000
CHUNK = 16_384
"""The most rows of one block; networks answer blocks that stay in the processor's cache fastest."""


@dataclass(frozen=True)
class Interval:
    """How the interval of an estimate is made, and how it is read.

    Parameters
    ----------
    method
        ``"clopper-pearson"`` for a fixed number of samples, the default; ``"anytime"`` where the sample may be stopped
        by what it shows, the default with a stop rule; ``"lln"`` as AEQUITAS does it.
    experiments
        How many experiments ``"lln"`` makes of the samples.
    tolerance
        Where none of a pair was found and more than this share may yet be, the verdict is insufficient evidence.
    """

    method: Method | None = None
    experiments: int = 400
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if self.method is not None:
            check_choice("interval", self.method, get_args(Method), EstimateError)
        check_int("experiments", self.experiments, BudgetError, 2)
        check_number("tolerance", self.tolerance, EstimateError, 0, below=1)


@dataclass(frozen=True)
class StopRule:
    """What ends an estimate beside the number of samples; the first rule that is met.

    Parameters
    ----------
    half_width
        Stop when the interval reaches no further than this to either side of the share found.
    seconds
        Stop after this time.
    when
        Called with a ``Reading`` after every block; the estimate ends if it returns True. So the interval is one that
        holds at every moment.
    cancel
        Ends the estimate as Ctrl-C does, from another thread: a ``threading.Event``, or another object with
        ``is_set()``, which is looked at between model calls.
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
        """Whether ``when`` may end it by what the sample shows."""
        return self.when is not None and not isinstance(self.when, ProgressOnly)


@dataclass(frozen=True)
class Plan:
    """The arguments of an estimate that say which individuals to ask, when to stop and how sure to be."""

    population: Population = field(default_factory=Uniform)
    samples: int | None = None
    confidence: float = 0.95
    interval: Interval = Interval()
    repeats: int | None = None
    stop: StopRule = StopRule()

    def __post_init__(self) -> None:
        for name, value in (("samples", self.samples), ("repeats", self.repeats)):
            if value is not None:
                check_int(name, value, BudgetError, 1)
        if self.repeats is not None and self.repeats > 1 and self.repeats % 2:
            raise BudgetError("must be 1 or even, to be split in two halves", parameter="repeats", value=self.repeats)
        check_confidence(self.confidence, EstimateError)
        method, stop = self.interval.method, self.stop
        if method not in (None, "anytime") and (stop.half_width is not None or stop.may_stop):
            raise EstimateError(
                f"must be 'anytime' where {'half_width' if stop.half_width else 'when'} stops by what the sample shows",
                parameter="interval",
                value=method,
                remedy="leave it out, or fix the number of samples instead",
            )
        if isinstance(self.population, Uniform) and self.population.exact:
            ends = {"samples": self.samples, "half_width": stop.half_width, "seconds": stop.seconds, "interval": method}
            for name, end in ends.items():
                if end is not None:
                    raise EstimateError(
                        "ends nothing where exact=True asks everyone",
                        parameter=name,
                        value=end,
                        remedy="leave one of the two out",
                    )
        if method == "lln":
            self._check_lln()

    def _check_lln(self) -> None:
        if self.stop.seconds is not None or isinstance(self.population, Data):
            raise EstimateError(
                "'lln' is for a fixed number of independent draws; leave out seconds, and take population 'uniform' "
                "or 'near'"
            )
        experiments = self.interval.experiments
        if self.wanted % experiments:
            nearest = max(1, round(self.wanted / experiments)) * experiments
            raise EstimateError(
                f"'lln' makes {experiments:,} experiments of one size, and {self.wanted:,} samples cannot be "
                f"shared out; give samples={nearest} or another number of experiments"
            )

    @property
    def wanted(self) -> int:
        """How many samples are taken where nothing else ends it; all rows, for data, is up to the population."""
        return DEFAULT_SAMPLES if self.samples is None else self.samples

    @property
    def open(self) -> bool:
        """Whether something else than a number of samples ends it."""
        return self.stop.half_width is not None or self.stop.seconds is not None

    @property
    def watched(self) -> bool:
        """Whether the interval must hold at every moment: the sample ends by what it shows, or by the clock."""
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
    repeats: int | None = None,
    stop: StopRule | Callable[[Reading], object] | None = None,
) -> Estimate:
    """Estimate the share of individuals that a model treats differently, and who is favoured.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes. ``wrap(model, batch_size=, timeout=)`` says how it is called.
    space
        The valid inputs, and which attributes are protected; for texts a ``TextSpace``.
    population
        The individuals that the share is of: ``"uniform"``, valid individuals, each as likely as any other, the
        default; ``"data"``, the rows of ``data``, or its texts that have a protected term, the default for texts;
        ``"near"``, rows moved a few steps. With settings one of ``eh.populations``: ``Uniform(exact=)``,
        ``Data(frame, weights=, about=)``, ``Near(frame, steps=, weights=)``.
    data
        Real rows, for the populations ``"data"`` and ``"near"``; the texts of a ``TextSpace``.
    samples
        How many individuals to ask; by default 100,000, and every row of the data.
    confidence
        How sure to be.
    interval
        ``"clopper-pearson"`` for a fixed number of samples, the default; ``"anytime"`` where the sample may be stopped
        by what it shows, the default with a stop rule; ``"lln"`` as AEQUITAS does it. With settings an ``eh.Interval``.
    favourable
        The decision that people want; a list of such decisions; or ``eh.Order`` of all decisions, worst first. Of
        numbers ``"higher"`` or ``"lower"``. Without it no group is said to be favoured: of decisions only differences
        are reported, of numbers also who gets more.
    criterion
        What counts as different; by default a changed decision.
    seed
        Same seed, same sample.
    repeats
        How often each row is asked of a model that answers the same row differently; by default as often as its noise
        takes. 1: such a model is an error; else an even number, because the repeats are split in two halves.
    stop
        What ends it before: ``eh.StopRule(half_width=0.01, seconds=60)``; or a function that is called with a
        ``Reading`` after every block and ends the estimate by returning True.

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
    if not isinstance(space, AnySpace):
        require(space, "attributes")
    if stop is not None and not isinstance(stop, StopRule) and not callable(stop):
        raise EstimateError("must be an eh.StopRule or a function of a Reading", parameter="stop", value=stop)
    plan = Plan(
        _population(population, data, space),
        samples,
        confidence,
        interval if isinstance(interval, Interval) else Interval(interval),
        repeats,
        stop if isinstance(stop, StopRule) else StopRule(when=stop),
    )
    seed, chunk = check_arguments(seed, CHUNK, None, criterion, None, None)
    _check_fit(plan.population, space, favourable)
    criterion = criterion or Flip()
    if criterion.needs_scores and (repeats or 1) > 1:
        raise EstimateError(
            f"repeats={repeats} takes the most frequent decision, and {criterion!r} looks at scores, which have none; "
            "leave repeats out, and average the scores of a noisy model before evenhand sees them"
        )
    wrapped = wrap(model)
    target = target_of(plan, space, criterion, seed, chunk)
    probe = ModelProbe(wrapped, target.ground, criterion)
    return measured(plan, target, probe, Favour(probe.model, favourable), seed, chunk)[0]


def _population(given: Any, data: Any, space: AnySpace) -> Population:
    """Make the population, with the data of the call where it has none."""
    if given is None:
        given = "uniform" if space.supports("attributes") else "data"
    if not isinstance(given, Population):
        return named(given, data)
    if isinstance(given, Uniform) or data is None:
        return given
    if given.frame is not None:
        raise DataError(f"is given twice: leave it out, or the frame of {type(given).__name__}", parameter="data")
    return replace(given, frame=data)


def _check_fit(population: Population, space: AnySpace, favourable: Any) -> None:
    """Raise where a population needs rows and has none, or is given what its space does not have."""
    weights = None if isinstance(population, Uniform) else population.weights
    given = {"population": None if isinstance(population, Data) else population.name}
    for name, value in {**given, "weights": weights, "favourable": favourable}.items():
        if value is not None and not space.supports("attributes"):
            instead = ("give ", Use('population="data"', "estimate.population", "data"), " and ", TEXTS)
            raise EstimateError(
                f"is for attributes, and this is a space of {space.noun}s",
                parameter=name,
                value=value,
                remedy=instead if name == "population" else "leave it out",
            )
    if isinstance(population, Data | Near) and population.frame is None:
        what, remedy = ("texts", TEXTS) if space.supports("texts") else ("rows with the columns of the space", DATA)
        raise DataError(f"needs {what} for population={population.name!r}", parameter="data", remedy=("give ", remedy))


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
    """Survey a population, once more with repeats where the model is noisy, and make an estimate of it.

    Individuals named by ``exclude`` are not asked; ``keep_all`` keeps all verdicts.
    """
    probe.scored = scores_come_along(probe, target.population.take(0, min(TRIED, chunk))[0].rows)
    watch = Watch(plan, target.aim, chunk)
    half, noise, spent = (plan.repeats or 0) // 2, 0.0, probe.client.calls.rows
    keep_all |= plan.interval.method == "lln" or target.aim.weights is not None or exclude is not None
    while True:
        judge = Judge(probe, seed, chunk=chunk, half=half, exclude=exclude)
        survey = Survey(judge, target.population, favour, keep_all, target.aim.weights, spent)
        survey.noise = noise
        try:
            stop = watch.run(survey)
            break
        except NoisyModel as noisy:
            if plan.repeats == 1:
                raise flaky(noisy.noise, probe.model.name) from None
            half, noise, spent = noisy.half, noisy.noise, judge.rows + survey.checked
        except EvenhandError as error:
            # Of a model whose answers depend on chance or on the batch, no verdict so far is worth keeping.
            if survey.samples and not isinstance(error, FlakyModel):
                error.add_note(f"{survey.samples:,} {target.ground.space.noun}s had been judged")
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
    """Where none was found, check whether scores tell counterparts apart: those available, or some asked for it."""
    judge = survey.judge
    if judge.probe.scored or judge.probe.model.decides:
        # Where scores would come along with decisions and do not, there are none.
        return compare_gaps(judge.probe, survey.kept.gaps)
    families = judge.probe.ground.families(target.population.take(0, SCORED)[0], judge.seed)
    scored, rows = compare_scores(judge.probe, families)
    survey.apart += rows
    return scored
