"""The command ``evenhand init``: a configuration to start from."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evenhand._files import SHARED, reason, replacing
from evenhand._format import visible
from evenhand.cli.output import console, emit, fill
from evenhand.config.file import STRATEGY, Config, Tables, is_file, toml, worded
from evenhand.config.schema import COMMANDS, PER_CALL, SETTINGS, TABLES, Setting, TextTable
from evenhand.errors import ConfigError
from evenhand.spaces.frames import read_frame
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.readers import read_texts
from evenhand.spaces.text.space import TextSpace
from evenhand.spaces.toml import dumps

COLUMN, WIDTH = 28, 112
"""The columns between which the template puts comments."""


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
    if config.call.json:
        emit({"written": [str(path) for path in reversed(files)], "description": described})
        return
    edit = "Run" if config.model.path else f"Put your model's path into {output.name}, then run"
    out = console()
    for line in described.splitlines():
        fill(line, out, rest="    ")
    out.print()
    fill(f"Wrote {' and '.join(map(str, reversed(files)))}. {edit}: evenhand audit {output}", out)


def _of_rows(config: Config, space_file: Path) -> tuple[str, Tables, dict[Path, str]]:
    """Infer the space; return its description, the values of the configuration, and the file of the space."""
    if config.text is not None:
        raise ConfigError("--column and --encoding are for texts", remedy="add --text, or leave them out")
    wanted, data, target = config.space, str(config.data.path), config.data.target
    space = Space.infer(read_frame(data), wanted.protected, target, exclude=wanted.exclude, missing=wanted.missing)
    described = repr(space)
    if target is None:
        described += (
            "\n\nAll columns are treated as inputs of the model. "
            "If the model predicts one of them, name it: --target NAME."
        )
    tables: Tables = {
        "data": {"path": _seen_from(data, space_file), "target": target},
        "space": {"path": space_file.name},
        "audit": {"strategy": STRATEGY, "seed": 0, "criterion": "flip"},
    }
    return described, tables, {space_file: dumps(space)}


def _of_texts(config: Config) -> tuple[str, Tables, dict[Path, str]]:
    """Find terms in the texts; return a description, and the values of the configuration."""
    space, data, text = config.space, str(config.data.path), config.text or TextTable()
    if config.data.target is not None or space.exclude or space.missing is not None:
        raise ConfigError("--target, --exclude and --missing are for rows", remedy="leave them out, or --text")
    terms = TextSpace(list(space.protected))
    bound = terms.begin(read_texts(data, text.column, text.encoding))
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
    described = f"{terms}\n{len(bound.seeds):,} texts have a term, {bound.without:,} have none"
    return described, {"text": own, "audit": {"strategy": STRATEGY, "seed": 0, "criterion": "flip"}}, {}


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


def template(name: str, values: Mapping[str, Mapping[str, Any]], texts: bool = False) -> str:
    r"""Write a configuration with every key and its meaning; keys without a value are commented out.

    >>> print("\n".join(template("e.toml", {"data": {"path": "people.csv"}}).splitlines()[8:11]))
    [data]                      # real rows
    path = "people.csv"         # Data rows: .csv, .tsv, .parquet, .json or .jsonl
    # target = "income"         # Column that the model predicts
    """
    lines = [
        f"# Run with: evenhand audit {name}",
        "# Paths are relative to this file. Flags of the command override it.",
    ]
    for table, kind in TABLES.items():
        settings = [one for one in settings_of(table) if one.texts or not texts]
        if table in PER_CALL or not settings or (table == "text" and not texts):
            continue
        lines += ["", *_line(f"[{table}]", kind.comment.format(file=name))]
        if also := also_read(table, ("data", "space") if texts else ("text",)):
            lines += _line("", f"also read: {also}")
        nested: list[str] = []
        for setting in settings:
            value = values.get(table, {}).get(setting.key)
            start = "" if value is not None else "# "
            value = _example(setting, texts) if value is None else value
            if isinstance(value, dict):
                nested += ["", f"[{setting.place}]"]
                for inner, one in value.items():
                    nested += _line(f"# {inner} = {toml(one)}", meaning(setting))
            else:
                lines += _line(f"{start}{setting.key} = {toml(value)}", meaning(setting))
        lines += nested
    return "\n".join(lines) + "\n"


def settings_of(table: str) -> list[Setting]:
    """Return the settings of a table."""
    return [one for one in SETTINGS.values() if one.table == table]


def meaning(setting: Setting) -> str:
    """Return what a key of the file means."""
    return worded(setting.help, "file", setting.table)


def _example(setting: Setting, texts: bool) -> Any:
    if texts and setting.text_example is not None:
        return setting.text_example
    if setting.example is None:
        return True if setting.switch else setting.default
    return setting.example


def _line(code: str, comment: str) -> list[str]:
    """Put a comment after a line of code, wrapped."""
    if not comment:
        return [code]
    first, *rest = textwrap.wrap(comment, max(40, WIDTH - max(COLUMN, len(code) + 1)), break_long_words=False)
    return [f"{code:<{COLUMN - 1}} # {first}", *(f"{'':{COLUMN}}# {one}" for one in rest)]


def also_read(command: str, without: Iterable[str] = ()) -> str:
    """List what a command reads from other tables: keys, or a [table] if there are more.

    >>> also_read("compare"), also_read("datasets")
    ('timeout in [model], seed in [audit], show_examples in [report]', '')
    """
    if command not in COMMANDS or command == "audit":
        return ""
    found: dict[str, list[str]] = {}
    for setting in COMMANDS[command].reads:
        found.setdefault(setting.table, []).append(setting.key)
    return ", ".join(
        f"{' and '.join(keys)} in [{table}]" if len(keys) < min(3, len(settings_of(table))) else f"[{table}]"
        for table, keys in found.items()
        if table not in without
    )
