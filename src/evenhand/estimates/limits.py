"""A limit on discrimination, and whether what was found keeps it: pass, fail, or too few tests to say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from evenhand._format import percent
from evenhand._validate import is_int
from evenhand.budget import StopReason
from evenhand.errors import BudgetError

if TYPE_CHECKING:
    from evenhand.estimates.result import Estimate
    from evenhand.runs.run import Run


class Outcome(Enum):
    """Whether a limit is kept."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "too few tests to say"


@dataclass(frozen=True)
class Limit:
    """At most so many findings of a search, or at most such a share of individuals.

    >>> Limit.of(3), Limit.of("5%")
    (Limit(findings=3, share=None), Limit(findings=None, share=0.05))
    """

    findings: int | None = None
    share: float | None = None

    @classmethod
    def of(cls, value: Any) -> Limit:
        """Read a limit: a whole number of findings, or a text such as "5%"."""
        if isinstance(value, cls):
            return value
        if is_int(value) and value >= 0:
            return cls(findings=int(value))
        if isinstance(value, str) and value.strip().endswith("%"):
            try:
                share = float(value.strip()[:-1]) / 100
            except ValueError:
                share = -1.0
            if 0 <= share <= 1:
                return cls(share=share)
        raise BudgetError(f"a limit is a number of findings, 0 or more, or a share such as '5%'; got {value!r}")

    def of_run(self, run: Run) -> Outcome:
        """Judge a search by the number of its findings; more of them are known whenever it ended."""
        assert self.findings is not None
        if run.found > self.findings:
            return Outcome.FAIL
        return Outcome.UNDECIDED if not run.tests or run.stop is StopReason.INTERRUPTED else Outcome.PASS

    def of_estimate(self, found: Estimate) -> Outcome:
        """Judge an estimate by its interval: beyond the limit, within it, or neither.

        >>> import evenhand as eh
        >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
        >>> Limit(share=0.05).of_estimate(eh.estimate(lambda f: f["age"] > 3, space)).value
        'pass'
        """
        assert self.share is not None
        if found.unaware and not found.found:
            return Outcome.PASS
        if found.exact:
            return Outcome.FAIL if found.rate > self.share else Outcome.PASS
        if found.low > self.share:
            return Outcome.FAIL
        return Outcome.PASS if found.high <= self.share else Outcome.UNDECIDED

    def __str__(self) -> str:
        return f"{self.findings:,} findings" if self.share is None else percent(self.share)
