"""When a run ends: budgets and stop reasons."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from typing import Any

from evenhand._validate import check_int, check_number, is_int
from evenhand.errors import BudgetError


class StopReason(enum.Enum):
    """Why a run ended.

    >>> StopReason.TESTS.value
    'tests'
    """

    words: str
    """The reason, as words that follow "because"."""

    def __new__(cls, value: str, words: str = "") -> StopReason:
        """Create a reason whose value is its name."""
        made = object.__new__(cls)
        made._value_, made.words = value, words
        return made

    TESTS = "tests", "the budget of tests was reached"
    ROWS = "rows", "the budget of model rows was reached"
    FINDINGS = "findings", "the requested number of findings was reached"
    SECONDS = "seconds", "the time limit was reached"
    REQUESTS = "requests", "the budget of requests was reached"
    """Only for models behind HTTP."""
    EXHAUSTED = "exhausted", "every valid test was judged"
    """All tests were judged, in a space without constraints and links."""
    STALLED = "stalled", "no new tests came up for a long time"
    """Fifty blocks in a row, with a million individuals, had no fresh test."""
    FINISHED = "finished", "the search was complete"
    """The search itself ended."""
    INTERRUPTED = "interrupted", "it was interrupted"


@dataclass(frozen=True)
class Budget:
    """What a run may spend; the first limit that is reached ends it. None: no limit.

    >>> Budget(tests=1000)
    Budget(tests=1000, rows=None, findings=None, seconds=None, requests=None)
    """

    tests: int | None = None
    """Unique tests judged: exact."""
    rows: int | None = None
    """Rows handed to the model for any question: never exceeded."""
    findings: int | None = None
    """Unique findings: the run is cut after the last one wanted."""
    seconds: float | None = None
    """Wall-clock time of the search, checked between model calls, added up over resumes."""
    requests: int | None = None
    """Requests sent to an endpoint in this call: never exceeded. Other models send none."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            # Plain Python numbers, so that equal budgets compare and are stored the same.
            if field.name == "seconds":
                plain: float = check_number("seconds", value, BudgetError, above=0)
            else:
                plain = check_int(field.name, value, BudgetError, 1)
            object.__setattr__(self, field.name, plain)

    @classmethod
    def of(cls, value: Any) -> Budget | None:
        """Return a number of tests as a budget; a budget or None as it is.

        >>> Budget.of(500) == Budget(tests=500), Budget.of(None)
        (True, None)
        """
        if value is None or isinstance(value, Budget):
            return value
        if is_int(value):
            return cls(tests=value)
        raise BudgetError("must be an eh.Budget", parameter="budget", value=value, remedy="use eh.Budget(tests=1000)")

    def to_dict(self) -> dict[str, Any]:
        """Return the limits by name; that of requests only if it is set.

        >>> Budget(rows=5).to_dict()
        {'tests': None, 'rows': 5, 'findings': None, 'seconds': None}
        """
        return {name: limit for name, limit in vars(self).items() if name != "requests" or limit is not None}
