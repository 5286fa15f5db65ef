"""Cases: what is told of each is so, distinct ones differ, and realism knows who is real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import DataError, ModelError, RunError, StrategyError
from evenhand.shrinking.realism import Realism

SPACE = eh.Space(
    [
        eh.Integer("age", 18, 90),
        eh.Integer("hours", 0, 80),
        eh.Nominal("status", ["single", "husband", "wife"]),
        eh.Nominal("sex", ["F", "M"]),
    ],
    protected="sex",
)
RNG = np.random.default_rng(0)
SEX = RNG.choice(["F", "M"], 600)
PEOPLE = pd.DataFrame(
    {
        "age": RNG.integers(30, 60, 600),
        "hours": RNG.integers(30, 50, 600),
        "status": np.where(RNG.random(600) < 0.5, "single", np.where(SEX == "F", "wife", "husband")),
        "sex": SEX,
    }
)


def refuse(frame: pd.DataFrame) -> Any:
    return (frame["age"] < 29) & (frame["hours"] < 40) & (frame["sex"] == "F")


@pytest.fixture(scope="module")
def run() -> eh.Run:
    return eh.audit(refuse, SPACE, "kosei", eh.Budget(tests=3_000))


def test_a_case_is_what_it_says(run: eh.Run) -> None:
    cases = eh.telling(run, data=PEOPLE, n=5)
    assert 0 < len(cases) <= 5
    assert sum(case.stands_for for case in cases) == run.found == cases.found
    for case in cases:
        assert case.row is not None
        assert case.person == PEOPLE.iloc[case.row].to_dict()
        # Nobody real is under 30: the least that has to change is age, to 28.
        assert case.changed["age"] == (case.person["age"], 28)
        one = pd.DataFrame([case.pair.individual])
        other = one.assign(**case.pair.changes)
        assert [bool(refuse(f)[0]) for f in (one, other)] == [case.pair.decision, case.pair.counterpart_decision]
        assert case.pair.decision != case.pair.counterpart_decision
        changed = {**case.person, **{name: new for name, (_, new) in case.changed.items()}}
        assert case.pair.individual == changed
        assert 0 <= case.nearness <= 1
    assert list(cases[0].changed) == ["age"]
    first, second = (eh.telling(run, data=PEOPLE, n=5, seed=1).to_dict() for _ in range(2))
    assert json.loads(json.dumps(first)) == second


def test_cases_are_distinct_and_ranked(run: eh.Run) -> None:
    cases = eh.telling(run, data=PEOPLE, n=8).cases
    counts = [len(case.changed) for case in cases]
    assert counts == sorted(counts)
    for i, case in enumerate(cases):
        for other in cases[:i]:
            alike = sum(case.pair.individual[name] == other.pair.individual[name] for name in SPACE.names)
            directions = [(c.pair.decision, c.pair.individual["sex"]) for c in (case, other)]
            assert alike <= len(SPACE.names) - 2 or directions[0] != directions[1]


def test_a_real_person_who_is_treated_differently_needs_no_change() -> None:
    run = eh.audit(lambda f: (f["age"] > 58) & (f["sex"] == "M"), SPACE, "themis", eh.Budget(tests=500))
    case = eh.telling(run, data=PEOPLE, n=1)[0]
    assert case.changed == {}
    assert case.distance == 0
    assert case.realistic
    assert f"row {case.row:,} of the data as it is" in case.sentence


def test_without_data_findings_go_to_the_centre(run: eh.Run) -> None:
    cases = eh.telling(run, n=3)
    assert cases.realistic is None
    assert "no data" in repr(cases)
    for case in cases:
        assert (case.row, case.nearness, case.odd, case.realistic) == (None, None, None, None)
        # The middle of 18 to 90 is 54, of 0 to 80 it is 40: the nearest to it are 28 years and 39 hours.
        assert case.pair.individual["age"] == 28
        assert case.pair.individual["hours"] == 39
    json.dumps(cases.to_dict())


def test_realism_knows_real_people_from_others() -> None:
    data = SPACE.encode(PEOPLE).individuals
    real = Realism(SPACE, data)
    assert real.realistic(data.rows).mean() > 0.9
    uniform = SPACE.sampler.deal(eh.search.Stream(1), 0, 500)[0]
    assert real.realistic(uniform.rows).mean() < 0.1
    # A female husband: no such person in 600, though a quarter of them are husbands and half women.
    odd = SPACE.individuals([[20, 40, 1, 0]]).rows
    assert real.odd(odd).tolist() == [1 / 6]
    assert real.odd_pairs(odd[0]) == [("status", "sex")]
    assert not real.realistic(odd)[0]


def test_the_share_of_realistic_findings_is_told(run: eh.Run) -> None:
    cases = eh.telling(run, data=PEOPLE, n=1)
    truth = Realism(SPACE, SPACE.encode(PEOPLE).individuals).realistic(run.pairs.individuals().rows)
    assert cases.realistic == pytest.approx(truth.mean())
    assert cases.realistic_of == run.found


def test_links_and_constraints_are_kept() -> None:
    space = eh.Space(
        SPACE.attributes,
        protected="sex",
        constraints=['if status == "husband" then sex == "M"', 'if status == "wife" then sex == "F"'],
        links={"sex": {"status": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
    )
    run = eh.audit(refuse, space, "kosei", eh.Budget(tests=1_000))
    cases = eh.telling(run, data=PEOPLE, n=5)
    for case in cases:
        one = pd.DataFrame([case.pair.individual])
        space.encode(pd.concat([one, one.assign(**case.pair.changes)]), strict=True)
        assert len(set(refuse(pd.concat([one, one.assign(**case.pair.changes)])))) == 2
        assert case.person["status"] == "single" or set(case.pair.changes) == {"sex", "status"} or case.changed


def test_gaps_of_scores() -> None:
    def score(frame: pd.DataFrame) -> Any:
        return frame["age"] / 100 + 0.3 * ((frame["sex"] == "F") & (frame["hours"] > 60))

    run = eh.audit(score, SPACE, "themis", eh.Budget(tests=300), criterion=eh.Gap(0.2))
    for case in eh.telling(run, data=PEOPLE, n=3):
        assert case.pair.gap == pytest.approx(0.3)
        assert case.changed["hours"][1] == 61


def test_no_findings_no_cases() -> None:
    cases = eh.telling(eh.audit(lambda f: f["age"] > 40, SPACE, "themis", eh.Budget(tests=100)), data=PEOPLE)
    assert len(cases) == 0
    assert cases.frame.empty
    assert "0 distinct cases" in repr(cases)


def test_from_a_directory(tmp_path: Path, run: eh.Run) -> None:
    eh.audit(refuse, SPACE, "kosei", eh.Budget(tests=3_000), directory=tmp_path)
    stored = eh.Run.load(tmp_path)
    assert eh.telling(stored, refuse, PEOPLE, 3).to_dict() == eh.telling(run, data=PEOPLE, n=3).to_dict()
    with pytest.raises(ModelError, match=r"eh\.telling\(run, model\)"):
        eh.telling(stored)


def test_wrong_input(run: eh.Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"eh\.Run\.load"):
        eh.telling(tmp_path)  # type: ignore[arg-type]
    for given in ({"n": 0}, {"rows": 0}, {"seed": -1}, {"n": 2.5}):
        with pytest.raises(StrategyError, match=next(iter(given))):
            eh.telling(run, **given)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="none of the 2 rows"):
        eh.telling(run, data=PEOPLE.head(2).assign(status="widow"))


def test_a_frame_of_cases(run: eh.Run) -> None:
    cases = eh.telling(run, data=PEOPLE, n=4)
    frame = cases.frame
    assert len(frame) == len(cases)
    assert list(frame["row"]) == [case.row for case in cases]
    assert set(SPACE.names) | {"counterpart_sex", "decision", "stands_for", "nearness"} <= set(frame.columns)


RACES = eh.Space([eh.Integer("age", 18, 60), eh.Nominal("race", ["A", "B", "C", "D"])], protected="race")


@pytest.mark.parametrize("middle", [0.5, 0.2])
def test_what_is_said_of_a_row_is_true_where_two_others_are_farthest_apart(middle: float) -> None:
    marks = {"A": 0.1, "B": middle, "C": middle, "D": 0.9}

    def score(frame: pd.DataFrame) -> Any:
        p = np.where(frame["age"] < 30, [marks[race] for race in frame["race"]], 0.5)
        return np.column_stack([1 - p, p])

    run = eh.audit(score, RACES, "themis", eh.Budget(tests=500), criterion=eh.Gap(0.6))
    data = pd.DataFrame({"age": [25, 26, 41] * 20, "race": ["C", "B", "B"] * 20})
    for case in eh.telling(run, data=data, n=3):
        assert case.person == data.iloc[case.row].to_dict()
        assert case.pair.individual == case.person | {name: new for name, (_, new) in case.changed.items()}
        assert ("as it is" in case.sentence) == (case.pair.individual == case.person)
        # Of 0.2, 0.9 is far enough; of 0.5 nobody is, so that another race is shown, and said to be.
        assert ("race" in case.changed) == (middle == 0.5)
        assert case.distance == pytest.approx(sum(abs(b - a) / 42 if n == "age" else 1 for n, (a, b) in
                                                  case.changed.items()))  # fmt: skip
        one = pd.DataFrame([case.pair.individual])
        apart = np.abs(score(one) - score(one.assign(**case.pair.changes))).max()
        assert case.pair.gap == pytest.approx(apart)
        assert apart > 0.6


@pytest.mark.parametrize("rows", [1_300, 3_000, 200_000])
def test_whoever_needs_no_change_comes_first_however_few_rows_may_be_asked(rows: int) -> None:
    def rule(frame: pd.DataFrame) -> Any:
        return (frame["age"] == 41) & (frame["hours"] > 46) & (frame["sex"] == "F")

    swapped = PEOPLE.assign(sex=PEOPLE["sex"].map({"F": "M", "M": "F"}))
    affected = set(np.flatnonzero(rule(PEOPLE) != rule(swapped)).tolist())
    run = eh.audit(rule, SPACE, "kosei", eh.Budget(tests=3_000))
    assert run.found
    cases = eh.telling(run, data=PEOPLE, n=len(affected) + 2, rows=rows)
    unchanged = [case.row for case in cases if not case.changed]
    assert unchanged
    assert set(unchanged) <= affected
    assert [bool(case.changed) for case in cases] == sorted(bool(case.changed) for case in cases)
    if rows < 4 * len(PEOPLE):
        assert cases.judged == rows // 4
        assert not cases.complete
    else:
        assert (cases.judged, cases.affected) == (len(PEOPLE), len(affected))
    assert ("the limit of rows ended the search" in repr(cases)) == (not cases.complete)


def test_few_rows_are_used_and_not_given_back() -> None:
    def far(frame: pd.DataFrame) -> Any:
        return (frame["age"] < 25) & (frame["sex"] == "F")

    run = eh.audit(far, SPACE, "themis", eh.Budget(tests=2_000))
    cases = eh.telling(run, data=PEOPLE.head(20), n=4, rows=400)
    assert not cases.complete
    # Nobody real is under 30, and nothing but the age matters.
    assert list(cases[0].changed) == ["age"]
    assert cases.rows <= 400 + 2 * len(SPACE.protected) * 3 * 4 * 2


def test_real_people_are_told_where_the_search_found_nobody() -> None:
    run = eh.audit(refuse, SPACE, "themis", eh.Budget(tests=1), seed=1)
    assert not run.found
    young = PEOPLE.head(5).assign(age=[20, 60, 60, 60, 60], hours=20)
    cases = eh.telling(run, data=young)
    assert [case.row for case in cases] == [0]
    assert cases[0].finding is None
    assert (cases.realistic, cases.found, cases.affected) == (None, 0, 1)
    json.dumps(cases.to_dict())


def test_a_row_beyond_the_space_is_not_told_as_it_is() -> None:
    run = eh.audit(lambda f: (f["age"] > 80) & (f["sex"] == "F"), SPACE, "themis", eh.Budget(tests=500))
    data = PEOPLE.head(2).assign(age=[99, 40])
    case = eh.telling(run, data=data, n=1)[0]
    assert case.row == 0
    assert case.person == data.iloc[0].to_dict()
    assert case.changed == {"age": (99, 90)}
    assert case.distance == pytest.approx(9 / 72)
    assert "age 90 instead of 99" in case.sentence
