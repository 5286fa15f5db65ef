"""Settings of a strategy as the command line writes them: ``--set samples=500``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from evenhand.errors import StrategyError
from evenhand.strategies import kind_of

NONE = ("none", "null", "")


def parse(strategy: str, texts: Sequence[str]) -> dict[str, Any]:
    """Turn ``name=value`` texts into values of the types that the strategy's fields have.

    >>> parse("kosei", ["samples=500", "per_seed=none"])
    {'samples': 500, 'per_seed': None}
    """
    if not texts:
        return {}
    kind = kind_of(strategy)
    hints = get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]
    out = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or name not in known:
            wrong = f"{strategy} has no setting {name!r}" if equals else f"--set takes name=value, got {text!r}"
            raise StrategyError(f"{wrong}; {strategy} has {', '.join(known)}")
        out[name] = _value(strategy, name, value.strip(), hints[name])
    return out


def _value(strategy: str, name: str, text: str, hint: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    adapter: TypeAdapter[Any] = TypeAdapter(hint)
    if text.lower() in NONE:
        try:
            return adapter.validate_python(None)
        except ValidationError:
            pass
    try:
        return adapter.validate_strings(text)
    except ValidationError:
        raise StrategyError(f"--set {name}={text}: {strategy} wants {_wanted(hint)} for {name}") from None


def _wanted(hint: Any) -> str:
    """Say in words what a setting may be.

    >>> _wanted(int), _wanted(Literal["a", "b"])
    ('a whole number', 'one of a, b')
    """
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    kinds = [words.get(kind, "none") for kind in (get_args(hint) or (hint,))]
    return " or ".join(kinds)
