"""Every exception that evenhand raises on purpose, under one base class.

Errors are data: what is wrong, which parameter has which value, and what to do about it. ``str(error)`` writes that for
Python; the command line and the configuration file write the same in their own words, without reading the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

UNSET: Final[Any] = object()
"""Stands for a value that was not given."""
LONGEST = 80
"""Characters of a value in a message."""


class Use(NamedTuple):
    """A setting in a message, as Python writes it; other front ends write the same setting their own way.

    >>> str(Use("criterion=eh.Flip()", "audit.criterion", "flip"))
    'criterion=eh.Flip()'
    """

    python: str
    setting: str
    """The table and key of the setting; ``wrap.`` and a name for what only ``eh.wrap`` takes."""
    value: Any = UNSET

    def __str__(self) -> str:
        return self.python


Words = str | Use | Sequence["str | Use"]
"""A text, a setting, or several of them in a row."""


class EvenhandError(Exception):
    """Base of all errors that a user can cause and correct.

    Parameters
    ----------
    problem
        What is wrong. With a parameter, what must be true of it: "must be at least 0".
    parameter
        The parameter that has a wrong value, by its name in Python.
    value
        The value.
    remedy
        What to do.

    Where an error ends an audit, ``partial`` is the run up to then, so that no finding is lost.

    >>> error = BudgetError("must be at least 1", parameter="tests", value=0, remedy="leave it out for no limit")
    >>> str(error)
    'tests must be at least 1, got 0; leave it out for no limit'
    >>> error.parameter, error.value, error.remedy
    ('tests', 0, 'leave it out for no limit')
    """

    partial: Any = None

    def __init__(
        self, problem: Words = "", *, parameter: str | None = None, value: Any = UNSET, remedy: Words = ""
    ) -> None:
        self.parameter, self.value = parameter, value
        self._problem, self._remedy = _listed(problem), _listed(remedy)
        super().__init__(self.render())

    @property
    def remedy(self) -> str:
        """What to do, as Python writes it; empty if there is no advice."""
        return "".join(map(str, self._remedy))

    @property
    def reason(self) -> str:
        """What is wrong, without the remedy."""
        return self.render(remedy=False)

    @property
    def uses(self) -> list[Use]:
        """The settings in the remedy."""
        return [word for word in self._remedy if isinstance(word, Use)]

    def rename(self, old: str, new: str) -> None:
        """Replace a name in the message, such as a file's path by its place in an archive."""
        self._problem = [word.replace(old, new) if isinstance(word, str) else word for word in self._problem]
        self.args = (self.render(),)

    def render(self, spell: Callable[[Use], str] = str, name: str | None = None, remedy: bool = True) -> str:
        """Write the message; ``spell`` writes settings, and ``name`` replaces the parameter's.

        >>> error = ModelError("no scores", remedy=("use ", Use("criterion=eh.Flip()", "audit.criterion", "flip")))
        >>> error.render(lambda use: "no --gamma")
        'no scores; use no --gamma'
        """
        out, advice = (
            "".join(spell(word) if isinstance(word, Use) else word for word in words)
            for words in (self._problem, self._remedy if remedy else [])
        )
        if self.parameter is not None:
            out = f"{name or self.parameter} {out}"
            if self.value is not UNSET:
                out += f", got {shortened(self.value)}"
        return f"{out}; {advice}" if advice else out

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is otherwise made again from its message, without what it was made of.
        return _same, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        """Return the message; invisible characters, and those that control a terminal, are escaped."""
        from evenhand._format import visible  # late: decimal and dataclasses would double the time of our import

        return visible(super().__str__(), keep="\n")


def _same(kind: type[EvenhandError], args: tuple[Any, ...]) -> EvenhandError:
    return kind.__new__(kind, *args)


def _listed(words: Words) -> list[str | Use]:
    return [words] if isinstance(words, str | Use) else list(words)


def shortened(value: Any) -> str:
    """Write a value that a user gave in one line, cut if it is long.

    >>> shortened("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    text = repr(value).replace("\n", " ")
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


class SpaceError(EvenhandError):
    """The space of valid individuals is not one: wrong attribute, bounds, constraint or link."""


class DataError(EvenhandError):
    """Data rows or files that cannot be read as individuals of the space."""


class ModelError(EvenhandError):
    """The model cannot be called, or its answers are invalid (wrong length, NaN, an exception)."""


class NotFitted(ModelError, AttributeError):
    """The model has not been fitted yet; an AttributeError too, so that ``hasattr`` is False for fitted attributes."""


class ModelTimeout(ModelError):
    """One call of the model took longer than the user allows."""


class FlakyModel(ModelError):
    """The model answered the same rows differently; ``noise`` is the share of repeated rows with two answers."""

    def __init__(self, problem: Words, noise: float, remedy: Words = "") -> None:
        super().__init__(problem, remedy=remedy)
        self.noise = noise


class StrategyError(EvenhandError):
    """An unknown strategy, a setting that it does not have, or a value that it does not allow."""


class BudgetError(EvenhandError):
    """A budget that can never be reached or is not a number."""


class EstimateError(EvenhandError):
    """An estimate that cannot be made: an unknown population or interval, or rules that cannot be combined."""


class LimitExceeded(EvenhandError):
    """A file beyond a limit, refused before it takes up time or memory; ``limit`` is the name of that limit."""

    def __init__(self, problem: str, limit: str, value: str, most: int, remedy: str = "") -> None:
        super().__init__(problem, remedy=remedy)
        self.limit, self.value, self.most = limit, value, most


class RunError(EvenhandError):
    """A run directory that is foreign, damaged, locked or cannot be written."""


class ReplayError(RunError):
    """A replay that does not reproduce the stored run."""


class MissingExtra(EvenhandError):
    """An optional package is needed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        remedy = f"pip install 'evenhand[{extra}]'"
        super().__init__(f"{purpose} needs {package}, which is not installed", remedy=remedy)


class ConfigError(EvenhandError):
    """A configuration file with an unknown key or a wrong value."""


class UnusedWarning(UserWarning):
    """A model passed because it does not use a protected attribute, or seems not to."""


FLIP = Use("criterion=eh.Flip()", "audit.criterion", "flip")
GAP = Use("criterion=eh.Gap(0.1)", "audit.criterion", 0.1)
THRESHOLD = Use("eh.wrap(model, threshold=0.5)", "model.threshold", 0.5)
TIMEOUT = Use("eh.wrap(model, timeout=...)", "model.timeout")
REGRESSION = Use("eh.wrap(model, regression=True)", "wrap.regression", True)
ARRAY = Use('eh.wrap(model, input="array")', "wrap.input", "array")
FRAME = Use('eh.wrap(model, input="frame")', "wrap.input", "frame")
SCORE_DIFFERENCES = Use("eh.Adf(gradient='scores')", "audit.settings", {"gradient": "scores"})
ORDER = Use("eh.Order([...])", "estimate.order")
DATA = Use("data=...", "data.path")
TEXTS = Use("data=[...]", "text.path")
CHUNK = Use("eh.wrap(model, chunk=...)", "audit.chunk")
WORKERS = Use("executor=4", "run.workers", 4)
IN_FLIGHT = Use("eh.Endpoint(url, in_flight=8)", "endpoint.in_flight", 8)
PROTECTED = Use("protected=['sex']", "space.protected", ["sex"])
MISSING_DROP = Use('missing="drop"', "space.missing", "drop")
MISSING_GROUP = Use('missing="group"', "space.missing", "group")
OVERRIDES = Use("overrides={...}", "space.path")
TRUST_PICKLE = Use("eh.load_model(path, trust_pickle=True)", "call.trust_pickle", True)
TEXT_SPACE = Use("eh.TextSpace", "text.path")
DIRECTORY = Use("directory=...", "audit.directory")
FAIL_ON_FINDING = Use("fail_on_finding=True", "audit.fail_on_finding", True)


def search(name: str) -> Use:
    """Name a search.

    >>> str(search("kosei"))
    "strategy='kosei'"
    """
    return Use(f"strategy={name!r}", "audit.strategy", name)


KOSEI, TEXT_RANDOM, TEXT_IMPORTANCE = search("kosei"), search("text-random"), search("text-importance")
DECIDE = ("decide with ", THRESHOLD)
AMOUNTS = ("if they are amounts, say so with ", REGRESSION, "; if scores, ", *DECIDE)
COMPARE = ("use ", GAP, ", or decide with ", THRESHOLD)
WITHOUT_GRADIENTS = (
    "use differences of scores: ", SCORE_DIFFERENCES, "; or, for labels only, ", KOSEI,
)  # fmt: skip
FOR_TEXTS = (TEXT_IMPORTANCE, " needs only scores, ", TEXT_RANDOM, " only labels")


def exclude(*names: str) -> Use:
    """Leave columns out.

    >>> str(exclude("id", "name"))
    "exclude=['id', 'name']"
    """
    return Use(f"exclude={list(names)!r}", "space.exclude", list(names))


def override(name: str, attribute: str) -> Use:
    """Write an attribute instead of inferring it."""
    return Use(f"overrides={{{name!r}: {attribute}}}", "space.path")


def trust_types(names: list[str]) -> Use:
    """Trust the types of a .skops file."""
    return Use(f"eh.load_model(path, trust={names})", "call.trust", names)
