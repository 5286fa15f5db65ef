from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand._format import number, number_interval, plain
from evenhand.runs.pair_sentences import Pair, pairs_at, select_pairs

SPACE = eh.Space(
    [
        eh.Integer("age", 1, 30),
        eh.Nominal("work", ["clerk", "nurse", "boss"], missing=True),
        eh.Nominal("relation", ["husband", "wife", "none"]),
        eh.Nominal("sex", ["F", "M"]),
        eh.Real("rate", 0, 1, step=0.1),
    ],
    protected="sex",
    links={"sex": {"relation": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
)


def refuse(frame: pd.DataFrame) -> Any:
    return np.where((frame["age"] < 20) & (frame["sex"] == "F"), "no", "yes")


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(refuse, SPACE, "themis", eh.Budget(tests=3000))


def test_pairs_are_findings_and_unlike_each_other(run: eh.Run) -> None:
    pairs = select_pairs(run)
    assert len(pairs) == 3
    for pair in pairs:
        people = pd.DataFrame([pair.individual, pair.individual | pair.changes])
        assert list(refuse(people)) == [pair.decision, pair.counterpart_decision]
        assert pair.decision != pair.counterpart_decision
        assert "sex" in pair.changes
    first, second, third = (pair.individual for pair in pairs)
    for left, right in ((first, second), (second, third), (first, third)):
        assert sum(left[name] != right[name] for name in ("age", "work", "relation", "rate")) >= 3
    # Somebody who is refused, and somebody who is not.
    assert {pair.decision for pair in pairs} == {"no", "yes"}


def test_the_same_run_tells_the_same_pairs(run: eh.Run) -> None:
    again = eh.audit(refuse, SPACE, "themis", eh.Budget(tests=3000))
    assert [p.sentence for p in select_pairs(run)] == [p.sentence for p in select_pairs(again)]


def test_linked_attributes_are_mentioned(run: eh.Run) -> None:
    everyone = pairs_at(run.pairs, np.arange(run.found))
    married = next(p for p in everyone if p.individual["relation"] == "wife" and p.individual["sex"] == "F")
    assert married.sentence.endswith("The same person with sex M and relation husband: yes.")
    single = next(p for p in everyone if p.individual["relation"] == "none")
    assert list(single.changes) == ["sex"]
    unknown = next(p for p in everyone if p.individual["work"] is None)
    assert "work missing" in unknown.sentence
    assert unknown.to_dict()["individual"]["work"] is None
    json.dumps(unknown.to_dict(), allow_nan=False)


def test_pairs_resemble_real_people(run: eh.Run) -> None:
    real = {"age": 7, "work": "nurse", "relation": "none", "sex": "F", "rate": 0.5}
    for pair in select_pairs(run, data=pd.DataFrame([real])):
        assert abs(pair.individual["age"] - 7) <= 2
        assert sum(pair.individual[name] != real[name] for name in ("work", "relation")) <= 1


def test_large_gaps_come_first() -> None:
    space = eh.Space([eh.Integer("age", 1, 900), eh.Boolean("sex")], protected="sex")
    run = eh.audit(lambda f: f["age"] / 1000 * f["sex"], space, "themis", criterion=eh.Gap(0.1))
    pairs = select_pairs(run)
    assert min(pair.gap for pair in pairs) >= 0.8
    assert "(scores 0." in pairs[0].sentence
    assert isinstance(pairs[0].decision, float)


def test_few_or_none() -> None:
    space = eh.Space([eh.Integer("age", 1, 2), eh.Boolean("sex")], protected="sex")
    assert select_pairs(eh.audit(lambda f: f["age"] > 1, space, "themis")) == []
    assert len(select_pairs(eh.audit(lambda f: f["sex"], space, "themis"))) == 2
    assert select_pairs(eh.audit(lambda f: f["sex"], space, "themis"), 0) == []


def test_nothing_that_a_terminal_obeys() -> None:
    pair = Pair({"na\x1b[2Jme": "a\nb", "rate": 0.1 + 0.2}, {"rate": np.nan}, True, 3, 1.0)
    assert pair.sentence.isprintable()
    assert "rate 0.3" in pair.sentence
    assert plain(12345678) == "12345678"
    assert plain(1234.5678) == "1234.57"


@given(st.floats(-1e14, 1e14).filter(lambda value: value == 0 or abs(value) > 1e-8), st.integers(1, 9))
def test_numbers_are_close_and_no_powers_of_ten(value: float, digits: int) -> None:
    text = number(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.5 * 10.0 ** (1 - digits) * (1 + 1e-9))
    # What is before the point is never rounded away.
    assert abs(float(text.replace(",", "")) - value) <= 0.5 + 1e-2


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_intervals_of_numbers_are_rounded_outwards(low: float, more: float) -> None:
    ends = [float(end.replace(",", "")) for end in number_interval(low, low + more).split(" to ")]
    slack = 1e-11 * max(abs(low), abs(low + more))
    assert ends[0] <= low + slack
    assert ends[1] >= low + more - slack
    # What is shown excludes 0 where the interval does.
    assert (ends[0] > 0) == (low > 0)
    assert (ends[1] < 0) == (low + more < 0)


def test_large_numbers_keep_their_digits() -> None:
    assert plain(1234567.0) == "1234567"
    pair = Pair({"age": 3}, {"sex": "M"}, 1234567.0, 5450.5, 1229116.75, measured=True)
    assert pair.sentence == "age 3: 1,234,567. The same person with sex M: 5,450.5 (scores 1,229,117 apart)."
