"""The command ``evenhand estimate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli import options
from evenhand.cli.faults import FOUND, INTERRUPTED, UNDECIDED, tell

if TYPE_CHECKING:
    from evenhand.cli.config import Config
    from evenhand.cli.plan import Plan
    from evenhand.measuring import Estimate, Groups

TAKEN = {"samples", "confidence", "about", "tolerance", "plots", "fail_above"}
"""What an estimate of texts takes, beside the population."""


def estimate(
    config: options.ConfigFile = None,
    model: options.Model = None,
    data: options.Data = None,
    target: options.Target = None,
    protected: options.ProtectedTerms = None,
    exclude: options.Exclude = None,
    missing: options.Missing = None,
    space: options.Space = None,
    texts: options.TextFile = None,
    column: options.Column = None,
    encoding: options.Encoding = None,
    occurrences: options.Occurrences = None,
    ambiguous: options.Ambiguous = None,
    population: options.Population = None,
    samples: options.Samples = None,
    half_width: options.HalfWidth = None,
    seconds: options.StopSeconds = None,
    confidence: options.Confidence = None,
    interval: options.Interval = None,
    experiments: options.Experiments = None,
    exact: options.Exact = None,
    about: options.About = None,
    steps: options.Steps = None,
    weights: options.Weights = None,
    favourable: options.Favourable = None,
    order: options.Order = None,
    tolerance: options.Tolerance = None,
    repeats: options.Repeats = None,
    seed: options.Seed = None,
    gamma: options.Gamma = None,
    threshold: options.Threshold = None,
    timeout: options.Timeout = None,
    chunk: options.Chunk = None,
    trust_pickle: options.TrustPickle = False,
    trust: options.Trust = None,
    groups: options.GroupFigures = False,
    plots: options.Plots = None,
    fail_above: options.FailAboveRate = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how common it is that a model treats people, or texts about people, differently, and who is favoured.

    With a configuration file, with options alone, or with both: options override the file.

    Exit status: 0 done, 1 a larger share than --fail-above allows, 2 wrong usage or input, 3 too few tests to say
    whether it is larger, 130 interrupted.
    """
    given = locals()
    _limit(fail_above)
    from evenhand.cli.config import read
    from evenhand.cli.places import said
    from evenhand.cli.plan import Trust, make_plan

    chosen = read(config, said("estimate", given))
    if chosen.text is not None and chosen.estimate.population is None:
        # Of texts there is no other.
        chosen.estimate.population = "data"
    if chosen.estimate.weights is not None and chosen.space.path is None:
        # What a row counts is no attribute of the person.
        chosen.space.exclude.append(chosen.estimate.weights)
    with chosen.blamed("estimate"):
        limit = _limit(chosen.estimate.fail_above)
        _check(chosen)
    plan = make_plan(chosen, Trust(trust_pickle, trust or ()), quiet=quiet)
    if chosen.estimate.groups:
        _check_groups(plan, chosen)
    with (
        chosen.named("estimate.favourable", "favourable"),
        chosen.named("estimate.order", "favourable"),
        chosen.named("estimate.weights", "weights"),
    ):
        found = _measure(plan, chosen, shown=not (quiet or as_json))
        figures = _groups(plan, chosen) if chosen.estimate.groups else None
    _report(found, figures, chosen.estimate.plots, limit, as_json, quiet)


def _check(chosen: Config) -> None:
    """Find out before anything is read what cannot be measured, or written."""
    from evenhand.errors import ConfigError
    from evenhand.measuring.plan import Plan as Measures

    wanted = chosen.estimate
    if wanted.plots is not None and Path(wanted.plots).is_file():
        raise ConfigError(f"plots: {wanted.plots} is a file; name a folder")
    if chosen.text is not None:
        from evenhand.measuring.texts import refuse

        refuse(**wanted.model_dump(exclude=TAKEN) | {"groups": wanted.groups or None})
    Measures(**wanted.model_dump(exclude_none=True, include=set(Measures.__dataclass_fields__)))


def _measure(plan: Plan, chosen: Config, shown: bool) -> Estimate:
    from evenhand.budget import Budget
    from evenhand.cli.progress import progress
    from evenhand.ledger import Status
    from evenhand.measuring import Reading
    from evenhand.measuring import estimate as measure
    from evenhand.measuring.watching import Onlooker

    others = {"groups", "plots", "fail_above", "favourable", "order"}
    settings: dict[str, Any] = chosen.estimate.model_dump(exclude_none=True, exclude=others)
    if chosen.estimate.wish is not None:
        settings["favourable"] = chosen.estimate.wish
    if chosen.audit.chunk is not None:
        settings["chunk"] = chosen.audit.chunk
    population = settings.get("population", "uniform")
    texts = plan.space.noun == "text"
    with progress(shown and not texts) as show:

        def watch(reading: Reading) -> None:
            assert show is not None
            budget = Budget(tests=settings.get("samples"), seconds=settings.get("seconds"))
            show(Status(reading.samples, reading.found, reading.rows, reading.seconds, budget))

        return measure(
            plan.model,
            plan.space,
            **settings,
            data=None if population == "uniform" else plan.data,
            criterion=plan.criterion,
            seed=plan.seed,
            timeout=plan.timeout,
            progress=None if show is None else Onlooker(watch),
        )


def _check_groups(plan: Plan, chosen: Config) -> None:
    from evenhand.errors import ConfigError

    wished = chosen.estimate.wish is not None or plan.model.regression
    if plan.data is None or not wished:
        raise ConfigError("--groups needs rows and the decision that people want: --data FILE --favourable DECISION")


def _groups(plan: Plan, chosen: Config) -> Groups:
    from evenhand.measuring import groups
    from evenhand.space.ground import table

    wanted = chosen.estimate
    target = chosen.data.target
    return groups(
        plan.model,
        table(plan.space),
        plan.data,
        wanted.wish,
        y=None if plan.model.regression else target,
        weights=wanted.weights,
        confidence=0.95 if wanted.confidence is None else wanted.confidence,
        chunk=plan.chunk,
        timeout=plan.timeout,
    )


def _report(
    found: Estimate, figures: Groups | None, plots: str | None, limit: float | None, as_json: bool, quiet: bool
) -> None:
    """Say what was measured, write what was asked for, and end with the status that fits."""
    from evenhand._format import estimated, percent
    from evenhand.cli import measured, summary
    from evenhand.measuring.limits import Limit, Outcome
    from evenhand.measuring.words import noun

    outcome = None if limit is None else Limit(share=limit).of_estimate(found)
    if as_json:
        extra = {
            "fail_above": limit,
            "exceeded": outcome is Outcome.FAIL,
            "outcome": None if outcome is None else outcome.value,
        }
        summary.emit(found.to_dict() | {"groups": None if figures is None else figures.to_dict()} | extra)
    elif not quiet:
        measured.show(found, figures)
    if plots is not None:
        measured.draw(found, figures, Path(plots))
    if found.stop == "interrupted":
        tell(f"evenhand: interrupted after {found.samples:,} {noun(found.space)}; the interval holds all the same")
        raise typer.Exit(INTERRUPTED)
    if limit is None or outcome is Outcome.PASS:
        if limit is not None and quiet and found.note:
            # What passes because the model does not use an attribute never passes silently.
            tell(f"evenhand: warning: {found.note}")
        return
    failed = outcome is Outcome.FAIL
    if not quiet:
        said = "more than" if failed else "too few tests to say whether that is above"
        share = estimated(found.rate, found.low, found.high)
        tell(f"evenhand: {share}, {said} the {percent(limit)} that --fail-above allows")
    raise typer.Exit(FOUND if failed else UNDECIDED)


def _limit(text: str | None) -> float | None:
    from evenhand.errors import BudgetError
    from evenhand.measuring.limits import Limit

    try:
        share = None if text is None else Limit.of(text).share
    except BudgetError:
        raise BudgetError(f"fail_above must be a share in per cent, such as 5%, got {text!r}") from None
    return share
