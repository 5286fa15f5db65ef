"""Settings of a strategy as the command line writes them: ``--set samples=500``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, get_type_hints

from evenhand.errors import StrategyError
from evenhand.strategies import STRATEGIES

NONE = ("none", "null", "")


def parse(strategy: str, texts: Sequence[str]) -> dict[str, Any]:
    """Turn ``name=value`` texts into values of the types that the strategy's fields have.

    >>> parse("kosei", ["samples=500", "per_seed=none"])
    {'samples': 500, 'per_seed': None}
    """
    if not texts:
        return {}
    if strategy not in STRATEGIES:
        raise StrategyError(f"no strategy {strategy!r}; there are {', '.join(STRATEGIES)}")
    kind = STRATEGIES[strategy]
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
        kind = getattr(hint, "__name__", None) if isinstance(hint, type) else None
        wanted = kind or str(hint).removeprefix("typing.")
        raise StrategyError(f"--set {name}={text}: {strategy} wants {wanted} for {name}") from None
