"""The command ``evenhand init``: a configuration to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand._format import visible
from evenhand._write import SHARED, reason, replacing
from evenhand.cli.app import say
from evenhand.errors import ConfigError

if TYPE_CHECKING:
    from evenhand.config.file import Config


def init(config: Config) -> None:
    """Look at the data, and write a configuration for it."""
    from evenhand.config.file import is_file
    from evenhand.config.pages import template

    texts, output, model = config.init.text, Path(config.init.output), config.model.path
    beside = output.with_suffix(".space.toml")
    for path in (output,) if texts else (output, beside):
        if path.exists() and not config.init.force:
            raise ConfigError(f"{path} already exists; --force overwrites it, --output names another file")
    described, tables, files = _of_texts(config) if texts else _of_rows(config, beside)
    if model is None:
        model = "classifier:classify" if texts else "model.skops"
    elif is_file(model):
        model = _seen_from(model, output)
    tables |= {"model": {"path": model}, "budget": {"tests": 100000}}
    files[output] = template(visible(str(output)), tables, texts)
    for path, content in files.items():
        _write(path, content)
    edit = "Now" if config.model.path else f"Put your model's path into {'it' if texts else 'the first'}, then"
    wrote = " and ".join(map(str, reversed(files)))
    say(f"{described}\n\nWrote {wrote}. {edit}: evenhand audit {output}")


def _of_rows(config: Config, beside: Path) -> tuple[str, dict[str, dict[str, Any]], dict[Path, str]]:
    """Infer the space; return it in words, what the configuration says, and the file of the space."""
    from evenhand.spaces.frames import read_frame
    from evenhand.spaces.tabular import Space
    from evenhand.spaces.toml import dumps

    if config.text is not None:
        raise ConfigError("--column and --encoding are for texts; add --text, or leave them out")
    wanted, data = config.space, str(config.data.path)
    space = Space.infer(
        read_frame(data), wanted.protected, config.data.target, exclude=wanted.exclude, missing=wanted.missing
    )
    described = repr(space)
    if config.data.target is None:
        described += (
            "\n\nEvery column is taken for something that the model receives. "
            "If one of them is what the model predicts, name it: --target NAME."
        )
    tables: dict[str, dict[str, Any]] = {
        "data": {"path": _seen_from(data, beside), "target": config.data.target},
        "space": {"path": beside.name},
        "audit": {"strategy": "kosei", "seed": 0, "criterion": "flip"},
    }
    return described, tables, {beside: dumps(space)}


def _of_texts(config: Config) -> tuple[str, dict[str, dict[str, Any]], dict[Path, str]]:
    """Look for terms in the texts; return what there is, and what the configuration says."""
    from evenhand.config.schema import TextTable
    from evenhand.spaces.text.readers import read_texts
    from evenhand.spaces.text.space import TextSpace

    space, data, text = config.space, str(config.data.path), config.text or TextTable()
    if config.data.target is not None or space.exclude or space.missing is not None:
        raise ConfigError("--target, --exclude and --missing are for rows of a table; leave them out, or --text")
    terms = TextSpace(list(space.protected))
    ground = terms.begin(read_texts(data, text.column, text.encoding))
    output = Path(config.init.output)
    own: dict[str, Any] = {
        "path": _seen_from(data, output),
        "protected": [_seen_from(one, output) if one.endswith(".toml") else one for one in space.protected],
        "column": text.column,
        "encoding": config.by_flag.get("text", {}).get("encoding"),
        "k": 10,
        "occurrences": "each",
        "ambiguous": "context",
    }
    described = f"{terms}\n{len(ground.seeds):,} texts have a term, {ground.without:,} have none"
    return described, {"text": own, "audit": {"strategy": "text-random", "seed": 0, "criterion": "flip"}}, {}


def _seen_from(path: str, file: Path) -> str:
    """Give a path as a file sees it.

    >>> _seen_from("models/m.onnx", Path("conf/e.toml"))
    '../models/m.onnx'
    """
    return os.path.relpath(path, file.parent)


def _write(path: Path, content: str) -> None:
    try:
        with replacing(path, SHARED) as file:
            file.write(content.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}; choose another file: --output") from error
