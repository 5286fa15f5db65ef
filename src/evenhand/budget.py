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
        """Say it to a reader."""
        return {
            "tests": "the budget of tests was reached",
            "rows": "the budget of model rows was reached",
            "findings": "the wanted number of findings was reached",
            "seconds": "the time was up",
            "exhausted": "every valid test was judged",
            "stalled": "nothing new came up for a long time",
            "finished": "the search came to its end",
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
            # Plain numbers, whatever library's number it was, so that budgets compare and are stored alike.
            if field.name == "seconds":
                plain: float = check_number("seconds", value, BudgetError, above=0)
            else:
                plain = check_int(field.name, value, BudgetError, 1)
            object.__setattr__(self, field.name, plain)
