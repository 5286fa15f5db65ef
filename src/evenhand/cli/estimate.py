"""The command ``evenhand estimate``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenhand._write import reason, replacing
from evenhand.cli.app import FOUND, INTERRUPTED, UNDECIDED, tell
from evenhand.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

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
    from evenhand.cli.output import progress
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
    texts = plan.space.supports("texts")
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
    from evenhand.cli import audit as summary
    from evenhand.cli import estimate as measured
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


TERMS, DECISIONS = 40, 6
"""Terms and decisions that are shown."""


def facts(found: Estimate) -> list[tuple[str, str]]:
    """List what a reader should know of an estimate.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> dict(facts(eh.estimate(lambda f: f["age"] > 3, space)))["verdict"]
    'none found'
    """
    from evenhand._format import interval, level, number, percent, seconds
    from evenhand.estimates.result import NOT_RECEIVED, STOPS
    from evenhand.estimates.words import noun, treated

    sure = f"{interval(found.low, found.high)} with {level(found.confidence)} confidence ({found.interval})"
    if found.exact:
        sure = f"none needed: {'every one' if found.space.supports('texts') else 'everyone'} was judged"
    elif found.interval == NOT_RECEIVED:
        sure = "none needed: the model does not receive what is protected"
    how, who = treated(found.space, found.criterion), noun(found.space)
    texts = who == "texts"
    rows = [
        ("treated differently", f"{percent(found.rate)} of {found.about}"),
        ("interval", sure),
        ("verdict", found.verdict),
        ("asked", f"{found.samples:,} {who}, of {'which' if texts else 'whom'} {found.found:,} are {how}"),
        ("model rows", f"{found.rows:,}, and {found.rows_checked:,} to check"),
        ("seconds", seconds(found.seconds)),
        ("ended", f"because {'all were asked' if texts and found.stop == 'exhausted' else STOPS[found.stop]}"),
    ]
    if found.severity is not None:
        gaps = found.severity["everyone"]
        text = f"{number(gaps['median'])} apart at the median, {number(gaps['p99'])} in one of a hundred"
        rows.append(("scores", f"{text}, {number(gaps['largest'])} at most"))
    if found.repeats > 1:
        text = f"two answers to {percent(found.noise)} of the rows; each was asked {found.repeats} times"
        rows.append(("noise", text))
    counts = found.counts
    if counts.get("untestable"):
        rows.append(("no term" if texts else "no counterpart", f"{counts['untestable']:,} {who}"))
    if counts.get("clipped") or counts.get("dropped"):
        text = f"{counts['clipped']:,} moved to the nearest bound of the space, {counts['dropped']:,} left out"
        rows.append(("data rows", text))
    if found.sampled:
        whose = "some texts" if texts else "each individual"
        rows.append(("counterparts", f"a sample of them for {whose}: the share may be higher"))
    return rows


def show(found: Estimate, figures: Groups | None) -> None:
    """Print an estimate: a sentence, a table, who is favoured, and the groups."""
    from rich import box
    from rich.table import Table

    from evenhand.cli.audit import cell, console

    out = console()
    first, *who = repr(found).removeprefix("Estimate: ").splitlines()
    _fill(out, first[0].upper() + first[1:] + ".", "")
    table = Table(show_header=False, box=box.SIMPLE, pad_edge=False)
    for name, value in facts(found):
        table.add_row(cell(name, "dim"), cell(value))
    out.print(table)
    for line in who:
        _fill(out, line.strip(), "  ")
    if found.terms:
        out.print(_by_term(found))
    if figures is not None:
        head, *lines = repr(figures).removeprefix("Groups: ").splitlines()
        out.print()
        _fill(out, head[0].upper() + head[1:] + ":", "")
        for line in lines:
            _fill(out, line.strip(), "  ")


def _by_term(found: Estimate) -> RichTable:
    """Show what is decided of the same texts with each term in place, and how they are scored."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from evenhand._format import number, number_interval, percent, visible

    terms, decided = found.terms[:TERMS], [value for value, _ in found.terms[0].shares[:DECISIONS]]
    scored = any(term.mean is not None for term in terms)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("with the term", "texts", *(f"decided {value}" for value in decided)):
        table.add_column(Text(visible(name)))
    if scored:
        table.add_column("average score")
        table.add_column("more than the other terms")
    for term in terms:
        cells = [percent(share) for _, share in term.shares[:DECISIONS]]
        if scored:
            low, high = term.difference_low, term.difference_high
            ends = f" ({number_interval(low, high)})" if low is not None and high is not None and low < high else ""
            cells.append("" if term.mean is None else number(term.mean))
            cells.append("not known" if term.difference is None else f"{number(term.difference)}{ends}")
        table.add_row(*map(Text, (visible(term.term), f"{term.texts:,}", *cells)))
    return table


def draw(found: Estimate, figures: Groups | None, folder: Path) -> None:
    """Write the pictures."""
    drawn = {"convergence": found.plot_convergence, "intervals": found.plot_intervals, "gaps": found.plot_gaps}
    if figures is not None:
        drawn["groups"] = figures.plot_intervals
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, plot in drawn.items():
            with replacing(folder / f"{name}.svg") as file:
                plot().savefig(file, format="svg")
    except OSError as error:
        raise RunError(f"cannot write pictures to {folder}: {reason(error)}; name another folder: --plots") from error


def _fill(out: Console, text: str, indent: str) -> None:
    width = max(40, min(out.width, 110))
    out.print(
        textwrap.fill(
            text,
            width,
            initial_indent=indent,
            subsequent_indent=indent + "  " if indent else "",
            break_on_hyphens=False,
            break_long_words=False,
        ),
        soft_wrap=True,
    )
