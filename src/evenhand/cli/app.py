"""The commands under one name. Each imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from evenhand._version import __version__
from evenhand.cli.audit import audit
from evenhand.cli.bundle import bundle
from evenhand.cli.compare import compare
from evenhand.cli.demo import demo
from evenhand.cli.estimate import estimate
from evenhand.cli.export import export
from evenhand.cli.faults import Group
from evenhand.cli.init import init
from evenhand.cli.listing import datasets, strategies
from evenhand.cli.repair import repair
from evenhand.cli.replay import replay
from evenhand.cli.report import report

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, init, audit, estimate, repair, compare, report, export, bundle, replay, strategies, datasets):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback()
def evenhand(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Find people whom a model would treat differently if only a protected attribute of theirs were different.

    Begin with "evenhand demo", or with "evenhand init" on your own data.
    """
