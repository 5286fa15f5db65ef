"""The command ``evenhand estimate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenhand.cli.faults import FOUND, INTERRUPTED, UNDECIDED, tell

if TYPE_CHECKING:
    from evenhand.cli.plan import AuditPlan as Plan
    from evenhand.config.file import Config
    from evenhand.estimates.groups import Groups
    from evenhand.estimates.result import Estimate


def estimate(config: Config) -> None:
    """Measure, and report what was measured."""
    from evenhand.cli.plan import make_plan

    call, wanted = config.call, config.estimate
    if config.text is not None and wanted.population is None:
        # Of texts there is no other.
        wanted.population = "data"
    if wanted.weights is not None and config.space.path is None:
        # What a row counts is no attribute of the person.
        config.space.exclude = [*config.space.exclude, wanted.weights]
    with config.blamed("estimate"):
        limit = _limit(wanted.fail_above)
        _check(config)
    plan = make_plan(config)
    if wanted.groups:
        _check_groups(plan, config)
    with (
        config.named("estimate.favourable", "favourable"),
        config.named("estimate.order", "favourable"),
        config.named("estimate.weights", "weights"),
    ):
        found = _measure(plan, config, shown=not (call.quiet or call.json))
        figures = _groups(plan, config) if wanted.groups else None
    _report(found, figures, wanted.plots, limit, call.json, call.quiet)


def _check(config: Config) -> None:
    """Find out before anything is read what cannot be measured, or written."""
    from evenhand.config.schema import SETTINGS
    from evenhand.errors import ConfigError
    from evenhand.estimates.plan import Plan as Measures

    wanted = config.estimate
    if wanted.plots is not None and Path(wanted.plots).is_file():
        raise ConfigError(f"plots: {wanted.plots} is a file; name a folder")
    if config.text is not None:
        from evenhand.estimates.texts import refuse

        rows = [one.key for one in SETTINGS.values() if one.table == "estimate" and not one.texts]
        refuse(**{key: getattr(wanted, key) for key in rows} | {"groups": wanted.groups or None})
    Measures(**wanted.given(*Measures.__dataclass_fields__))


def _measure(plan: Plan, config: Config, shown: bool) -> Estimate:
    from evenhand.budget import Budget
    from evenhand.cli.progress import progress
    from evenhand.config.file import wish
    from evenhand.engine.accounting import Status
    from evenhand.estimates.estimating import estimate as measure
    from evenhand.estimates.watching import ProgressOnly, Reading

    settings = config.estimate.given()
    for other in ("groups", "plots", "fail_above", "favourable", "order"):
        settings.pop(other, None)
    if (wanted := wish(config.estimate)) is not None:
        settings["favourable"] = wanted
    if config.audit.chunk is not None:
        settings["chunk"] = config.audit.chunk
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
            progress=None if show is None else ProgressOnly(watch),
        )


def _check_groups(plan: Plan, config: Config) -> None:
    from evenhand.config.file import wish
    from evenhand.errors import ConfigError

    wished = wish(config.estimate) is not None or plan.model.regression
    if plan.data is None or not wished:
        raise ConfigError("--groups needs rows and the decision that people want: --data FILE --favourable DECISION")


def _groups(plan: Plan, config: Config) -> Groups:
    from evenhand.config.file import wish
    from evenhand.estimates.groups import groups
    from evenhand.spaces.base import table

    wanted = config.estimate
    target = config.data.target
    return groups(
        plan.model,
        table(plan.space),
        plan.data,
        wish(wanted),
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
    from evenhand.estimates.limits import Limit, Outcome
    from evenhand.estimates.words import noun

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
    from evenhand.estimates.limits import Limit

    try:
        share = None if text is None else Limit.of(text).share
    except BudgetError:
        raise BudgetError(f"fail_above must be a share in per cent, such as 5%, got {text!r}") from None
    return share
