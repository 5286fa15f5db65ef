"""The command ``evenhand estimate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand._files import reason, replacing
from evenhand._format import capital, estimated, interval, level, number, number_interval, percent, seconds
from evenhand.budget import Budget
from evenhand.cli.app import FOUND, INTERRUPTED, UNDECIDED
from evenhand.cli.output import (
    check_report,
    console,
    data_rows,
    echo_error,
    emit,
    fill,
    show_facts,
    show_table,
    write_result,
)
from evenhand.cli.plan import AuditPlan, make_plan
from evenhand.config.file import Config, favourable_of
from evenhand.config.schema import SETTINGS, EstimateTable
from evenhand.engine.oracle import Status
from evenhand.errors import BudgetError, ConfigError, RunError
from evenhand.estimates.estimate import Interval, Plan, StopRule
from evenhand.estimates.estimate import estimate as measure
from evenhand.estimates.groups import Groups, groups
from evenhand.estimates.plots import check_matplotlib
from evenhand.estimates.populations import named
from evenhand.estimates.result import NOT_RECEIVED, STOPS, Estimate, Limit, Outcome, noun, treated
from evenhand.estimates.survey import ProgressOnly, Reading
from evenhand.runs.audit import show_progress
from evenhand.spaces.base import table as table_of

if TYPE_CHECKING:
    from rich.console import Console

MOST_TERMS, MOST_DECISIONS = 40, 6


def estimate(config: Config) -> None:
    """Make an estimate, and report it."""
    call, wanted = config.call, config.estimate
    if config.text is not None and wanted.population is None:
        wanted.population = "data"
    if wanted.weights is not None and config.space.path is None:
        # A weight is not an attribute.
        config.space.exclude = [*config.space.exclude, wanted.weights]
    limit = _limit(wanted.fail_above)
    _check(config)
    plan = make_plan(config)
    if wanted.groups and (plan.data is None or (favourable_of(wanted) is None and not plan.model.regression)):
        raise ConfigError(
            "--groups needs rows and the favourable decision", remedy="give --data FILE --favourable DECISION"
        )
    found = _measure(plan, config, shown=not (call.quiet or call.json))
    figures = _groups(plan, config) if wanted.groups else None
    outcome = None if limit is None else limit.of_estimate(found)
    if call.json:
        extra = {
            "fail_above": None if limit is None else limit.share,
            "exceeded": outcome is Outcome.FAIL,
            "outcome": None if outcome is None else outcome.value,
        }
        emit(found.to_dict() | {"groups": None if figures is None else figures.to_dict()} | extra)
    elif not call.quiet:
        show(found, figures)
    if wanted.plots is not None:
        draw(found, figures, Path(wanted.plots))
    write_result(found, wanted.report)
    _exit(found, limit, outcome, call.quiet)


def _limit(text: str | None) -> Limit | None:
    try:
        return None if text is None else Limit.of(text)
    except BudgetError:
        raise ConfigError("must be a percentage, such as 5%", parameter="fail_above", value=text) from None


def _check(config: Config) -> None:
    """Check the settings before anything is read."""
    wanted = config.estimate
    check_report(wanted.report)
    if wanted.plots is not None:
        check_matplotlib()
        if Path(wanted.plots).is_file():
            raise ConfigError("must be a folder, not a file", parameter="plots", value=wanted.plots)
    if config.text is not None:
        for one in SETTINGS.values():
            if one.table == "estimate" and not one.texts and config.given(one):
                value = getattr(wanted, one.key)
                raise ConfigError("is not for texts", parameter=one.key, value=value, remedy="leave it out")
    Plan(**_arguments(wanted))


def _arguments(wanted: EstimateTable, data: Any = None, progress: ProgressOnly | None = None) -> dict[str, Any]:
    """Turn settings into arguments of an estimate."""
    return {
        "population": named(wanted.population or "uniform", data, **wanted.given("weights", "about", "steps", "exact")),
        "interval": Interval(wanted.interval, **wanted.given("experiments", "tolerance", "repeats")),
        "stop": StopRule(wanted.half_width, wanted.seconds, progress),
        **wanted.given("samples", "confidence"),
    }


def _measure(plan: AuditPlan, config: Config, shown: bool) -> Estimate:
    wanted = config.estimate
    budget = Budget(tests=wanted.samples, seconds=wanted.seconds)
    with show_progress(shown) as show:

        def watch(reading: Reading) -> None:
            assert show is not None
            show(Status(reading.samples, reading.found, reading.rows, reading.seconds, budget))

        return measure(
            plan.model.with_options(batch_size=config.audit.chunk),
            plan.space,
            favourable=favourable_of(wanted),
            criterion=plan.criterion,
            seed=plan.seed,
            **_arguments(wanted, plan.data, None if show is None else ProgressOnly(watch)),
        )


def _groups(plan: AuditPlan, config: Config) -> Groups:
    return groups(
        plan.model.with_options(batch_size=config.audit.chunk),
        table_of(plan.space),
        plan.data,
        favourable_of(config.estimate),
        y=None if plan.model.regression else config.data.target,
        **config.estimate.given("weights", "confidence"),
    )


def _exit(found: Estimate, limit: Limit | None, outcome: Outcome | None, quiet: bool) -> None:
    """Exit with the status that fits an estimate."""
    if found.stop == "interrupted":
        echo_error(f"evenhand: interrupted after {found.samples:,} {noun(found.space)}; the interval is still valid")
        raise typer.Exit(INTERRUPTED)
    if limit is None:
        return
    if outcome is Outcome.PASS:
        if quiet and found.note:
            # If a model passes only because it does not use an attribute, say so.
            echo_error(f"evenhand: warning: {found.note}")
        return
    if not quiet:
        rate = estimated(found.rate, found.low, found.high)
        above = "more than" if outcome is Outcome.FAIL else "too few samples to tell whether that is above"
        echo_error(f"evenhand: {rate}, {above} the {limit} that --fail-above allows")
    raise typer.Exit(FOUND if outcome is Outcome.FAIL else UNDECIDED)


def show(found: Estimate, figures: Groups | None) -> None:
    """Print an estimate: a sentence, a table, who is favoured, and the groups."""
    out = console()
    fill(capital(found.sentence) + ".", out)
    show_facts(facts(found), out)
    for line in found.details:
        fill(line, out, "  ", "    ")
    if found.terms:
        _show_terms(found, out)
    if figures is not None:
        out.print()
        fill(capital(figures.sentence) + ":", out)
        for line in figures.details:
            fill(line, out, "  ", "    ")


def facts(found: Estimate) -> list[tuple[str, str]]:
    """List the main facts about an estimate.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> dict(facts(eh.estimate(lambda f: f["age"] > 3, space)))["verdict"]
    'none found'
    """
    ends = f"{interval(found.low, found.high)} with {level(found.confidence)} confidence ({found.interval})"
    if found.exact:
        ends = "none needed: all were judged"
    elif found.interval == NOT_RECEIVED:
        ends = "none needed: the model does not receive the protected attributes"
    how, who = treated(found.space, found.criterion), noun(found.space)
    texts = found.space.supports("texts")
    rows = [
        ("treated differently", f"{percent(found.rate)} of {found.about}"),
        ("interval", ends),
        ("verdict", found.verdict),
        ("judged", f"{found.samples:,} {who}, of which {found.found:,} are {how}"),
        ("model rows", f"{found.rows:,}, plus {found.rows_checked:,} for checks"),
        ("seconds", seconds(found.seconds)),
        ("ended", f"because {'all were judged' if found.stop == 'exhausted' else STOPS[found.stop]}"),
    ]
    if found.severity is not None:
        gaps = found.severity["everyone"]
        text = f"median {number(gaps['median'])}, 99th percentile {number(gaps['p99'])}"
        rows.append(("score differences", f"{text}, maximum {number(gaps['largest'])}"))
    if found.repeats > 1:
        text = f"{percent(found.noise)} of the rows got two answers; each was repeated {found.repeats} times"
        rows.append(("noise", text))
    counts = found.counts
    if counts.get("untestable"):
        rows.append(("no term" if texts else "no counterpart", f"{counts['untestable']:,} {who}"))
    rows += data_rows(counts, texts)
    if found.sampled:
        whose = "some texts" if texts else "each individual"
        rows.append(("counterparts", f"a sample of them for {whose}; the rate may be higher"))
    return rows


def _show_terms(found: Estimate, out: Console) -> None:
    """Print a table of the decisions and scores that the same texts get with each term."""
    terms, decided = found.terms[:MOST_TERMS], [value for value, _ in found.terms[0].shares[:MOST_DECISIONS]]
    scored = any(term.mean is not None for term in terms)
    scores = ("average score", "more than the other terms") if scored else ()
    rows = []
    for term in terms:
        cells = [percent(share) for _, share in term.shares[:MOST_DECISIONS]]
        if scored:
            low, high = term.difference_low, term.difference_high
            ends = f" ({number_interval(low, high)})" if low is not None and high is not None and low < high else ""
            cells.append("" if term.mean is None else number(term.mean))
            cells.append("not known" if term.difference is None else f"{number(term.difference)}{ends}")
        rows.append((term.term, f"{term.texts:,}", *cells))
    show_table(("with the term", "texts", *(f"decided {value}" for value in decided), *scores), rows, out)


def draw(found: Estimate, figures: Groups | None, folder: Path) -> None:
    """Write the plots."""
    plots = {"convergence": found.plot_convergence, "intervals": found.plot_intervals, "gaps": found.plot_gaps}
    if figures is not None:
        plots["groups"] = figures.plot_intervals
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, plot in plots.items():
            with replacing(folder / f"{name}.svg") as file:
                plot().savefig(file, format="svg")
    except OSError as error:
        raise RunError(
            f"cannot write plots to {folder}: {reason(error)}", remedy="name another folder: --plots"
        ) from error
