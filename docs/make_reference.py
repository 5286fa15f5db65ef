"""Write docs/reference/python.md from the docstrings of every public name, and the tables of command-line.md.

python docs/make_reference.py            write the pages
python docs/make_reference.py --check    fail if a page is not what it would write
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from evenhand.cli.init import also_read, meaning, settings_of
from evenhand.config.file import kind_of, spell, worded
from evenhand.config.schema import COMMANDS, PER_CALL, TABLES, Command

PYTHON, COMMAND_LINE = (Path(__file__).parent / "reference" / name for name in ("python.md", "command-line.md"))
MARK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
"""What stands around a table of the command line's page."""
SECTIONS = {
    "Audits": "audit Budget StopReason Run replay compare",
    "What counts as different": "Flip Gap",
    "Spaces": "Space Integer Real Ordinal Nominal Boolean TextSpace TextTemplates",
    "Models": "wrap load_model Model Endpoint MarginalModel",
    "Searches": "Auto Archive Boundary Themis Aequitas Kosei Symbolic Adf TextRandom TextAdf TextImportance",
    "Estimates": "estimate populations.Uniform populations.Data populations.Near Interval StopRule Estimate Order "
    "groups remaining coverage quality",
    "Proofs": "prove Proof check_proof",
    "Regions and examples": "regions examples",
    "Repairs": "repair Repair",
    "Reports and files": "report ReportOptions export bundle check_bundle",
    "Data sets": "datasets.load",
}
"""Names of the package itself, by section; a test compares them with ``evenhand.__all__``."""
RESULTS = {"Run", "Estimate", "Repair", "Proof"}
"""Classes that users do not make."""
MODULES = ("repairs", "results", "search", "testing", "errors")
"""Public modules with names of their own."""
INTRODUCTION = """\
# Python reference

Import the package as `eh`: `import evenhand as eh`. This page is written by `python docs/make_reference.py` from the
docstrings of the public names. Their examples are run by the tests.
"""


def main() -> None:
    """Write the pages, or compare them."""
    for path, text in ((PYTHON, page()), (COMMAND_LINE, command_line(COMMAND_LINE.read_text("utf-8")))):
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            sys.exit(f"docs/reference/{path.name} is out of date; run: python docs/make_reference.py")


def page() -> str:
    """Build the whole page."""
    package = import_module("evenhand")
    parts = [INTRODUCTION]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in names.split():
            found = package
            for part in name.split("."):
                found = getattr(found, part)
            parts.append(entry(f"eh.{name}", found, made=name not in RESULTS))
    for name in MODULES:
        module = import_module(f"evenhand.{name}")
        parts.append(f"## `evenhand.{name}`\n\n{prose(inspect.getdoc(module) or '')}\n")
        shown = [(public, getattr(module, public)) for public in public_names(module)]
        known = {getattr(package, public) for public in package.__all__ if inspect.isclass(getattr(package, public))}
        parts += [
            entry(f"evenhand.{name}.{public}", found, made=name != "results")
            for public, found in shown
            if callable(found) and not (inspect.isclass(found) and found in known)
        ]
    return "\n".join(parts)


def public_names(module: Any) -> list[str]:
    """Return the names that a module offers."""
    return sorted(
        getattr(module, "__all__", None)
        or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__ == module.__name__
        ]
    )


def entry(title: str, found: Any, made: bool = True) -> str:
    """Describe one name: its signature unless users do not make it, its docstring, and the members of a class."""
    out = [f"### `{title}`\n"]
    plain = inspect.isclass(found) and issubclass(found, BaseException | Enum)
    if made and callable(found) and not plain and (shown := signature(title, found)):
        out.append(f"```text\n{shown}\n```\n")
    doc = inspect.getdoc(found) or ""
    # The docstring that a dataclass makes up is its signature once more.
    if not (dataclasses.is_dataclass(found) and doc.startswith(f"{getattr(found, '__name__', '')}(")):
        out.append(prose(doc) + "\n")
    if inspect.isclass(found) and (rows := list(members(found, documented(doc)))):
        out.append("| member | |\n|---|---|")
        out += [f"| `{name}` | {cell(text)} |" for name, text in rows]
        out.append("")
    return "\n".join(out)


def signature(title: str, found: Any) -> str:
    """Write a signature without annotations, one parameter a line where it is long."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    if any(one.default is not one.empty and " at 0x" in repr(one.default) for one in plain):
        plain = [one.replace(default=...) if " at 0x" in repr(one.default) else one for one in plain]
    text = str(inspect.Signature(plain))
    if len(title) + len(text) <= 100:
        return f"{title}{text}"
    inner = textwrap.fill(text[1:-1], 96, break_long_words=False, break_on_hyphens=False)
    return f"{title}(\n{textwrap.indent(inner, '    ')}\n)"


def documented(doc: str) -> set[str]:
    """Return the parameters that a docstring describes."""
    match = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-{3,}\n|\Z)", doc, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^(\w+)", match.group(1), re.MULTILINE)) if match else set()


def members(found: type, described: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the public fields, properties and methods of a class, each with the first paragraph of its docstring."""
    seen: set[str] = set()
    for kind in found.__mro__:
        if not kind.__module__.startswith("evenhand"):
            continue
        for name, text in field_notes(kind):
            if name not in seen | described:
                seen.add(name)
                yield name, text
        for name, value in vars(kind).items():
            inner = getattr(value, "__func__", getattr(value, "func", getattr(value, "fget", value)))
            if name.startswith("_") or name in seen or not inspect.isfunction(inner):
                continue
            seen.add(name)
            if doc := inspect.getdoc(inner):
                called = "" if value is not inner and not isinstance(value, classmethod | staticmethod) else "()"
                yield name + called, doc.split("\n\n")[0]


def field_notes(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the annotated fields of a class that a string describes, in the line below."""
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError):
        return
    assert isinstance(node, ast.ClassDef)
    for field, note in zip(node.body, node.body[1:], strict=False):
        match field, note:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                if not name.startswith("_"):
                    yield name, inspect.cleandoc(text)


def prose(doc: str) -> str:
    """Turn a docstring in NumPy's format into Markdown."""
    out: list[str] = []
    lines, at = doc.splitlines(), 0
    while at < len(lines):
        if at + 1 < len(lines) and lines[at] and re.fullmatch(r"-{3,}", lines[at + 1]):
            end = at + 2
            while end < len(lines) and not (end + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[end + 1])):
                end += 1
            out.append(section(lines[at], lines[at + 2 : end]))
            at = end
        elif lines[at].startswith(">>>"):
            end = at
            while end < len(lines) and lines[end].strip():
                end += 1
            out.append("```text\n" + "\n".join(lines[at:end]) + "\n```")
            at = end
        else:
            out.append(markup(lines[at]))
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def section(title: str, lines: list[str]) -> str:
    """Turn one section of a docstring into Markdown: a table of names, or prose below a bold title."""
    body = "\n".join(lines).strip("\n")
    if title not in {"Parameters", "Attributes", "Returns", "Raises", "Yields"}:
        return f"\n**{title}**\n\n{prose(body)}\n"
    rows = re.findall(r"^(\S.*)\n((?:[ \t]+.*\n?|\n)*)", body + "\n", re.MULTILINE)
    if title in {"Returns", "Yields"} or not rows:
        return f"\n**{title}**\n\n{markup(' '.join(body.split()))}\n"
    head = "parameter" if title == "Parameters" else "name"
    return "\n".join(["", f"| {head} | |", "|---|---|", *(f"| `{name}` | {cell(text)} |" for name, text in rows), ""])


def cell(text: str) -> str:
    """Write a text for a cell of a table."""
    return markup(" ".join(text.split())).replace("|", "\\|")


def markup(text: str) -> str:
    """Turn the markup of docstrings into Markdown."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text.replace("``", "`"))


def flags_of(command: Command) -> str:
    """Write the flags of a command as tables, one for each heading of its help."""
    out = []
    for panel, settings in command.panels().items():
        out += [f"| {panel} | |", "|---|---|"]
        for one in settings:
            value = "" if one.switch else f" {one.metavar}"
            names = ", ".join(f"`{name}{value}`" for name in re.split("[,/]", one.flags))
            help = worded(command.help(one), "flag")
            more = worded(one.more, "flag")
            out.append(table_row(names, f"{help}. {more}" if more else help))
        out.append("")
    return "\n".join(out)


def file_keys() -> str:
    """Write the tables of the file: each key with its type, meaning and flag."""
    out = []
    for table, tables in TABLES.items():
        if table in PER_CALL:
            continue
        out += [f"### `[{table}]`", ""]
        usage, colon, purpose = tables.comment.format(file="FILE").rpartition(": ")
        if purpose:
            out += [f"For `{usage}`{colon}{purpose}." if usage else f"{purpose[0].upper()}{purpose[1:]}.", ""]
        if also := also_read(table):
            out += [f"Also read: {also}.", ""]
        out += ["| key | type | meaning | flag |", "|---|---|---|---|"]
        for one in settings_of(table):
            kind = re.sub(r"^an? ", "", kind_of(one.type))
            out.append(table_row(f"`{one.key}`", kind, meaning(one), f"`{spell(one)}`" if one.flags else ""))
        out.append("")
    return "\n".join(out)


def table_row(*cells: str) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def command_line(page: str) -> str:
    """Rewrite what is between the marks of a page: the flags of a command, or the keys of the file."""

    def written(found: re.Match[str]) -> str:
        what = found[2]
        return f"{found[1]}\n{file_keys() if what == 'keys' else flags_of(COMMANDS[what])}\n{found[3]}"

    return MARK.sub(written, page)


if __name__ == "__main__":
    main()
