"""The command line, made from the schema. A command is built, and its code imported, when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from evenhand._version import __version__
from evenhand.cli.faults import Guarded
from evenhand.config.file import worded
from evenhand.config.schema import COMMANDS, LAST, Command, Setting

MODULES = {"strategies": "listing", "datasets": "listing"}
"""Modules of commands that are not named after them; each has a function with the command's name."""
SHARED: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class Panels(TyperCommand):
    """A command whose help has its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the headings in the order of the options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if (record := option.get_help_record(ctx)) is not None:
                own = "Arguments" if option.param_type_name == "argument" else LAST
                panels.setdefault(getattr(option, "rich_help_panel", None) or own, []).append(record)
        for heading, records in panels.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class Group(Guarded):
    """The commands, by what they are for; each is built when it is looked up."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": {}})
        self.commands = _Built()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write a line for each command."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for one in COMMANDS.values():
            panels.setdefault(one.panel, []).append((one.name, one.summary))
        for heading, lines in panels.items():
            with formatter.section(heading):
                formatter.write_dl(lines, col_max=12)


class _Built(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return built(COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def built(command: Command) -> Any:
    """Build a command from its settings.

    >>> [option.opts for option in built(COMMANDS["export"]).params][2:4]
    [['--format'], ['--most']]
    """
    single = typer.Typer(**SHARED)
    text = "\n\n".join((command.summary + ".", *command.details))
    single.command(command.name, help=text, cls=Panels)(_function(command))
    return typer.main.get_command(single)


def _function(command: Command) -> Callable[..., None]:
    """Make what typer reads a command from: a function with a parameter for each setting."""
    panels = {one.place: panel for panel, settings in command.panels().items() for one in settings}
    parameters = [_parameter(command, one, panels.get(one.place, "")) for one in command.settings]

    def run(**values: Any) -> None:
        from evenhand.config.file import read

        flags: dict[str, dict[str, Any]] = {}
        for one in command.settings:
            # Whatever is not said, a file or the default says.
            if (value := values[_name(one)]) not in (None, []):
                flags.setdefault(one.table, {})[one.key] = value
        path = flags.get("call", {}).get("config")
        config = read(None if path is None else Path(path), flags, mixed=command.name == "init")
        module = importlib.import_module(f"evenhand.cli.{MODULES.get(command.name, command.name)}")
        getattr(module, command.name)(*([config] if parameters else []))

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _name(setting: Setting) -> str:
    return f"{setting.table}__{setting.key}"


def _parameter(command: Command, setting: Setting, panel: str) -> Parameter:
    # What a text means is up to the schema, so that flags and files are read by the same rules.
    kind: Any = bool if setting.switch else list[str] if setting.many else str
    told: dict[str, Any] = {"help": worded(command.help(setting), "flag") + ".", "show_default": False}
    if command.takes(setting):
        info = typer.Argument(metavar=command.metavar(setting), **told)
    else:
        metavar = None if setting.switch else setting.metavar
        info = typer.Option(*setting.flags.split(","), metavar=metavar, rich_help_panel=panel, **told)
    needed = command.name in setting.required.split()
    return Parameter(
        _name(setting),
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if needed else None,
        annotation=Annotated[kind if needed else kind | None, info],
    )


app = typer.Typer(cls=Group, no_args_is_help=True, **SHARED)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {__version__}")
        raise typer.Exit


@app.callback()
def evenhand(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Find people whose treatment by a model depends on a protected attribute.

    Begin with "evenhand demo", or with "evenhand init" on your own data.
    """
