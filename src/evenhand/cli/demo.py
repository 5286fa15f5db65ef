"""The command ``evenhand demo``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand._format import percent
from evenhand.cli.app import say

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.config.file import Config
    from evenhand.demo.text import TextAudited


SAMPLES = 10_000
"""Of each report's estimates: half of what a report asks by itself, so that the demo is quick."""


def demo(config: Config) -> None:
    """Show an audit, end to end."""
    seed, wanted = config.audit.seed, config.demo
    for path in (_texts if wanted.text else _people)(seed, Path(wanted.directory), wanted.no_page):
        say(f"The whole report: {path}")


def _texts(seed: int, directory: Path, no_page: bool) -> Sequence[Path]:
    return show_texts(seed, None if no_page else directory)


def _people(seed: int, directory: Path, no_page: bool) -> Sequence[Path]:
    from evenhand.cli import audit as summary
    from evenhand.cli.output import progress
    from evenhand.demo import DEMOS
    from evenhand.demo import demo as show
    from evenhand.reports.report import ReportOptions, report

    out = summary.console()
    written = []
    for which in DEMOS:
        out.print(which.title, style="bold")
        out.print(which.note)
        with progress(wanted=True) as status:
            done = show(which, seed, progress=status)
        run, baseline = done.run, done.baseline
        out.print(
            f"\nThe model is right on {percent(done.accuracy)} of people it was not trained on. In {run.tests:,} "
            f"tests, kosei finds {run.found:,} people who would be treated differently if only their "
            f"{' and '.join(run.space.protected)} were different; random testing (themis) finds {baseline.found:,}.\n"
            "That is how well a search aims, not how common discrimination is. Three of the pairs:\n"
        )
        summary.show_pairs(done.pairs, out)
        out.print()
        if not no_page:
            with out.status("writing the report"):
                written.append(
                    report(
                        run,
                        directory / f"{which.name}.html",
                        data=done.data,
                        favourable=which.favourable,
                        y=done.target,
                        samples=SAMPLES,
                        options=ReportOptions(which.title, which.note, others=[baseline]),
                    )
                )
    return written


def show_texts(seed: int, directory: Path | None) -> list[Path]:
    """Do the demo of texts, print it, and write its reports where a directory is given."""
    from evenhand.cli import audit as summary
    from evenhand.cli.output import progress
    from evenhand.demo.text import NOTE, TITLE, search_of_texts, text_demo
    from evenhand.reports.report import ReportOptions, report

    out = summary.console()
    with progress(wanted=True) as status:
        done = text_demo(seed, progress=status)
    before, after = done.before, done.after
    planted = " or ".join(done.data.planted)
    out.print(TITLE, style="bold")
    out.print(NOTE.format(planted=planted))
    out.print(
        f"\nThe net is right on {percent(before.accuracy)} of comments that it was not trained on. In "
        f"{before.run.tests:,} tests, {search_of_texts()} finds {before.run.found:,} comments whose decision changes "
        f"if only a religion is swapped for another. In {percent(done.planted)} of them exactly one of the two "
        f"was planted ({planted}):"
    )
    _show_blame(done, out)
    out.print("Three of the pairs; what was swapped in [brackets], what was changed before in {braces}:\n")
    summary.show_pairs(before.pairs, out)
    repaired = (
        "The repair: the net is trained on so that bounds on what it says, whatever term stands there, leave the "
        f"decision as it is. The same search now finds {after.run.found:,} in {after.run.tests:,} tests. It is proven "
        f"of {percent(after.proven)} of the comments with a term that no swap changes the decision; before, of "
        f"{percent(before.proven)}. Accuracy goes from {percent(before.accuracy)} to {percent(after.accuracy)}: two "
        "comments in five have no tone, and who guesses those by religion is often right here, for the bias is in "
        "these comments too."
    )
    out.print(f"\n{repaired}")
    if directory is None:
        return []
    note = NOTE.format(planted=planted)
    return [
        report(before.run, directory / "text.html", options=ReportOptions(TITLE, note)),
        report(after.run, directory / "text-repaired.html", options=ReportOptions("The same net, repaired", repaired)),
    ]


def _show_blame(done: TextAudited, out: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("religion", "planted", "toxic with it", "toxic with the other", box=box.SIMPLE, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in done.blamed:
        table.add_row(Text(row.identity), "yes" if row.planted else "", f"{row.toxic:,}", f"{row.other:,}")
    out.print(table)
