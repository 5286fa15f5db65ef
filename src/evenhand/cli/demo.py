"""The command ``evenhand demo``."""

from __future__ import annotations

from pathlib import Path

from evenhand._format import percent
from evenhand.cli.output import cell, console, echo, progress, show_pairs
from evenhand.config.file import Config
from evenhand.demo import DEMOS
from evenhand.demo import demo as run_demo
from evenhand.reports.report import ReportOptions, report

SAMPLES = 10_000
"""Individuals per estimate of a report: half of the default, so that the demo is quick."""


def demo(config: Config) -> None:
    """Run an audit, end to end, and print it."""
    wanted = config.demo
    directory = None if wanted.no_report else Path(wanted.directory)
    for path in (show_texts if wanted.text else show_people)(config.audit.seed, directory):
        echo(f"Full report: {path}")


def show_people(seed: int, directory: Path | None) -> list[Path]:
    """Audit the models of two data sets; write reports if a directory is given."""
    out, written = console(), []
    for which in DEMOS:
        out.print(which.title, style="bold")
        out.print(which.note)
        with progress(wanted=True) as status:
            done = run_demo(which, seed, progress=status)
        run, baseline = done.run, done.baseline
        out.print(
            f"\nThe model has {percent(done.accuracy)} accuracy on people it was not trained on. In {run.tests:,} "
            f"tests, kosei finds {run.found:,} people who would be treated differently if only their "
            f"{' and '.join(run.space.protected)} were different; random testing (themis) finds {baseline.found:,}.\n"
            "This measures the search, not how common discrimination is. Three of the pairs:\n"
        )
        show_pairs(done.pairs, out)
        out.print()
        if directory is not None:
            with out.status("writing the report"):
                path = report(
                    run,
                    directory / f"{which.name}.html",
                    data=done.data,
                    favourable=which.favourable,
                    y=done.target,
                    samples=SAMPLES,
                    options=ReportOptions(which.title, which.note, others=[baseline]),
                )
            written.append(path)
    return written


def show_texts(seed: int, directory: Path | None) -> list[Path]:
    """Audit and repair a neural net that reads comments; write reports if a directory is given."""
    from rich import box
    from rich.table import Table

    from evenhand.demo.text import NOTE, SEARCH, TITLE, text_demo

    out = console()
    with progress(wanted=True) as status:
        done = text_demo(seed, progress=status)
    before, after = done.before, done.after
    planted = " or ".join(done.data.planted)
    note = NOTE.format(planted=planted)
    out.print(TITLE, style="bold")
    out.print(note)
    out.print(
        f"\nThe net has {percent(before.accuracy)} accuracy on comments it was not trained on. In "
        f"{before.run.tests:,} tests, {SEARCH} finds {before.run.found:,} comments whose decision changes "
        f"if only a religion is replaced by another. In {percent(done.planted)} of them exactly one of the two "
        f"was planted ({planted}):"
    )
    table = Table("religion", "planted", "toxic with it", "toxic with the other", box=box.SIMPLE, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in done.identities:
        table.add_row(cell(row.name), "yes" if row.planted else "", f"{row.toxic:,}", f"{row.other:,}")
    out.print(table)
    out.print("Three of the pairs; swapped terms in [brackets], earlier changes in {braces}:\n")
    show_pairs(before.pairs, out)
    repaired = (
        "Repair: certified training bounds the net's output over all terms, so that the decision stays the same. "
        f"The same search now finds {after.run.found:,} in {after.run.tests:,} tests. For "
        f"{percent(after.proven)} of the comments with a term it is proven that no swap changes the decision; before, "
        f"for {percent(before.proven)}. Accuracy goes from {percent(before.accuracy)} to {percent(after.accuracy)}: "
        "two comments in five have no tone, and guessing those by religion is often right here, because these "
        "comments have the same bias."
    )
    out.print(f"\n{repaired}")
    if directory is None:
        return []
    return [
        report(before.run, directory / "text.html", options=ReportOptions(TITLE, note)),
        report(after.run, directory / "text-repaired.html", options=ReportOptions("The same net, repaired", repaired)),
    ]
