"""The command ``evenhand demo``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand._format import percent
from evenhand.cli.faults import say

if TYPE_CHECKING:
    from evenhand.config.file import Config

SAMPLES = 10_000
"""Of each report's estimates: half of what a report asks by itself, so that the demo is quick."""


def demo(config: Config) -> None:
    """Show an audit, end to end."""
    seed, wanted = config.audit.seed, config.demo
    for path in (_texts if wanted.text else _people)(seed, Path(wanted.directory), wanted.no_page):
        say(f"The whole report: {path}")


def _texts(seed: int, directory: Path, no_page: bool) -> Sequence[Path]:
    from evenhand.cli.text_demo import show_texts

    return show_texts(seed, None if no_page else directory)


def _people(seed: int, directory: Path, no_page: bool) -> Sequence[Path]:
    from evenhand.cli import summary
    from evenhand.cli.progress import progress
    from evenhand.demo import DEMOS
    from evenhand.demo import demo as show
    from evenhand.reports.making import report

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
                        title=which.title,
                        note=which.note,
                        samples=SAMPLES,
                        others=[baseline],
                    )
                )
    return written
