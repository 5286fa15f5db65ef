"""The command ``evenhand init``: a configuration to start from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli import options
from evenhand.errors import ConfigError

TEMPLATE = """\
# Run with: evenhand audit {name}
# Paths are seen from this file. Options of the command override what is said here.

[model]
# An .onnx or .skops file, a .joblib or .pkl file (needs --trust-pickle), or "module:attribute" for any
# object in a Python module in the current directory: an estimator, or a function that takes a frame.
path = "model.skops"
# threshold = 0.5           # decide for the second class from this score on
# timeout = 60.0            # seconds for one call of the model

[data]
path = {data}
{target}

[space]
# The people who can be asked about. Edit that file: bounds, values, what is protected, constraints
# such as "hours <= 60 or age >= 30", attributes that follow a protected one.
path = {space}

[audit]
strategy = "kosei"          # evenhand strategies lists them
seed = 0                    # same seed, same findings
criterion = "flip"          # the decision changes; or a number: scores more than that apart
# directory = "run"         # keep the run, to resume and replay it
# fail_above = 0            # exit with 1 if there are more findings
# coverage = true           # say how much of what the model distinguishes the tests have come by

[audit.settings]
# samples = 2000            # settings of the strategy

[budget]                    # the first limit to be reached ends the run
tests = 100000
# rows = 1000000
# findings = 1000
# seconds = 60.0

[estimate]                  # evenhand estimate {name}: how common it is, and who is favoured
# population = "data"       # of whom: "uniform" individuals of the space, rows of the "data", or what is "near" them
# favourable = "..."        # the decision that people want
# half_width = 0.01         # stop when the interval is narrow enough

[repair]                    # evenhand repair {name}: ways to make the model fairer, side by side
# methods = ["marginal"]    # by default also "retrain", "augment" and "counterfactual"
# save = "fair.skops"       # where to put the chosen one
"""


def init(
    data: options.DataFile,
    protected: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="An attribute that must not matter, or with --text a lexicon (religion); repeatable."
        ),
    ],
    target: options.Target = None,
    exclude: options.Exclude = None,
    text: Annotated[bool, typer.Option("--text", help="The data are texts: also .txt, a text on each line.")] = False,
    column: options.Column = None,
    output: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("evenhand.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write an editable configuration for your data.

    It says how to audit; a second file beside it says which people can be asked about, as inferred from the data.
    With --text the data are texts, and one file says all.
    """
    beside = output.with_suffix(".space.toml")
    for path in (output,) if text else (output, beside):
        if path.exists() and not force:
            raise ConfigError(f"{path} is there already; --force overwrites it, --output names another")
    if text:
        from evenhand.cli.text_init import written

        if target is not None or exclude:
            raise ConfigError("--target and --exclude are for rows of a table; leave them out, or --text")
        described, content = written(data, column, protected, output)
        _write(output, content)
        typer.echo(f"{described}\n\nWrote {output}. Put your model's path into it, then: evenhand audit {output}")
        return
    if column is not None:
        raise ConfigError("--column names the column of texts; say --text too, or leave it out")
    from evenhand.space.frames import read_frame
    from evenhand.space.tabular import Space
    from evenhand.space.toml import dumps

    space = Space.infer(read_frame(data), protected, target, exclude=exclude or [])
    config = TEMPLATE.format(
        name=output,
        data=quoted(os.path.relpath(data, output.parent)),
        target=f"target = {quoted(target)}"
        if target
        else '# target = "..."           # the column that the model predicts',
        space=quoted(beside.name),
    )
    _write(beside, dumps(space))
    _write(output, config)
    typer.echo(repr(space))
    typer.echo(f"\nWrote {output} and {beside}. Put your model's path into the first, then: evenhand audit {output}")


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another place: --output") from error


def quoted(text: str) -> str:
    """Write a TOML string; JSON's are TOML's, except for one character.

    >>> quoted("a b")
    '"a b"'
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
