"""What the command prints about a run, for people and for machines."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from evenhand._format import count, percent, seconds, visible, visible_json
from evenhand.words import confirmation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from evenhand.estimates.coverage import Coverage
    from evenhand.runs.run import Run
    from evenhand.text_words import TextPair
    from evenhand.words import Pair


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
        rows.append(("no test", f"{counts['untestable']:,} individuals with fewer than two legal counterparts"))
    if space.noun == "text" and counts.get("dropped"):
        rows.append(("rows without a text", f"{counts['dropped']:,}, left out"))
    elif counts.get("clipped") or counts.get("dropped"):
        text = f"{counts['clipped']:,} moved to the nearest bound of the space, {counts['dropped']:,} left out"
        rows.append(("data rows", text))
    if space.sampled and space.supports("attributes"):
        text = f"{space.limit:,} of {count(space.combinations)} for each individual, sampled: some pairs may be missed"
        rows.append(("counterparts", text))
    rows += [(words, f"{n:,}") for words, n in run.remarks]
    if run.directory is not None:
        rows.append(("kept in", str(run.directory)))
    return rows


def show(run: Run, pairs: Sequence[Pair | TextPair], covered: Coverage | None = None) -> None:
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


def show_pairs(pairs: Sequence[Pair | TextPair], out: Console) -> None:
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
