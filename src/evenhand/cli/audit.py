"""The command ``evenhand audit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand.cli.faults import FOUND, INTERRUPTED, message, tell

if TYPE_CHECKING:
    from evenhand.cli.plan import AuditPlan as Plan
    from evenhand.config.file import Config
    from evenhand.estimates.coverage import Coverage
    from evenhand.runs.run import Run


def audit(config: Config) -> None:
    """Search, and report what was found."""
    from evenhand.cli.plan import make_plan
    from evenhand.cli.report import settings_of

    call = config.call
    _check_writable(config)
    if {"favourable", "order"} & config.by_flag.get("estimate", {}).keys() and config.audit.page is None:
        from evenhand.errors import ConfigError

        raise ConfigError("--favourable and --order are for the report: name its file with --page FILE")
    page_settings = {} if config.audit.page is None else settings_of(config)
    plan = make_plan(config)
    run = _search(plan, shown=not (call.quiet or call.json))
    if run.directory is not None and config.model.path is not None:
        from evenhand.runs.provenance import Source

        start = config.data.path if config.text is None else config.text.path
        Source.of(config.model.path, config.model.threshold, start).keep(run)
    covered = _cover(run) if config.audit.coverage else None
    _report(run, covered, plan, config, page_settings)


def _search(plan: Plan, shown: bool) -> Run:
    from evenhand.cli.progress import progress
    from evenhand.runs.run import audit as search

    space: Any = plan.space
    most = space.tests if getattr(space, "countable", False) else None
    with progress(shown, most) as show:
        return search(
            plan.model,
            plan.space,
            plan.strategy,
            plan.budget,
            plan.seed,
            plan.criterion,
            plan.data,
            plan.directory,
            chunk=plan.chunk,
            timeout=plan.timeout,
            progress=show,
            confirm=plan.confirm,
        )


def _cover(run: Run) -> Coverage | None:
    """Measure the coverage and keep it with the run; where that fails say why, so that no finding is lost by it."""
    from evenhand._interrupts import settled
    from evenhand.budget import StopReason
    from evenhand.engine.store import COVERAGE, write_json
    from evenhand.errors import EvenhandError
    from evenhand.estimates.coverage import coverage

    if run.stop is StopReason.INTERRUPTED:
        return None
    try:
        covered = coverage(run)
        if run.directory is not None:
            write_json(run.directory / COVERAGE, covered.to_dict())
        return covered
    except EvenhandError as error:
        error.add_note("the coverage is not known; the rest is not affected")
        tell(message(error))
    except KeyboardInterrupt:
        settled()
        tell("evenhand: interrupted; the coverage is not known")
    return None


def _report(run: Run, covered: Coverage | None, plan: Plan, config: Config, page_settings: dict[str, Any]) -> None:
    """Say what was found, write the files that were asked for, and end with the status that fits."""
    from evenhand.budget import StopReason
    from evenhand.cli import summary
    from evenhand.words import telling

    wanted, fail_above = config.audit, config.audit.fail_above
    as_json, quiet = config.call.json, config.call.quiet
    pairs = telling(run, data=plan.data)
    exceeded = fail_above is not None and run.found > fail_above
    if as_json:
        extra: dict[str, Any] = {
            "pairs": [pair.to_dict() for pair in pairs],
            "coverage": None if covered is None else covered.to_dict(),
            "directory": None if run.directory is None else str(run.directory),
            "fail_above": fail_above,
            "exceeded": exceeded,
        }
        summary.emit(run.to_dict() | extra)
    elif not quiet:
        summary.show(run, pairs, covered)
    if wanted.findings is not None:
        write_findings(run, Path(wanted.findings))
    whole = True
    if wanted.page is not None:
        whole = _write_page(run, Path(wanted.page), plan, quiet or as_json, coverage=covered, **page_settings)
    if run.stop is StopReason.INTERRUPTED:
        kept = "nothing is kept without --directory"
        if run.directory is not None:
            kept = f"kept in {run.directory}; the same command again goes on"
        tell(f"evenhand: interrupted after {run.tests:,} tests; {kept}")
        raise typer.Exit(INTERRUPTED)
    if quiet and fail_above is not None and not exceeded and run.note:
        # What passes because the model does not use an attribute never passes silently.
        tell(f"evenhand: warning: {run.note}")
    if exceeded:
        if not quiet:
            tell(f"evenhand: {run.found:,} findings, more than the {fail_above:,} that --fail-above allows")
        raise typer.Exit(FOUND)
    if not whole:
        raise typer.Exit(FOUND)


def _write_page(run: Run, path: Path, plan: Plan, quiet: bool, **settings: Any) -> bool:
    """Write the report, as ``evenhand report`` does, and return whether no part of it failed.

    Without what people want where that is no decision, so that no page is lost by it.
    """
    from evenhand.budget import StopReason
    from evenhand.cli.report import reported
    from evenhand.errors import ModelError

    # Whoever pressed Ctrl-C does not want the model to be asked on.
    settings["ask"] = run.stop is not StopReason.INTERRUPTED
    if not run.space.supports("attributes"):
        return reported(run, path, quiet, **settings | {"favourable": None})
    if settings["ask"] and plan.data is not None:
        settings["data"] = plan.data
    if settings["favourable"] is not None:
        try:
            return reported(run, path, quiet, **settings)
        except ModelError as error:
            error.add_note("the report is written without it")
            tell(message(error))
    return reported(run, path, quiet, **settings | {"favourable": None})


def write_findings(run: Run, path: Path) -> None:
    """Write the findings in the format that the ending names, and as CSV where there is none."""
    from evenhand.errors import RunError
    from evenhand.runs.formats import export

    try:
        export(run, path, None if path.suffix else "csv")
    except RunError as error:
        error.add_note(f"the run is kept in {run.directory}" if run.directory else "--directory would keep the run")
        raise


def _check_writable(config: Config) -> None:
    """Find out before the search, not after it, that a file has no place or format, or a format no package."""
    from evenhand.cli.writing import check_place
    from evenhand.runs.formats import format_of
    from evenhand.runs.parquet import check_pyarrow

    for key, name in (("findings", config.audit.findings), ("page", config.audit.page)):
        if name is None:
            continue
        path = Path(name)
        with config.named(f"audit.{key}"):
            check_place(path)
            # A pipe, such as /dev/stdout, gets CSV as a name without ending does.
            if key == "findings" and path.suffix and format_of(path) == "parquet":
                check_pyarrow()
