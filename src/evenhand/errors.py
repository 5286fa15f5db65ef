"""Every exception that evenhand raises on purpose, under one base class.

Messages say what was got, what is allowed and what to do. The command line prints them without a traceback.
"""

from __future__ import annotations

from typing import Any

from evenhand.visible import visible


class EvenhandError(Exception):
    """Base of all errors that a user can cause and mend.

    Where one ends an audit, ``partial`` is the run as far as it came, so that nothing found is lost.

    >>> issubclass(SpaceError, EvenhandError)
    True
    """

    partial: Any = None

    def __str__(self) -> str:
        """Give the message; what a name or value holds that is not seen, or that a terminal would obey, is escaped."""
        return visible(super().__str__(), keep="\n")


class SpaceError(EvenhandError):
    """The space of legal individuals is not one: wrong attribute, bounds, constraint or link."""


class DataError(EvenhandError):
    """Data rows or files that cannot be read as individuals of the space."""


class ModelError(EvenhandError):
    """The model cannot be called, or its answers are no answers (wrong length, NaN, an exception)."""


class NotFitted(ModelError, AttributeError):
    """The model has not been fitted yet; an AttributeError too, so that ``hasattr`` says no to what fitting brings.

    >>> issubclass(NotFitted, AttributeError)
    True
    """


class ModelTimeout(ModelError):
    """One call of the model took longer than the user allows."""


class FlakyModel(ModelError):
    """The model answered the same rows differently.

    ``noise`` is the share of rows that were asked twice and got two answers.
    """

    def __init__(self, message: str, noise: float) -> None:
        super().__init__(message)
        self.noise = noise


class StrategyError(EvenhandError):
    """An unknown strategy, a setting that it does not have, or a value that it does not allow."""


class BudgetError(EvenhandError):
    """A budget that can never be reached or is not a number."""


class EstimateError(EvenhandError):
    """An estimate that cannot be had: an unknown population or interval, or rules that exclude each other."""


class LimitExceeded(EvenhandError):
    """A file beyond a limit, refused before it takes up time or memory; ``limit`` is the name of that limit.

    >>> LimitExceeded("space.toml: too large", "toml_bytes", "9", 5).limit
    'toml_bytes'
    """

    def __init__(self, message: str, limit: str, value: str, most: int) -> None:
        super().__init__(message)
        self.limit, self.value, self.most = limit, value, most


class RunError(EvenhandError):
    """A run directory that is foreign, damaged, locked or cannot be written."""


class ReplayError(RunError):
    """A replay that does not reproduce the stored run."""


class MissingExtra(EvenhandError):
    """An optional package is needed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'evenhand[{extra}]'")


class ConfigError(EvenhandError):
    """A configuration file with an unknown key or a wrong value."""


class UnusedWarning(UserWarning):
    """A model passed because it does not use a protected attribute, or seems not to.

    >>> issubclass(UnusedWarning, UserWarning)
    True
    """
