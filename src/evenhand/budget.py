"""When a run ends: budgets and stop reasons."""

from __future__ import annotations

import enum
import math
import numbers
from dataclasses import dataclass, fields

from evenhand.errors import BudgetError


def whole(value: object) -> bool:
    """Tell a whole number, of Python or NumPy, from anything else.

    >>> whole(3), whole(True), whole(3.0)
    (True, False, False)
    """
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def number(value: object) -> bool:
    """Tell a finite number, of Python or NumPy, from anything else.

    >>> number(0.5), number(float("nan")), number("1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


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
            "exhausted": "every legal test was judged",
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
            seconds = field.name == "seconds"
            if not (number(value) if seconds else whole(value)) or not value > 0:
                kind = "a number" if seconds else "a whole number"
                raise BudgetError(f"budget: {field.name} must be {kind} above 0, got {value!r}")
            # Plain numbers, whatever library's number it was, so that budgets compare and are stored alike.
            object.__setattr__(self, field.name, float(value) if seconds else int(value))
