"""The command ``evenhand audit``."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand._format import count, percent, seconds, visible, visible_json
from evenhand.cli.app import FOUND, INTERRUPTED, message, tell
from evenhand.runs.exports import confirmation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from evenhand.cli.plan import AuditPlan as Plan
    from evenhand.config.file import Config
    from evenhand.estimates.coverage import Coverage
    from evenhand.runs.pairs import Pair
    from evenhand.runs.run import Run


def audit(config: Config) -> None:
    """Search, and report what was found."""
    from evenhand.cli.plan import make_plan
    from evenhand.cli.runs import settings_of

    call = config.call
    _check_writable(config)
    if {"favourable", "order"} & config.by_flag.get("estimate", {}).keys() and config.audit.report is None:
        from evenhand.errors import ConfigError

        raise ConfigError("--favourable and --order are for the report: name its file with --report FILE")
    report_settings = {} if config.audit.report is None else settings_of(config)
    plan = make_plan(config)
    run = _search(plan, shown=not (call.quiet or call.json))
    if run.directory is not None and config.model.path is not None:
        from evenhand.runs.provenance import Source

        start = config.data.path if config.text is None else config.text.path
        Source.of(config.model.path, config.model.threshold, start).keep(run)
    covered = _cover(run) if config.audit.coverage else None
    _report(run, covered, plan, config, report_settings)


def _search(plan: Plan, shown: bool) -> Run:
    from evenhand.cli.output import progress
    from evenhand.runs.run import audit as search

    space: Any = plan.space
    most = space.tests if space.supports("attributes") and space.countable else None
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


def _report(run: Run, covered: Coverage | None, plan: Plan, config: Config, report_settings: dict[str, Any]) -> None:
    """Say what was found, write the files that were asked for, and end with the status that fits."""
    from evenhand.budget import StopReason
    from evenhand.cli import audit as summary
    from evenhand.runs.pairs import select_pairs

    wanted, fail_above = config.audit, config.audit.fail_above
    as_json, quiet = config.call.json, config.call.quiet
    pairs = select_pairs(run, data=plan.data)
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
    if wanted.report is not None:
        whole = _write_report(run, Path(wanted.report), plan, quiet or as_json, covered, report_settings)
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


def _write_report(
    run: Run, path: Path, plan: Plan, quiet: bool, covered: Coverage | None, settings: dict[str, Any]
) -> bool:
    """Write the report, as ``evenhand report`` does, and return whether no part of it failed.

    Without what people want where that is no decision, so that no report is lost by it.
    """
    from evenhand.budget import StopReason
    from evenhand.cli.runs import reported
    from evenhand.errors import ModelError

    # Whoever pressed Ctrl-C does not want the model to be asked on.
    ask = run.stop is not StopReason.INTERRUPTED
    settings = settings | {"options": replace(settings["options"], coverage=covered, ask=ask)}
    if not run.space.supports("attributes"):
        return reported(run, path, quiet, **settings | {"favourable": None})
    if ask and plan.data is not None:
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
    from evenhand.runs.exports import export

    try:
        export(run, path, None if path.suffix else "csv")
    except RunError as error:
        error.add_note(f"the run is kept in {run.directory}" if run.directory else "--directory would keep the run")
        raise


def _check_writable(config: Config) -> None:
    """Find out before the search, not after it, that a file has no place or format, or a format no package."""
    from evenhand.cli.output import check_place
    from evenhand.runs.exports import check_pyarrow, format_of

    for key, name in (("findings", config.audit.findings), ("report", config.audit.report)):
        if name is None:
            continue
        path = Path(name)
        with config.named(f"audit.{key}"):
            check_place(path)
            # A pipe, such as /dev/stdout, gets CSV as a name without ending does.
            if key == "findings" and path.suffix and format_of(path) == "parquet":
                check_pyarrow()


def console() -> Console:
    """Give the terminal, or whatever standard output is."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process with 1, which means something else here.
            raise BrokenPipeError

        def print(self, *objects: Any, **settings: Any) -> None:
            # Rich lets through most of what a terminal would obey.
            super().print(*(visible(o, keep="\n") if isinstance(o, str) else o for o in objects), **settings)

    return Output(file=sys.stdout, highlight=False, markup=False, emoji=False)


def cell(text: str, style: str = "") -> Text:
    """Make a cell of a table."""
    from rich.text import Text

    return Text(visible(text), style=style)


def facts(run: Run, covered: Coverage | None = None) -> list[tuple[str, str]]:
    """List what a reader should know of a run.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> dict(facts(eh.audit(lambda f: f["age"] > 3, space, strategy="themis")))["tests"]
    '9'
    """
    counts, space = run.counts, run.space
    rows = [
        (
            "search",
            f"{run.identity.search}, seed {run.identity.seed}, by {', '.join(space.protected)}",
        ),
        ("tests", f"{run.tests:,}"),
        ("findings", confirmation(run)),
        (
            "success rate",
            f"{percent(run.success_rate)} of tests: how well the search aims, not how common discrimination is",
        ),
        ("model rows", f"{run.rows:,}, and {run.rows_checked:,} to check"),
        ("seconds", seconds(run.seconds)),
        ("ended", f"because {run.stop.words}"),
        ("repeats avoided", f"{counts.get('repeats', 0):,}"),
    ]
    if covered is not None:
        rows.insert(4, ("coverage", f"{covered.words}; it took {covered.rows:,} more model rows"))
    if run.gradient is not None:
        rows.insert(1, ("gradient", run.gradient))
    if counts.get("untestable"):
        rows.append(("no test", f"{counts['untestable']:,} individuals with fewer than two valid counterparts"))
    if space.supports("texts") and counts.get("dropped"):
        rows.append(("rows without a text", f"{counts['dropped']:,}, left out"))
    elif counts.get("clipped") or counts.get("dropped"):
        text = f"{counts['clipped']:,} moved to the nearest bound of the space, {counts['dropped']:,} left out"
        rows.append(("data rows", text))
    if space.sampled and space.supports("attributes"):
        some = f"{space.max_family_size:,} of {count(space.combinations)}"
        text = f"{some} for each individual, sampled: some pairs may be missed"
        rows.append(("counterparts", text))
    rows += [(words, f"{n:,}") for words, n in run.remarks]
    if run.directory is not None:
        rows.append(("kept in", str(run.directory)))
    return rows


def show(run: Run, pairs: Sequence[Pair], covered: Coverage | None = None) -> None:
    """Print a run: a table, then pairs in plain words."""
    from rich import box
    from rich.table import Table

    table = Table(show_header=False, box=box.SIMPLE, pad_edge=False)
    for name, value in facts(run, covered):
        table.add_row(cell(name, "dim"), cell(value))
    out = console()
    out.print(table)
    show_pairs(pairs, out)
    if run.note:
        fill(out, capital(run.note) + ".")


def capital(text: str) -> str:
    """Begin a text with a capital letter.

    >>> capital("no decision changed")
    'No decision changed'
    """
    return text[:1].upper() + text[1:]


def show_pairs(pairs: Sequence[Pair], out: Console) -> None:
    """Print pairs, numbered, as wide as the terminal allows."""
    if not pairs:
        out.print("Nobody was found to be treated differently.")
    for number, pair in enumerate(pairs, 1):
        first, rest = f"{number}. ", "   "
        width = max(40, min(out.width, 110))
        out.print(
            textwrap.fill(
                pair.sentence,
                width,
                initial_indent=first,
                subsequent_indent=rest,
                break_on_hyphens=False,
                break_long_words=False,
            ),
            soft_wrap=True,
        )


def fill(out: Console, text: str) -> None:
    """Print a text, as wide as the terminal allows."""
    out.print(textwrap.fill(text, max(40, min(out.width, 110)), break_on_hyphens=False), soft_wrap=True)


def emit(values: dict[str, Any]) -> None:
    """Print values as JSON."""
    typer.echo(visible_json(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False, default=str)))
