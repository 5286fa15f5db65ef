"""A line of progress on the error stream while a search runs."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand._format import percent, visible
from evenhand.errors import ConfigError

if TYPE_CHECKING:
    from evenhand.engine.accounting import Status


PAUSE = 0.1
FORESEEN = 1e-6
"""With a smaller share of the work done, the time that is left says nothing."""


@contextmanager
def progress(wanted: bool, most: int | None = None) -> Iterator[Callable[[Status], None] | None]:
    """Show how far a run is; give what ``audit`` calls, or None where nobody would see it.

    ``most`` is how many tests the space has, where that can end the run.
    """
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    text = TextColumn("{task.fields[text]}", markup=False)
    with Progress(BarColumn(bar_width=24), text, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0, text="asking the model")
        shown = 0.0

        def show(status: Status) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown >= PAUSE:
                shown = now
                bar.update(task, completed=done(status, most), text=line(status, most))

        yield show


@contextmanager
def steps(wanted: bool) -> Iterator[Callable[[str], None] | None]:
    """Show what is being done, step by step; give what to call, or None where nobody would see it."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False, markup=False).status("") as spinner:
        yield lambda text: spinner.update(visible(text))


def done(status: Status, most: int | None = None) -> float:
    """Give the share of the nearest limit that is spent.

    >>> from evenhand.budget import Budget
    >>> from evenhand.engine.accounting import Status
    >>> done(Status(tests=50, findings=5, rows=100, seconds=1.0, budget=Budget(tests=100, findings=50)))
    0.5
    """
    limits = vars(status.budget)
    shares = [getattr(status, name) / limit for name, limit in limits.items() if limit is not None]
    if most is not None:
        shares.append(status.tests / most)
    return min(1.0, max(shares, default=0.0))


def line(status: Status, most: int | None = None) -> str:
    """Say how far a run is.

    >>> from evenhand.budget import Budget
    >>> from evenhand.engine.accounting import Status
    >>> line(Status(tests=50, findings=5, rows=100, seconds=2.0, budget=Budget(tests=100)))
    '50 tests, 25/s, 5 found (10% of tests), 2 s left'
    """
    seconds = max(status.seconds, 1e-9)
    share = done(status, most)
    left = f", {_span(seconds * (1 - share) / share)} left" if share > FORESEEN else ""
    rate = status.findings / status.tests if status.tests else 0.0
    return (
        f"{status.tests:,} tests, {status.tests / seconds:,.0f}/s, "
        f"{status.findings:,} found ({percent(rate)} of tests){left}"
    )


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"


def check_place(path: Path) -> None:
    """Raise unless a file can be written there.

    >>> check_place(Path("findings.csv"))
    """
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise ConfigError(f"{path} cannot be a file there; name one in a folder that exists")
    if path.exists() and not path.is_file():
        # A device or a pipe, which is written to as it is.
        return
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written there ({error.strerror}); choose another place") from None
