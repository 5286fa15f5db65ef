"""The file that ``evenhand init`` writes and the tables of the reference page, both made from the schema."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evenhand.config.file import kind_of, spell, toml, worded
from evenhand.config.schema import COMMANDS, PER_CALL, SETTINGS, TABLES, Command, Setting

COLUMN, WIDTH = 28, 112
"""The columns between which the template has its comments."""
MARK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def template(name: str, values: Mapping[str, Mapping[str, Any]], texts: bool = False) -> str:
    r"""Write a configuration with every key and its meaning; keys without a value are commented out.

    >>> print("\n".join(template("e.toml", {"data": {"path": "people.csv"}}).splitlines()[8:11]))
    [data]                      # real rows
    path = "people.csv"         # Real rows: .csv, .tsv, .parquet, .json or .jsonl
    # target = "income"         # Column that the model predicts
    """
    lines = [
        f"# Run with: evenhand audit {name}",
        "# Paths are relative to this file. Flags of the command override it.",
    ]
    for table, kind in TABLES.items():
        settings = [one for one in _of(table) if one.texts or not texts]
        if table in PER_CALL or not settings or (table == "text" and not texts):
            continue
        lines += ["", *_line(f"[{table}]", kind.purpose.format(file=name))]
        if also := _also(table, ("data", "space") if texts else ("text",)):
            lines += _line("", f"also read: {also}")
        nested: list[str] = []
        for setting in settings:
            value = values.get(table, {}).get(setting.key)
            start = "" if value is not None else "# "
            value = _example(setting, texts) if value is None else value
            if isinstance(value, dict):
                nested += ["", f"[{setting.place}]"]
                for inner, one in value.items():
                    nested += _line(f"# {inner} = {toml(one)}", _meaning(setting))
            else:
                lines += _line(f"{start}{setting.key} = {toml(value)}", _meaning(setting))
        lines += nested
    return "\n".join(lines) + "\n"


def _of(table: str) -> list[Setting]:
    return [one for one in SETTINGS.values() if one.table == table]


def _meaning(setting: Setting) -> str:
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


def _also(command: str, without: Iterable[str] = ()) -> str:
    """List what a command reads from other tables: keys, or a [table] if there are more.

    >>> _also("compare"), _also("export")
    ('timeout in [model], seed in [audit]', '')
    """
    if command not in COMMANDS or command == "audit":
        return ""
    found: dict[str, list[str]] = {}
    for setting in COMMANDS[command].reads:
        found.setdefault(setting.table, []).append(setting.key)
    return ", ".join(
        f"{' and '.join(keys)} in [{table}]" if len(keys) < min(3, len(_of(table))) else f"[{table}]"
        for table, keys in found.items()
        if table not in without
    )


def flags_of(command: Command) -> str:
    """Write the flags of a command as tables, one for each heading of its help.

    >>> print(flags_of(COMMANDS["bundle"]).splitlines()[2])
    | `--model FILE` | Model file; the one noted in the run by default |
    """
    out = []
    for panel, settings in command.panels().items():
        out += [f"| {panel} | |", "|---|---|"]
        for one in settings:
            value = "" if one.switch else f" {one.metavar}"
            names = ", ".join(f"`{name}{value}`" for name in re.split("[,/]", one.flags))
            help = worded(command.help(one), "flag")
            more = worded(one.more, "flag")
            out.append(_row(names, f"{help}. {more}" if more else help))
        out.append("")
    return "\n".join(out)


def file_keys() -> str:
    """Write the tables of the file: each key with its type, meaning and flag.

    >>> [line for line in file_keys().splitlines() if "`seed`" in line]
    ['| `seed` | integer | Random seed; 0 by default | `--seed` |']
    """
    out = []
    for table, tables in TABLES.items():
        if table in PER_CALL:
            continue
        out += [f"### `[{table}]`", ""]
        usage, colon, purpose = tables.purpose.format(file="FILE").rpartition(": ")
        if purpose:
            out += [f"For `{usage}`{colon}{purpose}." if usage else f"{purpose[0].upper()}{purpose[1:]}.", ""]
        if also := _also(table):
            out += [f"Also read: {also}.", ""]
        out += ["| key | type | meaning | flag |", "|---|---|---|---|"]
        for one in _of(table):
            kind = re.sub(r"^an? ", "", kind_of(one.type))
            out.append(_row(f"`{one.key}`", kind, _meaning(one), f"`{spell(one)}`" if one.flags else ""))
        out.append("")
    return "\n".join(out)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def reference(page: str) -> str:
    """Rewrite what is between the marks of a page: the flags of a command, or the keys of the file.

    >>> print(reference("<!-- begin bundle --> <!-- end -->".replace(" <", chr(10) + "<"))[:22])
    <!-- begin bundle -->
    """

    def written(found: re.Match[str]) -> str:
        what = found[2]
        return f"{found[1]}\n{file_keys() if what == 'keys' else flags_of(COMMANDS[what])}\n{found[3]}"

    return MARK.sub(written, page)


def main(arguments: Iterable[str]) -> int:
    """Update a page; with ``--check`` only return whether it is up to date."""
    *flags, name = arguments
    path = Path(name)
    old = path.read_text("utf-8")
    new = reference(old)
    if "--check" not in flags:
        path.write_text(new, "utf-8")
    elif new != old:
        sys.stderr.write(f"{path} is out of date: python -m evenhand.config.pages {path}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
