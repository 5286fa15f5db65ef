"""The command ``evenhand export``."""

from __future__ import annotations

from evenhand.cli import options
from evenhand.cli.faults import say


def export(
    run: options.RunDirectory,
    out: options.Outputs,
    format: options.Format = None,
    most: options.Most = None,
    raw: options.Raw = False,
    artifact: options.Artifact = None,
    config: options.ConfigOption = None,
    quiet: options.Quiet = False,
) -> None:
    """Write a kept run for other programs: JSON, CSV, Parquet, JUnit XML, SARIF, Markdown.

    The ending of each file says in which format.
    """
    given = locals()
    from evenhand.cli.config import read
    from evenhand.cli.places import said
    from evenhand.exporting import export as write
    from evenhand.exporting.formats import check_format, format_of
    from evenhand.run import Run

    chosen = read(config, said("export", given))
    wanted = chosen.export
    with chosen.blamed("export"):
        check_format(wanted.format)
    for path in out:
        # Before anything is written: a list with one wrong name writes nothing.
        if wanted.format is None:
            format_of(path)
    settings = wanted.model_dump(exclude_none=True)
    loaded = Run.load(run)
    for path in out:
        write(loaded, path, **settings)
        if not quiet:
            say(f"Wrote {path}")
