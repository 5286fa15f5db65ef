"""Checks of scalar arguments: each returns a plain Python value, or raises an error that names parameter and value."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from evenhand.errors import EvenhandError, StrategyError

T = TypeVar("T")
Errors = type[EvenhandError]

LARGEST_SEED = 2**63 - 1


def is_int(value: object) -> bool:
    """Whether a value is an integer of Python or NumPy.

    >>> is_int(3), is_int(True), is_int(3.0)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a finite number of Python or NumPy.

    >>> is_number(0.5), is_number(float("nan")), is_number("1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def check_int(
    name: str, value: Any, error: Errors, least: int | None = None, most: int | None = None, *, remedy: str = ""
) -> int:
    """Return a whole number within bounds, both included.

    >>> from evenhand.errors import BudgetError
    >>> check_int("samples", 0, BudgetError, 1)
    Traceback (most recent call last):
    evenhand.errors.BudgetError: samples must be an integer of at least 1, got 0
    """
    if is_int(value) and (least is None or value >= least) and (most is None or value <= most):
        return int(value)
    raise error(f"must be an integer{range_text(least, most)}", parameter=name, value=value, remedy=remedy)


def check_number(
    name: str,
    value: Any,
    error: Errors,
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
    remedy: str = "",
) -> float:
    """Return a finite number within bounds: ``least`` and ``most`` are allowed, ``above`` and ``below`` are not.

    >>> from evenhand.errors import BudgetError
    >>> check_number("half_width", 0.7, BudgetError, above=0, below=0.5)
    Traceback (most recent call last):
    evenhand.errors.BudgetError: half_width must be a number above 0 and below 0.5, got 0.7
    """
    inside = (
        is_number(value)
        and (least is None or value >= least)
        and (most is None or value <= most)
        and (above is None or value > above)
        and (below is None or value < below)
    )
    if inside:
        return float(value)
    raise error(f"must be a number{range_text(least, most, above, below)}", parameter=name, value=value, remedy=remedy)


def check_seed(value: Any, error: Errors) -> int:
    """Return a seed, which is an integer from 0 to 2**63 - 1."""
    return check_int("seed", value, error, 0, LARGEST_SEED)


def check_confidence(value: Any, error: Errors) -> float:
    """Return the confidence of an interval, which is above 0.5 and below 1."""
    return check_number("confidence", value, error, above=0.5, below=1)


def check_bool(name: str, value: Any, error: Errors, *, remedy: str = "") -> bool:
    """Return True or False."""
    if isinstance(value, bool) or type(value).__name__ in {"bool", "bool_"}:  # NumPy's, without importing it
        return bool(value)
    raise error("must be True or False", parameter=name, value=value, remedy=remedy)


def check_choice(name: str, value: Any, choices: Iterable[T], error: Errors, *, remedy: str = "") -> T:
    """Return a value that is one of some choices.

    >>> from evenhand.errors import EstimateError
    >>> check_choice("population", "all", ["uniform", "data"], EstimateError)
    Traceback (most recent call last):
    evenhand.errors.EstimateError: population must be one of 'uniform', 'data', got 'all'
    """
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    raise error(f"must be one of {', '.join(map(repr, choices))}", parameter=name, value=value, remedy=remedy)


def check_path(name: str, value: Any, error: Errors) -> Path:
    """Return the path that an argument names.

    >>> from evenhand.errors import RunError
    >>> check_path("directory", "run", RunError).name
    'run'
    """
    if not isinstance(value, str | os.PathLike):
        raise error("must be a path", parameter=name, value=value, remedy="give a str or a pathlib.Path")
    return Path(value)


def range_text(least: float | None, most: float | None, above: float | None = None, below: float | None = None) -> str:
    """Write bounds as words that follow "must be a number".

    >>> range_text(1, 10), range_text(1, None), range_text(None, None, 0, 1)
    (' from 1 to 10', ' of at least 1', ' above 0 and below 1')
    """
    if least is not None and most is not None:
        return f" from {_bound(least)} to {_bound(most)}"
    low = f"of at least {_bound(least)}" if least is not None else f"above {_bound(above)}" if above is not None else ""
    high = f"of at most {_bound(most)}" if most is not None else f"below {_bound(below)}" if below is not None else ""
    words = " and ".join(part for part in (low, high) if part)
    return f" {words}" if words else ""


def _bound(value: float | None) -> str:
    return "2**63 - 1" if value == LARGEST_SEED else f"{value:,}"


LARGEST = 2**62
"""No count that is stored is larger."""


class Leaf(NamedTuple):
    """One value: a description, and the check."""

    words: str
    holds: Callable[[Any], bool]


class Maybe(NamedTuple):
    """A value that may be null."""

    kind: Any


def one_of(values: Sequence[str]) -> Leaf:
    """Return what one of some texts must look like.

    >>> check_fields("tests", one_of(["tests", "rows"]), "stop")
    """
    return Leaf(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


ANY = Leaf("anything", lambda _: True)
TEXT = Leaf("a text", lambda value: isinstance(value, str))
FLAG = Leaf("true or false", lambda value: isinstance(value, bool))
WHOLE = Leaf(
    "a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
)
COUNT = Leaf(
    "a whole number of 0 or more",
    lambda value: WHOLE.holds(value) and value >= 0,
)
AMOUNT = Leaf(
    "a number of 0 or more",
    lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST,
)
PLAIN = Leaf("a text, a number, true or false", lambda value: isinstance(value, str | int | float))


def check_fields(value: Any, kind: Any, name: str) -> None:
    """Raise a ``ValueError`` that names the first part of a value that is not as its table says.

    >>> check_fields({"curve": [[1, 2], [3]]}, {"curve": [(COUNT, COUNT)], "note?": Maybe(TEXT)}, "")
    Traceback (most recent call last):
    ValueError: curve[1] must be a list of 2, got [3]
    """
    if isinstance(kind, Maybe):
        if value is not None:
            check_fields(value, kind.kind, name)
    elif isinstance(kind, Leaf):
        _require(kind.holds(value), name, kind.words, value)
    elif isinstance(kind, dict):
        _require(isinstance(value, dict), name, "an object", value)
        for key, inner in _named(value, kind, name):
            check_fields(value[key], inner, f"{name}.{key}" if name else key)
    else:
        fixed = isinstance(kind, tuple)
        _require(isinstance(value, list), name, "a list", value)
        _require(not fixed or len(value) == len(kind), name, f"a list of {len(kind)}", value)
        for i, (part, inner) in enumerate(zip(value, kind if fixed else kind * len(value), strict=True)):
            check_fields(part, inner, f"{name}[{i}]")


def _named(value: dict[str, Any], kind: dict[Any, Any], name: str) -> list[tuple[str, Any]]:
    """Pair the names in an object with their kinds."""
    kinds = {key.removesuffix("?"): inner for key, inner in kind.items() if key is not str}
    for key in kind:
        if key is not str and not key.endswith("?") and key not in value:
            raise ValueError(f"{name + ': ' if name else ''}{key!r} is missing")
    return [(key, kinds.get(key, kind.get(str, ANY))) for key in value]


def _require(holds: bool, name: str, words: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{name or 'it'} must be {words}, got {value!r:.60}")


def check_settings(settings: Any, **ranges: tuple[int, int]) -> None:
    """Raise unless every field of a dataclass holds what its annotation allows.

    Integers are at least 1 and other numbers above 0, or within a range given by name, both ends included. Fields of
    other types than ``Literal``, ``bool``, ``int`` and ``float``, or of several, are not checked.

    >>> from evenhand.strategies import Themis
    >>> Themis(block=0)
    Traceback (most recent call last):
    evenhand.errors.StrategyError: block must be an integer of at least 1, got 0
    """
    kinds = get_type_hints(type(settings))
    for name in (field.name for field in fields(settings)):
        value, kind = getattr(settings, name), kinds[name]
        if type(None) in get_args(kind):
            if value is None:
                continue
            others = [one for one in get_args(kind) if one is not type(None)]
            kind = others[0] if len(others) == 1 else object
        if get_origin(kind) is Literal:
            check_choice(name, value, get_args(kind), StrategyError)
        elif kind is bool:
            check_bool(name, value, StrategyError)
        elif kind is int:
            check_int(name, value, StrategyError, *ranges.get(name, (1, None)))
        elif kind is float and name in ranges:
            check_number(name, value, StrategyError, *ranges[name])
        elif kind is float:
            check_number(name, value, StrategyError, above=0)
