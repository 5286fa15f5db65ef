"""Checks of settings that several strategies share."""

from __future__ import annotations

from typing import Any

from evenhand._validate import is_int, is_number
from evenhand.errors import StrategyError

MOST_STEPS = 1_000_000


def at_least(strategy: Any, least: int, *names: str) -> None:
    """Raise unless the named settings are whole numbers of at least ``least``, or None where that is their default."""
    for name in names:
        value = getattr(strategy, name)
        default = type(strategy).__dataclass_fields__[name].default
        if value is None and default is None:
            continue
        if not is_int(value) or value < least:
            raise StrategyError(
                f"{type(strategy).__name__}: {name} must be a whole number of at least {least}, got {value!r}"
            )


def between(strategy: Any, least: int, most: int, *names: str) -> None:
    """Raise unless the named settings are whole numbers from ``least`` to ``most``."""
    for name in names:
        value = getattr(strategy, name)
        if not is_int(value) or not least <= value <= most:
            raise StrategyError(
                f"{type(strategy).__name__}: {name} must be a whole number from {least} to {most:,}, got {value!r}"
            )


def positive(strategy: Any, *names: str) -> None:
    """Raise unless the named settings are positive finite numbers."""
    for name in names:
        value = getattr(strategy, name)
        if not is_number(value) or value <= 0:
            raise StrategyError(f"{type(strategy).__name__}: {name} must be a positive number, got {value!r}")


def one_of(strategy: Any, name: str, allowed: tuple[str, ...]) -> None:
    """Raise unless the named setting is one of the allowed words."""
    value = getattr(strategy, name)
    if value not in allowed:
        raise StrategyError(f"{type(strategy).__name__}: {name} must be one of {', '.join(allowed)}, got {value!r}")


def whole_steps(strategy: Any, name: str) -> None:
    """Raise unless the named setting is a whole number of steps, as 1.0 or 2."""
    value = getattr(strategy, name)
    if not is_number(value) or not 1 <= value <= MOST_STEPS or value != int(value):
        raise StrategyError(
            f"{type(strategy).__name__}: {name} must be a whole number of the space's steps, such as 1.0, of at most "
            f"{MOST_STEPS:,}, got {value!r}"
        )


def chance(strategy: Any, name: str) -> None:
    """Raise unless the named setting is a number from 0 to 1."""
    value = getattr(strategy, name)
    if not is_number(value) or not 0 <= value <= 1:
        raise StrategyError(f"{type(strategy).__name__}: {name} must be a number from 0 to 1, got {value!r}")


def truth(strategy: Any, name: str) -> None:
    """Raise unless the named setting is True or False."""
    value = getattr(strategy, name)
    if not isinstance(value, bool):
        raise StrategyError(f"{type(strategy).__name__}: {name} must be True or False, got {value!r}")
