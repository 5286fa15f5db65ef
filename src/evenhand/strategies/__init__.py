"""The searches, one file a method, and a plain dict of their names."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from evenhand.errors import StrategyError
from evenhand.search import Strategy
from evenhand.strategies.adf import Adf
from evenhand.strategies.aequitas import Aequitas
from evenhand.strategies.kosei import Kosei
from evenhand.strategies.symbolic import Symbolic
from evenhand.strategies.text_adf import TextAdf
from evenhand.strategies.text_importance import TextImportance
from evenhand.strategies.text_random import TextRandom
from evenhand.strategies.themis import Themis

STRATEGIES: dict[str, type[Any]] = {
    "themis": Themis,
    "aequitas": Aequitas,
    "kosei": Kosei,
    "symbolic": Symbolic,
    "adf": Adf,
    "text-random": TextRandom,
    "text-adf": TextAdf,
    "text-importance": TextImportance,
}

__all__ = [
    "STRATEGIES",
    "Adf",
    "Aequitas",
    "Kosei",
    "Symbolic",
    "TextAdf",
    "TextImportance",
    "TextRandom",
    "Themis",
    "describe",
    "make",
]


def make(strategy: str | Strategy, **settings: Any) -> Strategy:
    """Return a strategy by name, or the given one.

    >>> make("kosei", samples=10)
    Kosei(samples=10, per_seed=None, pops=None, wave=8192, rounds=None)
    """
    if not isinstance(strategy, str):
        if isinstance(strategy, type) or not hasattr(strategy, "search") or not dataclasses.is_dataclass(strategy):
            raise StrategyError(
                f"a strategy is a name or a dataclass with a search method, got {strategy!r}; "
                f"names: {', '.join(STRATEGIES)}"
            )
        return strategy
    if strategy not in STRATEGIES:
        raise StrategyError(f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    kind = STRATEGIES[strategy]
    known = [field.name for field in dataclasses.fields(kind)]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise StrategyError(f"{strategy} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    made: Strategy = kind(**settings)
    return made


def describe(strategy: Strategy) -> dict[str, Any]:
    """Give a strategy's name and settings in plain values.

    >>> describe(Themis())["strategy"]
    'themis'
    """
    names = {kind: name for name, kind in STRATEGIES.items()}
    settings = {f.name: _plain(getattr(strategy, f.name)) for f in dataclasses.fields(strategy)}  # type: ignore[arg-type]
    return {"strategy": names.get(type(strategy), type(strategy).__name__), **settings}


def _plain(value: Any) -> Any:
    """Make a NumPy number a plain one, which can be written to JSON."""
    return value.item() if isinstance(value, np.generic) else value
