"""The command ``evenhand audit``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from evenhand._format import count, percent, seconds
from evenhand._interrupts import settled
from evenhand.budget import StopReason
from evenhand.cli.app import FOUND, INTERRUPTED
from evenhand.cli.output import (
    capital,
    check_place,
    console,
    echo_error,
    emit,
    fill,
    message,
    progress,
    show_facts,
    show_pairs,
)
from evenhand.cli.plan import AuditPlan, make_plan
from evenhand.cli.runs import report_settings, write_report
from evenhand.config.file import Config
from evenhand.engine.store import COVERAGE, write_json
from evenhand.errors import ConfigError, EvenhandError, ModelError, RunError
from evenhand.estimates.coverage import Coverage, coverage
from evenhand.runs.exports import check_pyarrow, confirmation, export, format_of
from evenhand.runs.pairs import select_pairs
from evenhand.runs.provenance import Source
from evenhand.runs.run import Run
from evenhand.runs.run import audit as search


def audit(config: Config) -> None:
    """Search, and report what was found."""
    call, wanted = config.call, config.audit
    _check_writable(config)
    if wanted.report is None and {"favourable", "order"} & config.by_flag.get("estimate", {}).keys():
        raise ConfigError("--favourable and --order are for the report", remedy="name its file: --report FILE")
    settings = {} if wanted.report is None else report_settings(config)
    plan = make_plan(config)
    run = _search(plan, shown=not (call.quiet or call.json))
    if run.directory is not None and config.model.path is not None:
        data = config.data.path if config.text is None else config.text.path
        Source.of(config.model.path, config.model.threshold, data).keep(run)
    covered = _cover(run, config) if wanted.coverage else None
    _show(run, covered, plan, config)
    if wanted.findings is not None:
        write_findings(run, Path(wanted.findings))
    complete = True
    if wanted.report is not None:
        complete = _write_report(run, covered, plan, config, settings)
    _exit(run, complete, config)


def _search(plan: AuditPlan, shown: bool) -> Run:
    space: Any = plan.space
    with progress(shown, space.tests if space.supports("attributes") and space.countable else None) as show:
        return search(**vars(plan), progress=show)


def _cover(run: Run, config: Config) -> Coverage | None:
    """Measure the coverage and keep it with the run; a failure is a message, so that no finding is lost."""
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
        settled()
        echo_error("evenhand: interrupted; coverage was not measured")
    return None


def _show(run: Run, covered: Coverage | None, plan: AuditPlan, config: Config) -> None:
    """Print a run: a table, then pairs in words; or everything as JSON."""
    if config.call.quiet and not config.call.json:
        return
    pairs, limit = select_pairs(run, data=plan.data), config.audit.fail_above
    if config.call.json:
        extra: dict[str, Any] = {
            "pairs": [pair.to_dict() for pair in pairs],
            "coverage": None if covered is None else covered.to_dict(),
            "directory": None if run.directory is None else str(run.directory),
            "fail_above": limit,
            "exceeded": limit is not None and run.found > limit,
        }
        emit(run.to_dict() | extra)
        return
    out = console()
    show_facts(facts(run, covered), out)
    show_pairs(pairs, out)
    if run.note:
        fill(capital(run.note) + ".", out)


def _exit(run: Run, complete: bool, config: Config) -> None:
    """Exit with the status that fits a run and its report."""
    limit, quiet = config.audit.fail_above, config.call.quiet
    if run.stop is StopReason.INTERRUPTED:
        kept = "nothing is kept without --directory"
        if run.directory is not None:
            kept = f"kept in {run.directory}; the same command again continues it"
        echo_error(f"evenhand: interrupted after {run.tests:,} tests; {kept}")
        raise typer.Exit(INTERRUPTED)
    exceeded = limit is not None and run.found > limit
    if quiet and limit is not None and not exceeded and run.note:
        # A model that passes because it does not use an attribute never passes silently.
        echo_error(f"evenhand: warning: {run.note}")
    if exceeded and not quiet:
        echo_error(f"evenhand: {run.found:,} findings, more than the {limit:,} that --fail-above allows")
    if exceeded or not complete:
        raise typer.Exit(FOUND)


def _write_report(
    run: Run, covered: Coverage | None, plan: AuditPlan, config: Config, settings: dict[str, Any]
) -> bool:
    """Write the report, as ``evenhand report`` does; return whether all of its parts were made.

    If the favourable decision is not one of the model's, the report is written without it.
    """
    path, quiet = Path(str(config.audit.report)), config.call.quiet or config.call.json
    # After Ctrl-C the model is not queried any more.
    ask, rows = run.stop is not StopReason.INTERRUPTED, run.space.supports("attributes")
    settings = settings | {"options": replace(settings["options"], coverage=covered, ask=ask)}
    if rows and ask and plan.data is not None:
        settings["data"] = plan.data
    if rows and settings["favourable"] is not None:
        try:
            return write_report(run, path, quiet, **settings)
        except ModelError as error:
            error.add_note("the report is written without it")
            echo_error(message(config.located(error)))
    return write_report(run, path, quiet, **settings | {"favourable": None})


def write_findings(run: Run, path: Path) -> None:
    """Write the findings in the format of the ending; CSV if there is none."""
    try:
        export(run, path, None if path.suffix else "csv")
    except RunError as error:
        error.add_note(f"the run is kept in {run.directory}" if run.directory else "--directory would keep the run")
        raise


def _check_writable(config: Config) -> None:
    """Check before the search that files can be written, and in which format."""
    if config.audit.findings is not None:
        path = Path(config.audit.findings)
        with config.named("audit.findings"):
            check_place(path)
            # A pipe, such as /dev/stdout, gets CSV, as a name without ending does.
            if path.suffix and format_of(path) == "parquet":
                check_pyarrow()
    if config.audit.report is not None:
        with config.named("audit.report"):
            check_place(Path(config.audit.report))


def facts(run: Run, covered: Coverage | None = None) -> list[tuple[str, str]]:
    """List what a reader should know of a run.

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
    rows += [
        (
            "success rate",
            f"{percent(run.success_rate)} of tests; it measures the search, not how common discrimination is",
        ),
        ("model rows", f"{run.rows:,}, plus {run.rows_checked:,} for checks"),
        ("seconds", seconds(run.seconds)),
        ("ended", f"because {run.stop.words}"),
        ("repeats avoided", f"{counts.get('repeats', 0):,}"),
    ]
    if counts.get("untestable"):
        rows.append(("not tested", f"{counts['untestable']:,} individuals with fewer than two valid counterparts"))
    if space.supports("texts") and counts.get("dropped"):
        rows.append(("rows without a text", f"{counts['dropped']:,}, left out"))
    elif counts.get("clipped") or counts.get("dropped"):
        text = f"{counts['clipped']:,} moved to the nearest bound of the space, {counts['dropped']:,} left out"
        rows.append(("data rows", text))
    if space.sampled and space.supports("attributes"):
        sample = f"a sample of {space.max_family_size:,} of {count(space.combinations)} per individual"
        rows.append(("counterparts", f"{sample}; some pairs may be missed"))
    rows += [(words, f"{n:,}") for words, n in run.remarks]
    if run.directory is not None:
        rows.append(("kept in", str(run.directory)))
    return rows
