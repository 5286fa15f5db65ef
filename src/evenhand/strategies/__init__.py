"""The searches, one file for each published method, and how they are found by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand import plugins
from evenhand.errors import StrategyError
from evenhand.search import Strategy
from evenhand.spaces.attributes import suggest
from evenhand.strategies.adf import Adf
from evenhand.strategies.aequitas import Aequitas
from evenhand.strategies.archive import Archive
from evenhand.strategies.auto import Auto
from evenhand.strategies.boundary import Boundary
from evenhand.strategies.kosei import Kosei
from evenhand.strategies.symbolic import Symbolic
from evenhand.strategies.text import TextAdf, TextImportance, TextRandom
from evenhand.strategies.themis import Themis

STRATEGIES: dict[str, type[Any]] = {
    "auto": Auto,
    "themis": Themis,
    "aequitas": Aequitas,
    "kosei": Kosei,
    "symbolic": Symbolic,
    "adf": Adf,
    "archive": Archive,
    "boundary": Boundary,
    "text-random": TextRandom,
    "text-adf": TextAdf,
    "text-importance": TextImportance,
}

__all__ = [
    "STRATEGIES",
    "Adf",
    "Aequitas",
    "Archive",
    "Auto",
    "Boundary",
    "Kosei",
    "Symbolic",
    "TextAdf",
    "TextImportance",
    "TextRandom",
    "Themis",
    "describe",
    "kind_of",
    "known",
    "make",
    "names",
]


def names() -> Iterator[str]:
    """Give the names of all searches: evenhand's own, then those of installed packages."""
    yield from dict.fromkeys((*STRATEGIES, *plugins.installed(plugins.STRATEGIES)))


def known(name: str) -> type[Any] | None:
    """Find a search by name, one of evenhand's own or of an installed package; None if there is none.

    >>> known("kosei").__name__, known("os:system")
    ('Kosei', None)
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    point = plugins.installed(plugins.STRATEGIES).get(name)
    return None if point is None else _checked(plugins.load(point, StrategyError), name)


def kind_of(name: str) -> type[Any]:
    """Find a search by name or by ``module:Class``; raise if there is none.

    >>> kind_of("koseii")
    Traceback (most recent call last):
    evenhand.errors.StrategyError: strategy is not the name of a search, got 'koseii'; did you mean 'kosei'?
    """
    found = known(name)
    if found is None and plugins.is_spec(name):
        found = _checked(plugins.named(name, StrategyError), name)
    if found is None:
        remedy = suggest(name, names())
        raise StrategyError("is not the name of a search", parameter="strategy", value=name, remedy=remedy)
    return found


def make(strategy: str | Strategy, **settings: Any) -> Strategy:
    """Return a strategy by name, or the given one.

    A name is one of evenhand's own, one of an installed package, or ``module:Class``.

    >>> make("kosei", samples=10)
    Kosei(samples=10, per_seed=None, pops=None, wave=8192, rounds=None)
    """
    if not isinstance(strategy, str):
        if isinstance(strategy, type) or not _is_search(strategy):
            raise StrategyError(
                "must be a name or a dataclass with a search method",
                parameter="strategy",
                value=strategy,
                remedy=f"names: {', '.join(names())}",
            )
        return strategy
    kind = kind_of(strategy)
    fields = [field.name for field in dataclasses.fields(kind)]
    for name in settings:
        if name not in fields:
            raise StrategyError(f"{strategy} has no setting {name!r}", remedy=f"it has {', '.join(fields)}")
    made: Strategy = kind(**settings)
    return made


def describe(strategy: Strategy) -> dict[str, Any]:
    """Give a strategy's name and settings in plain values, which can be written to JSON.

    >>> describe(make("themis"))["strategy"]
    'themis'
    """
    values = {field.name: getattr(strategy, field.name) for field in dataclasses.fields(strategy)}  # type: ignore[arg-type]
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    return {"strategy": _name_of(type(strategy)), **plain}


def _name_of(kind: type[Any]) -> str:
    """Name a search as ``make`` takes it: by its own name, its entry point, or its module and class."""
    for name, own in STRATEGIES.items():
        if own is kind:
            return name
    package = kind.__module__.partition(".")[0]
    for name, point in plugins.installed(plugins.STRATEGIES).items():
        # Only of the package that is imported already.
        if point.module.partition(".")[0] == package and plugins.load(point, StrategyError) is kind:
            return name
    spec = f"{kind.__module__}:{kind.__qualname__}"
    return spec if plugins.is_spec(spec) and kind.__module__ != "__main__" else kind.__name__


def _is_search(found: Any) -> bool:
    return dataclasses.is_dataclass(found) and hasattr(found, "search")


def _checked(kind: Any, name: str) -> type[Any]:
    if not isinstance(kind, type) or not _is_search(kind):
        raise StrategyError(f"{name} is not a search but {kind!r}", remedy="name a dataclass with a search method")
    return kind
