from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import BudgetError
from evenhand.estimates.limits import Limit, Outcome

SPACE = eh.Space([eh.Integer("age", 1, 100), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] <= 10) & (frame["sex"] == "F")


@given(st.integers(0, 10**9))
def test_counts(n: int) -> None:
    assert Limit.of(n) == Limit(findings=n)


@pytest.mark.parametrize(("text", "share"), [("0%", 0), ("5%", 0.05), (" 12.5% ", 0.125), ("100%", 1)])
def test_shares(text: str, share: float) -> None:
    assert Limit.of(text).share == share


@pytest.mark.parametrize("value", [-1, 0.5, True, "5", "x%", "-1%", "101%", "nan%", None, [1]])
def test_what_is_no_limit(value: Any) -> None:
    with pytest.raises(BudgetError, match="a limit is"):
        Limit.of(value)


@pytest.mark.parametrize(("limit", "outcome"), [(9, Outcome.FAIL), (10, Outcome.PASS)])
def test_a_run_is_judged_by_its_findings(limit: int, outcome: Outcome) -> None:
    assert Limit.of(limit).of_run(eh.audit(refuse, SPACE, "themis")) is outcome


def test_a_run_that_was_interrupted_can_only_fail() -> None:
    run = eh.audit(refuse, SPACE, "themis")
    run.stop = eh.StopReason.INTERRUPTED
    assert Limit.of(10).of_run(run) is Outcome.UNDECIDED
    assert Limit.of(9).of_run(run) is Outcome.FAIL


@pytest.mark.parametrize(("limit", "outcome"), [("9.9%", Outcome.FAIL), ("10%", Outcome.PASS)])
def test_an_exact_share_leaves_no_doubt(limit: str, outcome: Outcome) -> None:
    assert Limit.of(limit).of_estimate(eh.estimate(refuse, SPACE)) is outcome


@pytest.mark.parametrize(
    ("samples", "limit", "outcome"),
    [(2000, "5%", Outcome.FAIL), (2000, "20%", Outcome.PASS), (2000, "10%", Outcome.UNDECIDED),
     (20, "20%", Outcome.UNDECIDED), (2000, "0%", Outcome.FAIL)],
)  # fmt: skip
def test_a_sample_is_judged_by_its_interval(samples: int, limit: str, outcome: Outcome) -> None:
    found = eh.estimate(refuse, SPACE, exact=False, samples=samples)
    assert Limit.of(limit).of_estimate(found) is outcome
