"""The command ``evenhand init``: a configuration to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from evenhand._format import visible
from evenhand._write import SHARED, reason, replacing
from evenhand.cli.output import echo
from evenhand.config.file import TEXT_STRATEGY, Config, Tables, is_file
from evenhand.config.pages import template
from evenhand.config.schema import TextTable
from evenhand.errors import ConfigError
from evenhand.spaces.frames import read_frame
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.readers import read_texts
from evenhand.spaces.text.space import TextSpace
from evenhand.spaces.toml import dumps


def init(config: Config) -> None:
    """Look at the data, and write a configuration for it."""
    texts, output, model = config.init.text, Path(config.init.output), config.model.path
    space_file = output.with_suffix(".space.toml")
    for path in (output,) if texts else (output, space_file):
        if path.exists() and not config.init.force:
            raise ConfigError(f"{path} already exists", remedy="--force overwrites it, --output names another file")
    described, tables, files = _of_texts(config) if texts else _of_rows(config, space_file)
    if model is None:
        model = "classifier:classify" if texts else "model.skops"
    elif is_file(model):
        model = _seen_from(model, output)
    tables |= {"model": {"path": model}, "budget": {"tests": 100000}}
    files[output] = template(visible(str(output)), tables, texts)
    for path, content in files.items():
        _write(path, content)
    edit = "Run" if config.model.path else f"Put your model's path into {output.name}, then run"
    echo(f"{described}\n\nWrote {' and '.join(map(str, reversed(files)))}. {edit}: evenhand audit {output}")


def _of_rows(config: Config, space_file: Path) -> tuple[str, Tables, dict[Path, str]]:
    """Infer the space; return its description, the values of the configuration, and the file of the space."""
    if config.text is not None:
        raise ConfigError("--column and --encoding are for texts", remedy="add --text, or leave them out")
    wanted, data, target = config.space, str(config.data.path), config.data.target
    space = Space.infer(read_frame(data), wanted.protected, target, exclude=wanted.exclude, missing=wanted.missing)
    described = repr(space)
    if target is None:
        described += (
            "\n\nAll columns are taken as inputs of the model. "
            "If one of them is what the model predicts, name it: --target NAME."
        )
    tables: Tables = {
        "data": {"path": _seen_from(data, space_file), "target": target},
        "space": {"path": space_file.name},
        "audit": {"strategy": "kosei", "seed": 0, "criterion": "flip"},
    }
    return described, tables, {space_file: dumps(space)}


def _of_texts(config: Config) -> tuple[str, Tables, dict[Path, str]]:
    """Find terms in the texts; return a description, and the values of the configuration."""
    space, data, text = config.space, str(config.data.path), config.text or TextTable()
    if config.data.target is not None or space.exclude or space.missing is not None:
        raise ConfigError("--target, --exclude and --missing are for rows", remedy="leave them out, or --text")
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
    return described, {"text": own, "audit": {"strategy": TEXT_STRATEGY, "seed": 0, "criterion": "flip"}}, {}


def _seen_from(path: str, file: Path) -> str:
    """Return a path relative to a file.

    >>> _seen_from("models/m.onnx", Path("conf/e.toml"))
    '../models/m.onnx'
    """
    return os.path.relpath(path, file.parent)


def _write(path: Path, content: str) -> None:
    try:
        with replacing(path, SHARED) as file:
            file.write(content.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {reason(error)}", remedy="name another file: --output") from error
