"""When a run ends: budgets and stop reasons."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields

from evenhand._validate import check_int, check_number
from evenhand.errors import BudgetError


class StopReason(enum.Enum):
    """Why a run ended.

    >>> StopReason.TESTS.value
    'tests'
    """

    TESTS = "tests"
    ROWS = "rows"
    FINDINGS = "findings"
    SECONDS = "seconds"
    EXHAUSTED = "exhausted"
    """All tests were judged, in a space without constraints and links."""
    STALLED = "stalled"
    """Fifty blocks in a row, and a million individuals, held no fresh test."""
    FINISHED = "finished"
    """The search itself ended."""
    INTERRUPTED = "interrupted"

    @property
    def words(self) -> str:
        """The reason in words, which follow "because"."""
        return {
            "tests": "the budget of tests was reached",
            "rows": "the budget of model rows was reached",
            "findings": "the requested number of findings was reached",
            "seconds": "the time limit was reached",
            "exhausted": "every valid test was judged",
            "stalled": "no new tests came up for a long time",
            "finished": "the search was complete",
            "interrupted": "it was interrupted",
        }[self.value]


@dataclass(frozen=True)
class Budget:
    """What a run may spend; the first limit to be reached ends it. None: no limit.

    >>> Budget(tests=1000)
    Budget(tests=1000, rows=None, findings=None, seconds=None)
    """

    tests: int | None = None
    """Unique tests judged: exact."""
    rows: int | None = None
    """Rows handed to the model for any question: never exceeded."""
    findings: int | None = None
    """Unique findings: the run is cut after the last one wanted."""
    seconds: float | None = None
    """Wall-clock time of the search, checked between model calls, added up over resumes."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            # Python's own numbers, so that budgets compare and are stored alike.
            if field.name == "seconds":
                plain: float = check_number("seconds", value, BudgetError, above=0)
            else:
                plain = check_int(field.name, value, BudgetError, 1)
            object.__setattr__(self, field.name, plain)
