"""What the command says and returns when something goes wrong: a few lines, never a traceback."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from evenhand._format import visible
from evenhand._interrupts import settled
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
