"""The command line, made from the schema. A command is built, and its code imported, when it is called."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from evenhand._format import visible
from evenhand._interrupts import settled
from evenhand._version import __version__
from evenhand.config.file import worded
from evenhand.config.schema import COMMANDS, LAST, Command, Setting
from evenhand.errors import EvenhandError

FOUND, WRONG, UNDECIDED, INTERRUPTED, PIPE = 1, 2, 3, 130, 141
"""Exit states besides 0: the third is too few tests to say; the last what a shell shows where the reader has gone."""
MOST_LINES = 3


class Guarded(TyperGroup):
    """Commands whose errors become messages and exit states."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Read the arguments."""
        try:
            return super().make_context(*arguments, **settings)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt) from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except EvenhandError as error:
            tell(message(error, ctx.invoked_subcommand or ""))
            raise typer.Exit(WRONG) from None
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt) from None
        except BrokenPipeError:
            _mute()
            raise typer.Exit(PIPE) from None
        except OSError as error:
            tell(f"evenhand: {error.filename or 'the output'}: {error.strerror or error}")
            raise typer.Exit(WRONG) from None
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except Exception as error:
            if os.environ.get("EVENHAND_TRACEBACK"):
                raise
            first = (str(error).splitlines() or [""])[0][:300]
            tell(
                f"evenhand: this should not have happened: {type(error).__name__}: {first}\n"
                "please report it with what EVENHAND_TRACEBACK=1 in the environment shows"
            )
            raise typer.Exit(WRONG) from None


def _interrupted(interrupt: KeyboardInterrupt) -> typer.Exit:
    settled()
    tell("evenhand: interrupted" if type(interrupt) is KeyboardInterrupt else "evenhand: told to end")
    return typer.Exit(INTERRUPTED)


def message(error: EvenhandError, command: str = "") -> str:
    """Write an error and its notes in at most three lines, as flags.

    >>> error = EvenhandError("the model raised ValueError")
    >>> error.add_note("200 tests had been judged")
    >>> print(message(error))
    evenhand: the model raised ValueError
    (200 tests had been judged)
    """
    from evenhand.config.file import error_text, setting_of, spell

    setting = setting_of(error.parameter, command)
    told = error_text(error, name=None if setting is None else spell(setting))
    lines = [line.strip() for line in told.splitlines() if line.strip()] or [type(error).__name__]
    notes = "; ".join(getattr(error, "__notes__", []))
    if notes:
        lines.append(f"({notes})")
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [" ".join(lines[MOST_LINES - 1 :])]
    return "\n".join(["evenhand: " + lines[0], *lines[1:]])


def say(text: str) -> None:
    """Write to standard output, without anything that a terminal would obey."""
    typer.echo(visible(text, keep="\n"))


def tell(text: str) -> None:
    """Write to the error stream, without anything that a terminal would obey."""
    typer.echo(visible(text, keep="\n"), err=True)


def flushed(status: int) -> int:
    """Write out what is left, and give the exit state; a full disk or a reader that has gone changes it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()
        return PIPE
    except OSError as error:
        _mute()
        tell(f"evenhand: the output cannot be written: {error.strerror}")
        return WRONG
    return status


def _mute() -> None:
    """Let nothing more be written to standard output; Python would complain about it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


MODULES = {
    "strategies": "app",
    "datasets": "app",
    **dict.fromkeys(("report", "export", "bundle", "compare", "replay"), "runs"),
}
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


def strategies() -> None:
    """List the searches: what each does, its paper, its settings."""
    import dataclasses

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
    _show(("name", "what it does", "settings (--set NAME=VALUE)"), rows)


def datasets() -> None:
    """List the data sets that come with the package."""
    from evenhand.datasets import load, names

    rows = []
    for name in names("tables"):
        data = load(name)
        size = f"{len(data.frame):,} rows, {len(data.features)} columns"
        rows.append((name, size, f"{data.target} (wanted: {data.favourable})", ", ".join(data.protected)))
    texts = load("comments")
    rows.append((texts.name, f"{len(texts):,} texts", "toxic (wanted: not)", texts.lexicon))
    _show(("name", "size", "target", "protected"), rows)


def described(kind: type[Any]) -> tuple[str, str]:
    """Give what a strategy does and its paper, from its docstring.

    >>> from evenhand import Themis
    >>> described(Themis)[0]
    'Judge uniform random individuals until the budget or the space ends.'
    """
    paragraphs = (inspect.getdoc(kind) or "").split("\n\n")
    text = " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""
    # A citation ends with its year: "..., ASE 2018."
    end = next((i + 1 for i in range(4, len(text)) if text[i] == "." and text[i - 4 : i].isdigit()), 0)
    return " ".join(paragraphs[0].split()), text[:end]


def _show(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from evenhand.cli.audit import console

    table = Table(*header, box=box.SIMPLE, pad_edge=False, show_lines=False)
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)
