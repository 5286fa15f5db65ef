"""The commands that list what there is: ``evenhand strategies`` and ``evenhand datasets``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any


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

    from evenhand.cli.summary import console

    table = Table(*header, box=box.SIMPLE, pad_edge=False, show_lines=False)
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)
