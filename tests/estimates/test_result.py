"""Estimates in words, and limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand._format import high, interval, level, low, number, percent
from evenhand._rng import Stream
from evenhand.criteria import Criterion
from evenhand.errors import BudgetError, StrategyError
from evenhand.estimates.favoured import Comparison
from evenhand.estimates.result import Limit, Outcome, line, outcome_of_findings
from evenhand.runs.run import RunEstimate


@given(st.floats(1e-12, 1))
def test_percentages_are_never_powers_of_ten(share: float) -> None:
    text = percent(share)
    assert text.endswith("%")
    assert "e" not in text
    assert float(text[:-1]) / 100 == pytest.approx(share, rel=0.006)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_shown_intervals_contain_the_measured_ones(one: float, other: float) -> None:
    ends = sorted((one, other))
    shown = [float(end.removesuffix("%")) / 100 for end in interval(*ends).split(" to ")]
    assert shown[0] <= ends[0] + 1e-9 * abs(ends[0])
    assert shown[1] >= ends[1] - 1e-9 * abs(ends[1])
    assert np.sign(shown).tolist() == np.sign(ends).tolist()
    assert np.allclose(shown, ends, rtol=0.011, atol=1e-300)
    assert [low(ends[0]), high(ends[1])] == interval(*ends).split(" to ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(5452.4, "5,452"), (0.5, "0.5"), (0, "0"), (-1234567, "-1,234,567"), (float("inf"), "inf"), (2.0, "2")],
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1, "100%"), (0.1, "10%"), (0.12345, "12.3%"), (-0.02, "-2%"), (3e-5, "0.003%")],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_level() -> None:
    assert [level(c) for c in (0.9, 0.95, 0.999)] == ["90%", "95%", "99.9%"]


def comparison(**kwargs) -> Comparison:
    given = {
        "first": {"sex": "F"}, "second": {"sex": "M"}, "pairs": 1000, "different": 50, "rate": 0.05, "low": 0.04,
        "high": 0.06, "first_favoured": 30, "second_favoured": 20, "gross": 0.05, "net": 0.01, "net_low": -0.01,
        "net_high": 0.03,
        "p_value": 0.2, "gaps": None, "verdict": "insufficient evidence",
    }  # fmt: skip
    return Comparison(**{**given, **kwargs})


def test_comparisons_are_said_from_the_favoured_side() -> None:
    assert line(comparison()) == (
        "sex F against sex M: insufficient evidence; net 1% (-1% to 3%), F in 3% of pairs, M in 2%"
    )
    turned = comparison(first_favoured=5, second_favoured=45, net=-0.04, net_low=-0.06, net_high=-0.02,
                        verdict="favours second")  # fmt: skip
    assert line(turned) == "sex M favoured over sex F: net 4% (2% to 6%), M in 4.5% of pairs, F in 0.5%"
    exact = comparison(net=0.04, net_low=0.04, net_high=0.04, verdict="favours first")
    assert line(exact).startswith("sex F favoured over sex M: net 4%, ")
    plain = comparison(net=None, net_low=None, net_high=None, verdict="different")
    assert line(plain) == "sex F and sex M: 5% differ (4% to 6%); different"


@pytest.mark.parametrize("criterion", [eh.Gap(0.6), eh.Flip() & eh.Gap(0.6), eh.Flip()])
def test_individuals_that_do_not_differ_are_not_said_to(criterion: Criterion) -> None:
    marks = {"A": 0.1, "B": 0.5, "C": 0.9}

    def score(frame: pd.DataFrame) -> np.ndarray:
        p = np.array([marks[race] for race in frame["race"]])
        return np.column_stack([1 - p, p])

    for values in (["A", "B", "C"], ["A", "C"]):
        space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("race", values)], protected="race")
        found = eh.estimate(score, space, eh.populations.Uniform(exact=True), criterion=criterion)
        two_others = "are treated differently for some pair of values of race" in found.sentence
        assert two_others == (len(values) > 2 and criterion != eh.Flip())


SPACE = eh.Space([eh.Integer("age", 1, 100), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] <= 10) & (frame["sex"] == "F")


@pytest.mark.parametrize(("text", "share"), [("0%", 0), ("5%", 0.05), (" 12.5% ", 0.125), ("100%", 1)])
def test_shares(text: str, share: float) -> None:
    assert Limit.of(text).share == share


@pytest.mark.parametrize("value", [-1, 0, 3, 0.5, True, "5", "x%", "-1%", "101%", "nan%", None, [1]])
def test_invalid_limits_are_refused(value: Any) -> None:
    with pytest.raises(BudgetError, match="fail_above must be a percentage.*fail_on_finding=True"):
        Limit.of(value)


@pytest.mark.parametrize(
    ("limit", "tests", "outcome"),
    [("1%", 2000, Outcome.FAIL), ("40%", 500, Outcome.PASS), ("10%", 500, Outcome.UNDECIDED)],
)
def test_a_run_is_judged_by_its_estimate(limit: str, tests: int, outcome: Outcome) -> None:
    wide = eh.Space([*SPACE.attributes, eh.Integer("other", 0, 999)], protected=SPACE.protected)
    run = eh.audit(refuse, wide, budget=eh.Budget(tests=tests))
    assert Limit.of(limit).of_run(run) is outcome
    assert ((Limit.of(limit).needed(run) or 0) > 0) == (outcome is Outcome.UNDECIDED)


def test_no_more_tests_are_asked_for_than_there_are() -> None:
    small = eh.Space([eh.Integer("age", 0, 59), eh.Integer("hours", 0, 9), eh.Boolean("p")], protected="p")
    model = eh.wrap(lambda X: (X[:, 2] > 0) & (X[:, 0] < 6), input="array")
    run = eh.audit(model, small, budget=eh.Budget(tests=200))
    limit = Limit.of("10%")
    assert limit.of_run(run) is Outcome.UNDECIDED
    assert limit.needed(run) == 400
    assert limit.of_run(eh.audit(model, small, budget=eh.Budget(tests=600))) is Outcome.PASS
    # All rows were asked: more tests would not help.
    rows = small.frame(small.sampler.draw(Stream(3), 0, 30)[0].rows)
    run = eh.audit(model, small, budget=eh.Budget(tests=500), data=rows)
    assert run.estimate["data"].all_rows
    assert limit.needed(run) is None
    assert "too few rows" in limit.words(run)
    assert "more rows of data are needed" in limit.words(run)


@pytest.mark.parametrize(
    ("found", "samples", "limit"), [(0, 300, 0.01), (0, 0, 0.02), (0, 60, 0.05), (30, 1000, 0.04), (9, 80, 0.05)]
)
def test_as_many_more_draws_as_needed_decide(found: int, samples: int, limit: float) -> None:
    estimate = RunEstimate("data", found, samples)
    more = samples + estimate.needed(limit)
    enough, too_few = (RunEstimate("data", round(estimate.rate * n), n).verdict(limit) for n in (more, int(0.9 * more)))
    assert (enough is None, too_few is None) == (False, True)


@pytest.mark.parametrize(("limit", "outcome"), [("9.9%", Outcome.FAIL), ("10%", Outcome.PASS)])
def test_a_run_that_judged_everyone_leaves_no_doubt(limit: str, outcome: Outcome) -> None:
    assert Limit.of(limit).of_run(eh.audit(refuse, SPACE)) is outcome


def test_a_search_without_an_estimate_is_not_judged_by_a_rate() -> None:
    with pytest.raises(StrategyError, match="does not make.*auto"):
        Limit.of("5%").of_run(eh.audit(refuse, SPACE, "themis"))


def test_only_confirmed_findings_decide() -> None:
    run = eh.audit(refuse, SPACE, "themis")
    assert outcome_of_findings(run) is Outcome.FAIL
    assert outcome_of_findings(eh.audit(refuse, SPACE, "themis", confirm=0)) is Outcome.UNDECIDED
    fair = eh.audit(lambda frame: frame["age"] > 3, SPACE, "themis")
    assert outcome_of_findings(fair) is Outcome.PASS
    fair.stop = eh.StopReason.INTERRUPTED
    assert outcome_of_findings(fair) is Outcome.UNDECIDED


@pytest.mark.parametrize(("limit", "outcome"), [("9.9%", Outcome.FAIL), ("10%", Outcome.PASS)])
def test_an_exact_share_leaves_no_doubt(limit: str, outcome: Outcome) -> None:
    assert Limit.of(limit).of_estimate(eh.estimate(refuse, SPACE)) is outcome


@pytest.mark.parametrize(
    ("samples", "limit", "outcome"),
    [(2000, "5%", Outcome.FAIL), (2000, "20%", Outcome.PASS), (2000, "10%", Outcome.UNDECIDED),
     (20, "20%", Outcome.UNDECIDED), (2000, "0%", Outcome.FAIL)],
)  # fmt: skip
def test_a_sample_is_judged_by_its_interval(samples: int, limit: str, outcome: Outcome) -> None:
    found = eh.estimate(refuse, SPACE, eh.populations.Uniform(exact=False), samples=samples)
    assert Limit.of(limit).of_estimate(found) is outcome
