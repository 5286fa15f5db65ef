"""The command ``evenhand init``: a configuration to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from evenhand._write import SHARED, reason, replacing
from evenhand.cli import options
from evenhand.cli.faults import say
from evenhand.errors import ConfigError
from evenhand.visible import visible, visible_toml

ABOUT = """\
# An .onnx or .skops file, a .joblib or .pkl file (needs --trust-pickle), or "module:attribute" for any
# object in a Python module in the current directory: an estimator, or a function that takes a frame."""


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
    missing: options.Missing = None,
    text: Annotated[bool, typer.Option("--text", help="The data are texts: also .txt, a text on each line.")] = False,
    column: options.Column = None,
    encoding: options.Encoding = None,
    model: options.Model = None,
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

        if target is not None or exclude or missing is not None:
            raise ConfigError("--target, --exclude and --missing are for rows of a table; leave them out, or --text")
        described, content = written(data, column, encoding, protected, output, model)
        files = {output: content}
    else:
        if column is not None or encoding is not None:
            raise ConfigError("--column and --encoding are for texts; say --text too, or leave them out")
        described, content, space = _written(data, protected, target, exclude or [], missing, output, model)
        files = {beside: space, output: content}
    for path, content in files.items():
        _write(path, content)
    edit = "Now" if model else f"Put your model's path into {'it' if text else 'the first'}, then"
    wrote = " and ".join(map(str, reversed(files)))
    if not text and target is None:
        described += (
            "\n\nEvery column is taken for something that the model receives. "
            "If one of them is what the model predicts, name it: --target NAME."
        )
    say(f"{described}\n\nWrote {wrote}. {edit}: evenhand audit {output}")


def _written(
    data: Path,
    protected: list[str],
    target: str | None,
    exclude: list[str],
    missing: Any,
    output: Path,
    model: str | None,
) -> tuple[str, str, str]:
    """Say what is in the rows, and give the configuration and the space."""
    from evenhand.cli.template import AUDIT, COVERAGE, HEAD, KEPT, MEASURED, ROWS, listed
    from evenhand.space.frames import read_frame
    from evenhand.space.tabular import Space
    from evenhand.space.toml import dumps

    space = Space.infer(read_frame(data), protected, target, exclude=exclude, missing=missing)
    config = (HEAD + ROWS + AUDIT + MEASURED + KEPT).format(
        name=visible(str(output)),
        about=ABOUT,
        model=visible_toml(seen_from(model or "model.skops", output, bool(model))),
        data=visible_toml(os.path.relpath(data, output.parent)),
        target=f"target = {visible_toml(target)}"
        if target
        else '# target = "..."           # the column that the model predicts',
        space=visible_toml(output.with_suffix(".space.toml").name),
        protected=listed(protected),
        strategy="kosei",
        pad=" " * 10,
        coverage=COVERAGE,
        setting="samples = 2000            # settings of the strategy",
    )
    return repr(space), config, dumps(space)


def seen_from(model: str, output: Path, given: bool) -> str:
    """Give a model's path as the file sees it; a module stays what it is.

    >>> seen_from("models/m.onnx", Path("conf/e.toml"), True), seen_from("loans:decide", Path("conf/e.toml"), True)
    ('../models/m.onnx', 'loans:decide')
    """
    from evenhand.cli.config import is_file

    return os.path.relpath(model, output.parent) if given and is_file(model) else model


def _write(path: Path, content: str) -> None:
    try:
        with replacing(path, SHARED) as file:
            file.write(content.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}; choose another place: --output") from error
