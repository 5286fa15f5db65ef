"""Measures how common discrimination is, from independent individuals only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from evenhand._format import percent
from evenhand._interrupts import Token, watched
from evenhand._validate import is_int
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import Exclude, Judge
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import RANDOM, TRIED, scores_come_along
from evenhand.engine.unused import SCORED, compare_scores, scores_at_hand
from evenhand.errors import EstimateError, EvenhandError, FlakyModel, Use
from evenhand.estimates.favour import Favour, look_for
from evenhand.estimates.plan import About, Method, Plan, Whom, check_data
from evenhand.estimates.result import Estimate, make
from evenhand.estimates.subject import SurveyTarget, subject_of
from evenhand.estimates.survey import NoisyModel, Survey
from evenhand.estimates.texts import measured_texts, refuse
from evenhand.estimates.watching import Reading, Watch
from evenhand.models.wrap import wrap
from evenhand.runs.run import check_arguments, check_cancel
from evenhand.spaces.base import AnySpace, require, table
from evenhand.spaces.text.space import TextSpace

CHUNK = 16_384
"""The most rows of one model call; networks answer blocks that stay in the processor's cache fastest."""


def estimate(
    model: Any,
    space: AnySpace,
    population: Whom = "uniform",
    *,
    data: Any = None,
    weights: Any = None,
    samples: int | None = None,
    half_width: float | None = None,
    seconds: float | None = None,
    confidence: float = 0.95,
    interval: Method | None = None,
    exact: bool | None = None,
    about: About | None = None,
    favourable: Any = None,
    criterion: Criterion | None = None,
    seed: int = 0,
    steps: int = 3,
    experiments: int = 400,
    tolerance: float = 0.01,
    repeats: int | None = None,
    chunk: int = CHUNK,
    timeout: float | None = None,
    progress: Callable[[Reading], object] | None = None,
    cancel: Token | None = None,
) -> Estimate:
    """Estimate the share of individuals whom a model treats differently, and who is favoured.

    Parameters
    ----------
    model
        Anything that ``wrap`` takes.
    space
        The legal inputs, and which attributes are protected; for texts a ``TextSpace``.
    population
        Whom the share is of: ``"uniform"``, legal individuals, each as likely as any other; ``"data"``, the rows of
        ``data``; ``"near"``, those rows moved a few steps. Of texts ``"data"`` alone: those with a protected term, as
        they are.
    data
        Real rows, for the populations ``"data"`` and ``"near"``; the texts of a ``TextSpace``.
    weights
        What each row of the data counts: numbers, or the name of a column.
    samples
        How many individuals to ask; by default 100,000, and every row of the data.
    half_width
        Stop when the interval reaches no further than this to either side of the share found.
    seconds
        Stop after this time.
    confidence
        How sure to be.
    interval
        ``"clopper-pearson"`` for a fixed number of samples, the default; ``"anytime"`` where the sample may be stopped
        by what it shows, the default with ``half_width`` and ``seconds``; ``"lln"`` as AEQUITAS does it.
    exact
        Whether to ask everyone in the space; by default where it has at most a million tests, two million rows
        and no more tests than ``samples``.
    about
        Of data: the interval is for the ``"population"`` that the rows are a random sample of (the default), or for the
        ``"rows"`` themselves.
    favourable
        The decision that people want; a list of such decisions; or ``eh.Order`` of all decisions, worst first. Of
        numbers ``"higher"`` or ``"lower"``. Without it nobody is said to be favoured: of decisions only differences are
        reported, of numbers also who gets more.
    criterion
        What counts as different; by default a changed decision.
    seed
        Same seed, same sample.
    steps
        How many steps the population ``"near"`` moves.
    experiments
        How many experiments ``"lln"`` makes of the samples.
    tolerance
        Where nobody of a pair was found and more than this share may yet be, the verdict is insufficient evidence.
    repeats
        How often each row is asked of a model that answers the same row differently; by default as often as its noise
        takes. 1: such a model is an error; else an even number, because the repeats are split in two halves.
    chunk
        The most rows of one model call.
    timeout
        Seconds after which one model call is given up.
    progress
        Called with a ``Reading`` after every block; the estimate ends if it returns True. So the interval is one that
        holds at every moment.
    cancel
        Ends the estimate as Ctrl-C does, from another thread: a ``threading.Event``, or another object with
        ``is_set()``, which is looked at between model calls.

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected=["sex"])
    >>> def refuse(frame):
    ...     return (frame["age"] < 4) & (frame["sex"] == "F")
    >>> eh.estimate(refuse, space)
    Estimate: exactly 33.3% of all 18 legal individuals are treated differently; every one was judged
    >>> result = eh.estimate(refuse, space, exact=False, samples=1000)
    >>> result.low < 1 / 3 < result.high
    True
    """
    texts = getattr(space, "noun", "") == "text"
    if texts:
        refuse(
            population,
            weights=weights,
            half_width=half_width,
            seconds=seconds,
            interval=interval,
            exact=exact,
            favourable=favourable,
            steps=None if is_int(steps) and steps == Plan.steps else steps,
            experiments=None if is_int(experiments) and experiments == Plan.experiments else experiments,
            repeats=repeats,
            progress=progress,
        )
    plan = Plan(population, about, interval, confidence, samples, half_width, seconds, exact, experiments, steps,
                tolerance, repeats)  # fmt: skip
    seed, chunk = check_arguments(seed, chunk, None, criterion, timeout, None)
    check_cancel(cancel)
    if texts:
        return measured_texts(
            plan, wrap(model), cast(TextSpace, space), data, criterion or Flip(), seed, chunk, timeout, cancel=cancel
        )[0]
    require(space, "attributes", "eh.estimate", "eh.audit takes it")
    attributes = table(space)
    if progress is not None and not callable(progress):
        raise EstimateError(f"progress must be a function of a Reading, got {progress!r}")
    watch = Watch(plan, chunk, progress, cancel)
    check_data(plan, data, weights)
    criterion = criterion or Flip()
    if criterion.needs_scores and (repeats or 1) > 1:
        raise EstimateError(
            f"repeats={repeats} takes the most frequent decision, and {criterion!r} looks at scores, which have none; "
            "leave repeats out, and average the scores of a model that wavers before evenhand sees them"
        )
    asker = ModelProbe(wrap(model), attributes, criterion, timeout)
    favour = Favour(asker.model, favourable)
    subject = subject_of(plan, attributes, criterion, data, weights, seed, chunk)
    return measured(plan, subject, asker, favour, seed, watch)[0]


@watched()
def measured(
    plan: Plan,
    subject: SurveyTarget,
    asker: ModelProbe,
    favour: Favour,
    seed: int,
    watch: Watch,
    exclude: Exclude | None = None,
) -> tuple[Estimate, Survey]:
    """Survey a population and make an estimate of it; those whom ``exclude`` names are not asked."""
    tried = subject.population.take(0, min(TRIED, watch.chunk))[0].rows
    asker.scored = scores_come_along(asker, tried)
    spent = asker.asking.calls.rows
    watch.begin(subject.aim)
    try:
        survey, stop = _surveyed(plan, subject, asker, favour, seed, watch, exclude, spent)
    except SurveyFailed as end:
        end.error.add_note(f"{end.survey.samples:,} individuals had been judged")
        end.error.partial = make(plan, subject, end.survey, "interrupted", watch, seed)
        raise end.error from None
    if asker.criterion.needs_decisions:
        survey.apart += look_for(favour, asker)
    favour.check()
    scored = None if survey.found else _compare_scores(survey, subject)
    found = make(plan, subject, survey, stop, watch, seed)
    found.scored = scored
    return found, survey


def _compare_scores(survey: Survey, subject: SurveyTarget) -> tuple[int, int] | None:
    """Where nobody was found, tell whether scores tell counterparts apart: those at hand, or some asked for it."""
    judge = survey.judge
    if judge.asker.scored or judge.asker.model.decides:
        # Where scores would come along with decisions and do not, there are none.
        return scores_at_hand(judge.asker, survey.kept.gaps)
    families = judge.asker.space.families(subject.population.take(0, SCORED)[0], judge.seed)
    scored, rows = compare_scores(judge.asker, families)
    survey.apart += rows
    return scored


class SurveyFailed(Exception):
    """An error ended a survey that had already judged some."""

    def __init__(self, error: EvenhandError, survey: Survey) -> None:
        super().__init__(error)
        self.error, self.survey = error, survey


def _surveyed(
    plan: Plan,
    subject: SurveyTarget,
    asker: ModelProbe,
    favour: Favour,
    seed: int,
    watch: Watch,
    exclude: Exclude | None,
    spent: int,
) -> tuple[Survey, str]:
    """Survey the population; once more, with repeats, where the model turns out to be noisy."""
    half, noise = (plan.repeats or 0) // 2, 0.0
    keeps_all = plan.interval == "lln" or subject.aim.weights is not None or exclude is not None
    while True:
        judge = Judge(asker, seed, chunk=watch.chunk, half=half, exclude=exclude)
        survey = Survey(judge, subject.population, favour, keeps_all, subject.aim.weights, spent)
        survey.noise = noise
        try:
            return survey, watch.run(survey)
        except NoisyModel as wavering:
            if plan.repeats == 1:
                raise _flaky(wavering.noise) from None
            half, noise, spent = wavering.half, wavering.noise, judge.rows + survey.checked
        except EvenhandError as error:
            # Of a model whose answers depend on chance or company, no verdict so far is worth keeping.
            if survey.samples and not isinstance(error, FlakyModel):
                raise SurveyFailed(error, survey) from None
            raise


def _flaky(noise: float) -> FlakyModel:
    return FlakyModel(
        f"the model gave two answers to {percent(noise)} of the rows that were asked twice",
        noise,
        (f"{RANDOM}; or leave out ", Use("repeats=1", "estimate.repeats", 1), ", and its noise is measured"),
    )
