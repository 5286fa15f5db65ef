"""What commands print: messages, tables, pairs, JSON, and progress on the error stream."""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evenhand._format import percent, visible, visible_json
from evenhand.errors import ConfigError, EvenhandError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from evenhand.engine.accounting import Status
    from evenhand.runs.pairs import Pair

MOST_LINES = 3
PAUSE = 0.1
SMALLEST_SHARE = 1e-6
"""With a smaller share of the work done, the time left is not shown."""


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


def emit(values: dict[str, Any]) -> None:
    """Print values as JSON."""
    typer.echo(visible_json(json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False, default=str)))


def console() -> Console:
    """Return a console on standard output, whether that is a terminal or not."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit with 1, which means something else here.
            raise BrokenPipeError

        def print(self, *objects: Any, **settings: Any) -> None:
            # Rich lets most control characters through.
            super().print(*(visible(o, keep="\n") if isinstance(o, str) else o for o in objects), **settings)

    return Output(file=sys.stdout, highlight=False, markup=False, emoji=False)


def cell(text: str, style: str = "") -> Text:
    """Make a cell of a table."""
    from rich.text import Text

    return Text(visible(text), style=style)


def show_facts(rows: Sequence[tuple[str, str]], out: Console) -> None:
    """Print names and values as a table."""
    from rich import box
    from rich.table import Table

    table = Table(show_header=False, box=box.SIMPLE, pad_edge=False)
    for name, value in rows:
        table.add_row(cell(name, "dim"), cell(value))
    out.print(table)


def show_pairs(pairs: Sequence[Pair], out: Console) -> None:
    """Print pairs, numbered."""
    if not pairs:
        out.print("No discriminatory pairs were found.")
    for number, pair in enumerate(pairs, 1):
        fill(pair.sentence, out, f"{number}. ", "   ")


def fill(text: str, out: Console, indent: str = "", rest: str = "") -> None:
    """Print a text, wrapped at the width of the terminal; ``rest`` is the indent of all lines but the first."""
    width = max(40, min(out.width, 110))
    lines = textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
    out.print(lines, soft_wrap=True)


def capital(text: str) -> str:
    """Begin a text with a capital letter.

    >>> capital("no decision changed")
    'No decision changed'
    """
    return text[:1].upper() + text[1:]


@contextmanager
def progress(wanted: bool, tests: int | None = None) -> Iterator[Callable[[Status], None] | None]:
    """Show how far a run is; yield what ``audit`` calls, or None if the error stream is not a terminal.

    ``tests`` is how many tests the space has, if they can end the run.
    """
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    text = TextColumn("{task.fields[text]}", markup=False)
    with Progress(BarColumn(bar_width=24), text, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, text="querying the model")
        shown = 0.0

        def show(status: Status) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= PAUSE:
                shown = now
                bar.update(task, completed=done(status, tests), text=line(status, tests))

        yield show


@contextmanager
def steps(wanted: bool) -> Iterator[Callable[[str], None] | None]:
    """Show the current step; yield what to call with it, or None if the error stream is not a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False, markup=False).status("") as spinner:
        yield lambda text: spinner.update(visible(text))


def done(status: Status, tests: int | None = None) -> float:
    """Return the share of the nearest limit that is used up.

    >>> from evenhand.budget import Budget
    >>> from evenhand.engine.accounting import Status
    >>> done(Status(tests=50, findings=5, rows=100, seconds=1.0, budget=Budget(tests=100, findings=50)))
    0.5
    """
    limits = vars(status.budget)
    shares = [getattr(status, name) / limit for name, limit in limits.items() if limit is not None]
    if tests is not None:
        shares.append(status.tests / tests)
    return min(1.0, max(shares, default=0.0))


def line(status: Status, tests: int | None = None) -> str:
    """Describe how far a run is.

    >>> from evenhand.budget import Budget
    >>> from evenhand.engine.accounting import Status
    >>> line(Status(tests=50, findings=5, rows=100, seconds=2.0, budget=Budget(tests=100)))
    '50 tests, 25/s, 5 found (10% of tests), 2 s left'
    """
    seconds = max(status.seconds, 1e-9)
    share = done(status, tests)
    left = f", {_duration(seconds * (1 - share) / share)} left" if share > SMALLEST_SHARE else ""
    rate = status.findings / status.tests if status.tests else 0.0
    return (
        f"{status.tests:,} tests, {status.tests / seconds:,.0f}/s, "
        f"{status.findings:,} found ({percent(rate)} of tests){left}"
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"


def check_place(path: Path, endings: Sequence[str] = ()) -> None:
    """Raise unless a file can be written there, and has one of some endings.

    >>> check_place(Path("findings.csv"))
    """
    if endings and path.suffix.lower() not in endings:
        raise ConfigError(f"{path}: the name must end with one of {', '.join(endings)}")
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
