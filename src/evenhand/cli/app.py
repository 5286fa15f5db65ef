"""The command line, built from the schema. Each command is built, and its code imported, only when it is called."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from evenhand import __version__
from evenhand._interrupts import mark_handled
from evenhand.cli.output import console, echo_error, emit, message, show_table
from evenhand.config.schema import COMMANDS, Command, Setting
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.config.file import Config

FOUND, WRONG, UNDECIDED, INTERRUPTED, PIPE = 1, 2, 3, 130, 141
"""Exit statuses other than 0. UNDECIDED: too few samples. PIPE: the reader of a pipe is gone, as shells report it."""
MODULES = {
    "strategies": "app",
    "datasets": "app",
    "check-proof": "prove",
    **dict.fromkeys(("report", "export", "bundle", "compare", "replay", "read"), "runs"),
}
"""Modules of commands that have a different name; each has a function with the command's name, _ for -."""
SHARED: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class Group(TyperGroup):
    """The commands by heading; each is built when it is looked up. Errors become messages and exit statuses."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": {}})
        self.commands = _Commands()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write one line per command."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for one in COMMANDS.values():
            panels.setdefault(one.panel, []).append((one.name, one.summary))
        _write_panels(formatter, panels, col_max=12)

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Parse the arguments."""
        try:
            return super().make_context(*arguments, **settings)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt) from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except EvenhandError as error:
            echo_error(message(error))
            raise typer.Exit(WRONG) from None
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt) from None
        except BrokenPipeError:
            _mute()
            raise typer.Exit(PIPE) from None
        except OSError as error:
            echo_error(f"evenhand: {error.filename or 'the output'}: {error.strerror or error}")
            raise typer.Exit(WRONG) from None
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except Exception as error:
            if os.environ.get("EVENHAND_TRACEBACK"):
                raise
            first = (str(error).splitlines() or [""])[0][:300]
            echo_error(
                f"evenhand: unexpected error: {type(error).__name__}: {first}\n"
                "please report it with the traceback, which EVENHAND_TRACEBACK=1 in the environment shows"
            )
            raise typer.Exit(WRONG) from None


def _interrupted(interrupt: KeyboardInterrupt) -> typer.Exit:
    mark_handled()
    echo_error(f"evenhand: {'interrupted' if type(interrupt) is KeyboardInterrupt else 'terminated'}")
    return typer.Exit(INTERRUPTED)


def flush(status: int) -> int:
    """Flush standard output and return the exit status, which a full disk or a closed pipe changes."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()
        return PIPE
    except OSError as error:
        _mute()
        echo_error(f"evenhand: the output cannot be written: {error.strerror}")
        return WRONG
    return status


def _mute() -> None:
    """Discard what is left for standard output; Python would report it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class _Commands(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return build(COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Panels(TyperCommand):
    """A command whose help has its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the headings in the order of the options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if (record := option.get_help_record(ctx)) is not None:
                default = "Arguments" if option.param_type_name == "argument" else "Output"
                panels.setdefault(getattr(option, "rich_help_panel", None) or default, []).append(record)
        _write_panels(formatter, panels)


def _write_panels(formatter: Any, panels: Mapping[str, list[tuple[str, str]]], **settings: Any) -> None:
    for heading, records in panels.items():
        with formatter.section(heading):
            formatter.write_dl(records, **settings)


def build(command: Command) -> Any:
    """Build a command from its settings.

    >>> [option.opts for option in build(COMMANDS["export"]).params][2:4]
    [['--format'], ['--max-findings']]
    """
    single = typer.Typer(**SHARED)
    text = "\n\n".join((command.summary + ".", *command.details))
    single.command(command.name, help=text, cls=Panels)(_function(command))
    return typer.main.get_command(single)


def _function(command: Command) -> Callable[..., None]:
    """Make what typer builds a command from: a function with a parameter for each setting."""
    panels = {one.place: panel for panel, settings in command.panels().items() for one in settings}
    parameters = [_parameter(command, one, panels.get(one.place, "")) for one in command.settings]

    def run(**values: Any) -> None:
        from evenhand.config.file import read

        flags: dict[str, dict[str, Any]] = {}
        for one in command.settings:
            if (value := values[_name(one)]) not in (None, []):
                flags.setdefault(one.table, {})[one.key] = value
        path = flags.get("call", {}).get("config")
        config = read(None if path is None else Path(path), flags, command.name)
        module = importlib.import_module(f"evenhand.cli.{MODULES.get(command.name, command.name)}")
        with config.named():
            getattr(module, command.name.replace("-", "_"))(config)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _name(setting: Setting) -> str:
    return f"{setting.table}__{setting.key}"


def _parameter(command: Command, setting: Setting, panel: str) -> Parameter:
    from evenhand.config.file import worded

    # The schema converts texts, so that flags and files follow the same rules.
    kind: Any = bool if setting.switch else list[str] if setting.many else str
    shared: dict[str, Any] = {"help": worded(command.help(setting), "flag") + ".", "show_default": False}
    if command.takes(setting):
        info = typer.Argument(metavar=command.metavar(setting), **shared)
    else:
        metavar = None if setting.switch else setting.metavar
        info = typer.Option(*setting.flags.split(","), metavar=metavar, rich_help_panel=panel, **shared)
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

    Start with "evenhand demo", or with "evenhand init" for your own data.
    """


def strategies(config: Config) -> None:
    """List the searches, with their papers and settings."""
    from evenhand.errors import StrategyError
    from evenhand.strategies import kind_of, names

    rows = []
    for name in names():
        try:
            kind = kind_of(name)
        except StrategyError as error:
            rows.append((name, str(error), ""))
            continue
        settings = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(kind))
        what, paper = described(kind)
        rows.append((name, f"{what}\n{paper}" if paper else what, settings))
    _show({"name": "name", "description": "what it does", "settings": "settings (--set NAME=VALUE)"}, rows, config)


def described(kind: type[Any]) -> tuple[str, str]:
    """Return the summary and the paper of a search, from its docstring.

    >>> from evenhand import Themis
    >>> described(Themis)[0]
    'Judge uniform random individuals until the budget or the space ends.'
    """
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    text = " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""
    # A citation ends with the year: "..., ASE 2018."
    end = next((i + 1 for i in range(4, len(text)) if text[i] == "." and text[i - 4 : i].isdigit()), 0)
    return " ".join(paragraphs[0].split()), text[:end]


def datasets(config: Config) -> None:
    """List the data sets of the package."""
    from evenhand.datasets import load, names

    rows = []
    for name in names("tables"):
        data = load(name)
        size = f"{len(data.frame):,} rows, {len(data.features)} columns"
        rows.append((name, size, f"{data.target} (favourable: {data.favourable})", ", ".join(data.protected)))
    texts = load("comments")
    rows.append((texts.name, f"{len(texts):,} texts", "toxic (favourable: not toxic)", texts.lexicon))
    _show({name: name for name in ("name", "size", "target", "protected")}, rows, config)


def _show(header: Mapping[str, str], rows: Sequence[tuple[str, ...]], config: Config) -> None:
    """Print a table or, as JSON, a list of its rows."""
    from rich.text import Text

    if config.call.json:
        emit([dict(zip(header, row, strict=True)) for row in rows])
        return
    show_table(tuple(header.values()), [tuple(map(Text, row)) for row in rows], console())
