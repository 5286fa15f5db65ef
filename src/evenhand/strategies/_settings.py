"""Settings of strategies and repairs, checked against their annotations."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from evenhand._validate import check_bool, check_choice, check_int, check_number
from evenhand.errors import StrategyError


def check_settings(settings: Any, **ranges: tuple[int, int]) -> None:
    """Raise unless every field of a dataclass holds what its annotation allows.

    Integers are at least 1 and other numbers above 0, or within a range given by name, both ends included. Fields of
    other types than ``Literal``, ``bool``, ``int`` and ``float`` are not checked.

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
            kind = get_args(kind)[0]
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
