"""The command ``evenhand export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.cli.faults import say

if TYPE_CHECKING:
    from evenhand.config.file import Config


def export(config: Config) -> None:
    """Write a run into files."""
    from evenhand.runs.formats import check_format, format_of
    from evenhand.runs.formats import export as write
    from evenhand.runs.run import Run

    wanted, files = config.export, [Path(name) for name in config.call.out]
    with config.blamed("export"):
        check_format(wanted.format)
    for path in files:
        # Before anything is written: a list with one wrong name writes nothing.
        if wanted.format is None:
            format_of(path)
    settings = wanted.given()
    loaded = Run.load(Path(config.call.run))
    for path in files:
        write(loaded, path, **settings)
        if not config.call.quiet:
            say(f"Wrote {path}")
