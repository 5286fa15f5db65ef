"""What commands print: messages, tables, pairs, JSON, and progress on the error stream."""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand._format import visible, visible_json
from evenhand.errors import ConfigError, EvenhandError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from evenhand.runs.pair_sentences import Pair

MOST_LINES = 3
SHOWN = 5
"""Attributes of a pair that are shown besides what differs."""


def echo(text: str) -> None:
    """Write to standard output; control characters are escaped."""
    typer.echo(visible(text, keep="\n"))


def echo_error(text: str) -> None:
    """Write to the error stream; control characters are escaped."""
    typer.echo(visible(text, keep="\n"), err=True)


def message(error: EvenhandError) -> str:
    """Write an error and its notes in at most three lines, with settings as flags.

    >>> error = EvenhandError("the model raised ValueError")
    >>> error.add_note("200 tests had been judged")
    >>> print(message(error))
    evenhand: the model raised ValueError
    (200 tests had been judged)
    """
    from evenhand.config.file import error_text

    lines = [line.strip() for line in error_text(error).splitlines() if line.strip()] or [type(error).__name__]
    if notes := "; ".join(getattr(error, "__notes__", [])):
        lines.append(f"({notes})")
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [" ".join(lines[MOST_LINES - 1 :])]
    return "\n".join(["evenhand: " + lines[0], *lines[1:]])


def emit(values: dict[str, Any] | list[Any]) -> None:
    """Print values as JSON."""
    typer.echo(visible_json(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False, default=str)))


def console() -> Console:
    """Return a console on standard output, whether that is a terminal or not."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit with status 1, which has another meaning here.
            raise BrokenPipeError

        def print(self, *objects: Any, **settings: Any) -> None:
            # Rich does not escape most control characters.
            super().print(*(visible(o, keep="\n") if isinstance(o, str) else o for o in objects), **settings)

    return Output(file=sys.stdout, highlight=False, markup=False, emoji=False)


def cell(text: str, style: str = "") -> Text:
    """Make a cell of a table."""
    from rich.text import Text

    return Text(visible(text), style=style)


def show_table(
    head: Sequence[str], rows: Iterable[Sequence[str | Text]], out: Console, right: Sequence[int] = ()
) -> None:
    """Print a table; the columns at the positions ``right`` are aligned to the right. No head: no line of names."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False, show_header=bool(head))
    for at, name in enumerate(head):
        table.add_column(cell(name), justify="right" if at in right else "left")
    for row in rows:
        table.add_row(*(cell(text) if isinstance(text, str) else text for text in row))
    out.print(table)


def show_facts(rows: Sequence[tuple[str, str]], out: Console) -> None:
    """Print names and values as a table."""
    show_table((), ((cell(name, "dim"), value) for name, value in rows), out)


def show_verdict(text: str, bad: bool, out: Console) -> None:
    """Print what was found before any count; bad news in red, where the terminal has colours."""
    fill(text, out, style="bold red" if bad else "bold")


def show_pairs(pairs: Sequence[Pair], out: Console) -> None:
    """Print pairs, numbered: what differs, and a few of the other attributes."""
    if not pairs:
        out.print("No discriminatory pairs were found.")
    for number, pair in enumerate(pairs, 1):
        first, *more = pair.brief(SHOWN)
        fill(first, out, f"{number}. ", "   ")
        for line in more:
            fill(line, out, "   ", "   ", style="dim")


def data_rows(counts: Mapping[str, int], texts: bool) -> list[tuple[str, str]]:
    """Say how many rows of the data were changed or left out; nothing if none was."""
    if texts and counts.get("dropped"):
        return [("rows without a text", f"{counts['dropped']:,}, left out")]
    if counts.get("clipped") or counts.get("dropped"):
        moved = f"{counts['clipped']:,} moved to the nearest bound of the space"
        return [("data rows", f"{moved}, {counts['dropped']:,} left out")]
    return []


def fill(text: str, out: Console, indent: str = "", rest: str = "", style: str = "") -> None:
    """Print a text, wrapped at the width of the terminal; ``rest`` is the indent of all lines but the first."""
    width = max(40, min(out.width, 110))
    lines = textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
    out.print(lines, soft_wrap=True, style=style or None)


@contextmanager
def steps(wanted: bool) -> Iterator[Callable[[str], None] | None]:
    """Show the current step; yield the function to call with it, or None without a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False, markup=False).status("") as spinner:
        yield lambda text: spinner.update(visible(text))


def check_report(path: str | None) -> None:
    """Raise unless the report of a result can be written there."""
    if path is not None:
        check_place(Path(path))


def write_result(value: Any, path: str | None) -> None:
    """Write the report of an estimate, a comparison or a repair, if there is to be one."""
    from evenhand.reports.report import report

    if path is not None:
        report(value, path)


def check_place(path: Path, endings: Sequence[str] = ()) -> None:
    """Raise unless a file can be written there, and has one of some endings.

    >>> check_place(Path("findings.csv"))
    """
    if endings and path.suffix.lower() not in endings:
        raise ConfigError(f"{path}: unknown kind of file", remedy=f"use a name that ends with {' or '.join(endings)}")
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise ConfigError(f"{path} cannot be a file", remedy="name one in a folder that exists")
    if path.exists() and not path.is_file():
        # A device or a pipe.
        return
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror})", remedy="name a file in another folder"
        ) from None
