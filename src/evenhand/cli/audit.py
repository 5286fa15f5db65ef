"""The command ``evenhand audit``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from evenhand._format import count, percent, seconds
from evenhand._interrupts import mark_handled
from evenhand.budget import StopReason
from evenhand.cli.app import FOUND, INTERRUPTED, UNDECIDED
from evenhand.cli.output import (
    check_place,
    console,
    data_rows,
    echo_error,
    emit,
    fill,
    message,
    show_facts,
    show_pairs,
    show_verdict,
)
from evenhand.cli.plan import AuditPlan, make_plan
from evenhand.cli.runs import report_settings, write_report
from evenhand.config.file import Config
from evenhand.engine.store import COVERAGE, write_json
from evenhand.errors import ConfigError, EvenhandError, ModelError, RunError
from evenhand.estimates.coverage import Coverage, coverage
from evenhand.estimates.result import Limit, Outcome, outcome_of_findings, worst
from evenhand.reports.wording import headline
from evenhand.runs.audit import audit as search
from evenhand.runs.exports import check_pyarrow, confirmation, export, format_of
from evenhand.runs.pair_sentences import SYNTHETIC, select_pairs
from evenhand.runs.replay import Source
from evenhand.runs.run import Run


def audit(config: Config) -> None:
    """Run a search, and report what it found."""
    call, wanted = config.call, config.audit
    _check_writable(config)
    if wanted.report is None and {"favourable", "order"} & config.by_flag.get("estimate", {}).keys():
        raise ConfigError("--favourable and --order are for the report", remedy="name its file: --report FILE")
    settings = {} if wanted.report is None else report_settings(config)
    with config.named("audit.fail_above"):
        limit = None if wanted.fail_above is None else Limit.of(wanted.fail_above)
    plan = make_plan(config)
    _check_limit(limit, plan)
    run = search(**vars(plan), progress=None if not (call.quiet or call.json) else False)
    run.annotate(**vars(config.about))
    if run.directory is not None and config.model.path is not None:
        data = config.data.path if config.text is None else config.text.path
        Source.of(config.model.path, config.model.threshold, data).keep(run)
    covered = _cover(run, config) if wanted.coverage else None
    _show(run, covered, plan, limit, config)
    if wanted.findings is not None:
        write_findings(run, Path(wanted.findings), config.report.show_examples)
    complete = True
    if wanted.report is not None:
        complete = _write_report(run, covered, plan, config, settings)
    _exit(run, complete, limit, config)


def _check_limit(limit: Limit | None, plan: AuditPlan) -> None:
    """Raise before the search if there is a limit for the rate but the search makes no estimate."""
    if limit is not None and not getattr(plan.strategy, "share", 0):
        raise ConfigError(
            "--fail-above decides on the estimate, which this search does not make",
            remedy="omit --strategy, or use --fail-on-finding or 'evenhand estimate'",
        )


def _outcomes(run: Run, limit: Limit | None, config: Config) -> list[Outcome]:
    """Judge a run by every limit that was given."""
    found = [outcome_of_findings(run)] if config.audit.fail_on_finding else []
    return [*found, *([] if limit is None else [limit.of_run(run)])]


def _cover(run: Run, config: Config) -> Coverage | None:
    """Measure the coverage and store it with the run; a failure is only printed, so that no finding is lost."""
    if run.stop is StopReason.INTERRUPTED:
        return None
    try:
        covered = coverage(run)
        if run.directory is not None:
            write_json(run.directory / COVERAGE, covered.to_dict())
        return covered
    except EvenhandError as error:
        error.add_note("coverage was not measured; nothing else is affected")
        echo_error(message(config.located(error)))
    except KeyboardInterrupt:
        mark_handled()
        echo_error("evenhand: interrupted; coverage was not measured")
    return None


def _show(run: Run, covered: Coverage | None, plan: AuditPlan, limit: Limit | None, config: Config) -> None:
    """Print a run: a table, then pairs in words; or everything as JSON."""
    if config.call.quiet and not config.call.json:
        return
    pairs = select_pairs(run, data=plan.data, show=config.report.show_examples)
    if config.call.json:
        outcomes = _outcomes(run, limit, config)
        extra: dict[str, Any] = {
            "pairs": [pair.to_dict() for pair in pairs],
            "coverage": None if covered is None else covered.to_dict(),
            "directory": None if run.directory is None else str(run.directory),
            "about": run.about.to_dict(),
            "fail_above": None if limit is None else limit.share,
            "fail_on_finding": config.audit.fail_on_finding,
            "outcome": None if not outcomes else worst(outcomes).value,
            "exceeded": Outcome.FAIL in outcomes,
        }
        emit(run.to_dict() | extra)
        return
    out = console()
    show_verdict(headline(run), run.found > 0, out)
    show_facts(facts(run, covered), out)
    if pairs or not run.found:
        show_pairs(pairs, out)
    for step in next_steps(run, config):
        fill(step, out)


def _exit(run: Run, complete: bool, limit: Limit | None, config: Config) -> None:
    """Exit with the status that fits a run and its report."""
    quiet = config.call.quiet
    if run.stop is StopReason.INTERRUPTED:
        kept = "the run is not kept without --directory"
        if run.directory is not None:
            kept = f"kept in {run.directory}; the same command again continues it"
        echo_error(f"evenhand: interrupted after {run.tests:,} tests; {kept}")
        raise typer.Exit(INTERRUPTED)
    outcomes = _outcomes(run, limit, config)
    if quiet and outcomes and worst(outcomes) is Outcome.PASS and run.note:
        # If a model passes only because it does not use an attribute, say so.
        echo_error(f"evenhand: warning: {run.note}")
    if not quiet:
        _explain(run, limit, config)
    if Outcome.FAIL in outcomes or not complete:
        raise typer.Exit(FOUND)
    if Outcome.UNDECIDED in outcomes:
        raise typer.Exit(UNDECIDED)


def _explain(run: Run, limit: Limit | None, config: Config) -> None:
    """Print which limit was exceeded, or why that is unknown."""
    if config.audit.fail_on_finding and (outcome := outcome_of_findings(run)) is not Outcome.PASS:
        text = f"{run.confirmed:,} confirmed findings, and --fail-on-finding allows none"
        if outcome is Outcome.UNDECIDED:
            text = f"{run.found:,} findings in {run.tests:,} tests, none of them confirmed"
        echo_error(f"evenhand: {text}")
    if limit is not None and limit.of_run(run) is not Outcome.PASS:
        echo_error(f"evenhand: {limit.words(run)}")


def _write_report(
    run: Run, covered: Coverage | None, plan: AuditPlan, config: Config, settings: dict[str, Any]
) -> bool:
    """Write the report, as ``evenhand report`` does; return whether no part of it failed.

    If the favourable decision is not one of the model's, the report is written without it.
    """
    path = Path(str(config.audit.report))
    shown = "" if config.call.quiet or config.call.json else "text"
    # After Ctrl-C the model is not queried again.
    ask, rows = run.stop is not StopReason.INTERRUPTED, run.space.supports("attributes")
    settings = settings | {"options": replace(settings["options"], coverage=covered, ask=ask)}
    if rows and ask and plan.data is not None:
        settings["data"] = plan.data
    if rows and settings["favourable"] is not None:
        try:
            return write_report(run, path, shown, **settings)
        except ModelError as error:
            error.add_note("the report is written without it")
            echo_error(message(config.located(error)))
    return write_report(run, path, shown, **settings | {"favourable": None})


def write_findings(run: Run, path: Path, shown: str = SYNTHETIC) -> None:
    """Write the findings in the format of the ending; CSV if there is none."""
    try:
        export(run, path, None if path.suffix else "csv", show_examples=shown)
    except RunError as error:
        error.add_note(f"the run is kept in {run.directory}" if run.directory else "--directory would keep the run")
        raise


def _check_writable(config: Config) -> None:
    """Check before the search that files can be written, and in which format."""
    if config.audit.findings is not None:
        path = Path(config.audit.findings)
        with config.named("audit.findings"):
            check_place(path)
            # A pipe, such as /dev/stdout, gets CSV, and so does a name without an ending.
            if path.suffix and format_of(path) == "parquet":
                check_pyarrow()
    if config.audit.report is not None:
        with config.named("audit.report"):
            check_place(Path(config.audit.report))


def next_steps(run: Run, config: Config) -> list[str]:
    """Say what to do with a run now."""
    steps = []
    if run.directory is None:
        steps.append("--directory DIR keeps the run")
    if run.found and config.audit.report is None:
        place = "--report FILE" if run.directory is None else f"evenhand report {run.directory}"
        steps.append(f"{place} shows where it happens, and who is affected")
    if run.found and run.space.supports("attributes"):
        steps.append("evenhand repair compares fairer models")
    return [f"Next: {'; '.join(steps)}."] if steps else []


def facts(run: Run, covered: Coverage | None = None) -> list[tuple[str, str]]:
    """List the main facts about a run.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> dict(facts(eh.audit(lambda f: f["age"] > 3, space, strategy="themis")))["tests"]
    '9'
    """
    counts, space = run.counts, run.space
    rows = [("search", f"{run.identity.search}, seed {run.identity.seed}, protected: {', '.join(space.protected)}")]
    if run.gradient is not None:
        rows.append(("gradient", run.gradient))
    rows += [("tests", f"{run.tests:,}"), ("findings", confirmation(run))]
    if covered is not None:
        rows.append(("coverage", f"{covered.words}; it took {covered.rows:,} more model rows"))
    rows += [(f"estimate, {name}", str(one).partition(": ")[2]) for name, one in run.estimate.items()]
    if run.shares:
        rows.append(("searches", run.shares))
    rows += [
        (
            "success rate",
            f"{percent(run.success_rate)} of tests; it measures the search, not how common discrimination is",
        ),
        ("model rows", f"{run.rows:,}, plus {run.rows_checked:,} for checks"),
        ("seconds", seconds(run.seconds)),
        ("ended", f"because {run.ended}"),
        ("repeats avoided", f"{counts.get('repeats', 0):,}"),
    ]
    if counts.get("untestable"):
        rows.append(("not tested", f"{counts['untestable']:,} individuals with fewer than two valid counterparts"))
    rows += data_rows(counts, space.supports("texts"))
    if space.sampled and space.supports("attributes"):
        sample = f"a sample of {space.max_family_size:,} of {count(space.combinations)} per individual"
        rows.append(("counterparts", f"{sample}; some pairs may be missed"))
    rows += [(words, f"{n:,}") for words, n in run.remarks]
    if run.directory is not None:
        rows.append(("kept in", str(run.directory)))
    return rows
