"""Examples: their figures are correct, distinct ones differ, and realism recognises real people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import DataError, ModelError, RunError, StrategyError
from evenhand.spaces.realism import Realism

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


def test_cases_describe_words(run: eh.Run) -> None:
    examples = eh.examples(run, data=PEOPLE, n=5)
    assert 0 < len(examples) <= 5
    assert sum(example.stands_for for example in examples) == run.found == examples.found
    for example in examples:
        assert example.row is not None
        assert example.person == PEOPLE.iloc[example.row].to_dict()
        # No real person is under 30: the least that has to change is age, to 28.
        assert example.changed["age"] == (example.person["age"], 28)
        one = pd.DataFrame([example.pair.individual])
        other = one.assign(**example.pair.changes)
        assert [bool(refuse(f)[0]) for f in (one, other)] == [example.pair.decision, example.pair.counterpart_decision]
        assert example.pair.decision != example.pair.counterpart_decision
        changed = {**example.person, **{name: new for name, (_, new) in example.changed.items()}}
        assert example.pair.individual == changed
        assert 0 <= example.nearness <= 1
    assert list(examples[0].changed) == ["age"]
    first, second = (eh.examples(run, data=PEOPLE, n=5, seed=1).to_dict() for _ in range(2))
    assert json.loads(json.dumps(first)) == second


def test_cases_are_distinct_and_ranked(run: eh.Run) -> None:
    examples = eh.examples(run, data=PEOPLE, n=8).examples
    counts = [len(example.changed) for example in examples]
    assert counts == sorted(counts)
    for i, example in enumerate(examples):
        for other in examples[:i]:
            alike = sum(example.pair.individual[name] == other.pair.individual[name] for name in SPACE.names)
            directions = [(c.pair.decision, c.pair.individual["sex"]) for c in (example, other)]
            assert alike <= len(SPACE.names) - 2 or directions[0] != directions[1]


def test_a_real_person_who_is_treated_differently_needs_no_change() -> None:
    run = eh.audit(lambda f: (f["age"] > 58) & (f["sex"] == "M"), SPACE, "themis", eh.Budget(tests=500))
    example = eh.examples(run, data=PEOPLE, n=1)[0]
    assert example.changed == {}
    assert example.distance == 0
    assert example.realistic
    assert f"row {example.row:,} of the data without any change" in example.sentence


def test_without_data_findings_go_to_the_centre(run: eh.Run) -> None:
    examples = eh.examples(run, n=3)
    assert examples.realistic is None
    assert "without data" in repr(examples)
    for example in examples:
        assert (example.row, example.nearness, example.odd, example.realistic) == (None, None, None, None)
        # The middle of 18 to 90 is 54, of 0 to 80 it is 40: the nearest to it are 28 years and 39 hours.
        assert example.pair.individual["age"] == 28
        assert example.pair.individual["hours"] == 39
    json.dumps(examples.to_dict())


def test_realism_knows_real_people_from_others() -> None:
    data = SPACE.encode(PEOPLE).individuals
    real = Realism(SPACE, data)
    assert real.likeness(data.rows).realistic.mean() > 0.9
    uniform = SPACE.sampler.draw(Stream(1), 0, 500)[0]
    assert real.likeness(uniform.rows).realistic.mean() < 0.1
    # A female husband: no such person in 600, though a quarter of them are husbands and half women.
    odd = SPACE.individuals([[20, 40, 1, 0]]).rows
    assert real.likeness(odd).odd.tolist() == [1 / 6]
    assert real.odd_pairs(odd[0]) == [("status", "sex")]
    assert not real.likeness(odd).realistic[0]


def test_the_share_of_realistic_findings_is_reported(run: eh.Run) -> None:
    examples = eh.examples(run, data=PEOPLE, n=1)
    truth = Realism(SPACE, SPACE.encode(PEOPLE).individuals).likeness(run.pairs.individuals().rows).realistic
    assert examples.realistic == pytest.approx(truth.mean())
    assert examples.realistic_of == run.found


def test_links_and_constraints_are_kept() -> None:
    space = eh.Space(
        SPACE.attributes,
        protected="sex",
        constraints=['if status == "husband" then sex == "M"', 'if status == "wife" then sex == "F"'],
        links={"sex": {"status": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
    )
    run = eh.audit(refuse, space, "kosei", eh.Budget(tests=1_000))
    examples = eh.examples(run, data=PEOPLE, n=5)
    for example in examples:
        one = pd.DataFrame([example.pair.individual])
        space.encode(pd.concat([one, one.assign(**example.pair.changes)]), strict=True)
        assert len(set(refuse(pd.concat([one, one.assign(**example.pair.changes)])))) == 2
        assert example.person["status"] == "single" or set(example.pair.changes) == {"sex", "status"} or example.changed


def test_gaps_of_scores() -> None:
    def score(frame: pd.DataFrame) -> Any:
        return frame["age"] / 100 + 0.3 * ((frame["sex"] == "F") & (frame["hours"] > 60))

    run = eh.audit(score, SPACE, "themis", eh.Budget(tests=300), criterion=eh.Gap(0.2))
    for example in eh.examples(run, data=PEOPLE, n=3):
        assert example.pair.gap == pytest.approx(0.3)
        assert example.changed["hours"][1] == 61


def test_no_findings_no_cases() -> None:
    examples = eh.examples(eh.audit(lambda f: f["age"] > 40, SPACE, "themis", eh.Budget(tests=100)), data=PEOPLE)
    assert len(examples) == 0
    assert examples.frame.empty
    assert "0 distinct examples" in repr(examples)


def test_from_a_directory(tmp_path: Path, run: eh.Run) -> None:
    eh.audit(refuse, SPACE, "kosei", eh.Budget(tests=3_000), directory=tmp_path)
    stored = eh.Run.load(tmp_path)
    assert eh.examples(stored, refuse, PEOPLE, 3).to_dict() == eh.examples(run, data=PEOPLE, n=3).to_dict()
    with pytest.raises(ModelError, match=r"eh\.examples\(run, model\)"):
        eh.examples(stored)


def test_wrong_input(run: eh.Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"eh\.Run\.load"):
        eh.examples(tmp_path)  # type: ignore[arg-type]
    for given in ({"n": 0}, {"rows": 0}, {"seed": -1}, {"n": 2.5}):
        with pytest.raises(StrategyError, match=next(iter(given))):
            eh.examples(run, **given)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="none of the 2 rows"):
        eh.examples(run, data=PEOPLE.head(2).assign(status="widow"))


def test_a_frame_of_cases(run: eh.Run) -> None:
    examples = eh.examples(run, data=PEOPLE, n=4)
    frame = examples.frame
    assert len(frame) == len(examples)
    assert list(frame["row"]) == [example.row for example in examples]
    assert set(SPACE.names) | {"counterpart_sex", "decision", "stands_for", "nearness"} <= set(frame.columns)


RACES = eh.Space([eh.Integer("age", 18, 60), eh.Nominal("race", ["A", "B", "C", "D"])], protected="race")


@pytest.mark.parametrize("middle", [0.5, 0.2])
def test_row_statements_hold_if_other_pairs_differ_more(middle: float) -> None:
    marks = {"A": 0.1, "B": middle, "C": middle, "D": 0.9}

    def score(frame: pd.DataFrame) -> Any:
        p = np.where(frame["age"] < 30, [marks[race] for race in frame["race"]], 0.5)
        return np.column_stack([1 - p, p])

    run = eh.audit(score, RACES, "themis", eh.Budget(tests=500), criterion=eh.Gap(0.6))
    data = pd.DataFrame({"age": [25, 26, 41] * 20, "race": ["C", "B", "B"] * 20})
    for example in eh.examples(run, data=data, n=3):
        assert example.person == data.iloc[example.row].to_dict()
        assert example.pair.individual == example.person | {name: new for name, (_, new) in example.changed.items()}
        assert ("without any change" in example.sentence) == (example.pair.individual == example.person)
        # Of 0.2, 0.9 is far enough; of 0.5 none is, so that another race is shown, and said to be.
        assert ("race" in example.changed) == (middle == 0.5)
        assert example.distance == pytest.approx(sum(abs(b - a) / 42 if n == "age" else 1 for n, (a, b) in
                                                  example.changed.items()))  # fmt: skip
        one = pd.DataFrame([example.pair.individual])
        apart = np.abs(score(one) - score(one.assign(**example.pair.changes))).max()
        assert example.pair.gap == pytest.approx(apart)
        assert apart > 0.6


@pytest.mark.parametrize("rows", [1_300, 3_000, 200_000])
def test_unchanged_people_rank_first(rows: int) -> None:
    def rule(frame: pd.DataFrame) -> Any:
        return (frame["age"] == 41) & (frame["hours"] > 46) & (frame["sex"] == "F")

    swapped = PEOPLE.assign(sex=PEOPLE["sex"].map({"F": "M", "M": "F"}))
    affected = set(np.flatnonzero(rule(PEOPLE) != rule(swapped)).tolist())
    run = eh.audit(rule, SPACE, "kosei", eh.Budget(tests=3_000))
    assert run.found
    examples = eh.examples(run, data=PEOPLE, n=len(affected) + 2, rows=rows)
    unchanged = [example.row for example in examples if not example.changed]
    assert unchanged
    assert set(unchanged) <= affected
    assert [bool(example.changed) for example in examples] == sorted(bool(example.changed) for example in examples)
    if rows < 4 * len(PEOPLE):
        assert examples.judged == rows // 4
        assert not examples.complete
    else:
        assert (examples.judged, examples.affected) == (len(PEOPLE), len(affected))
    assert ("the row limit was reached" in repr(examples)) == (not examples.complete)


def test_few_rows_are_used_and_not_given_back() -> None:
    def far(frame: pd.DataFrame) -> Any:
        return (frame["age"] < 25) & (frame["sex"] == "F")

    run = eh.audit(far, SPACE, "themis", eh.Budget(tests=2_000))
    examples = eh.examples(run, data=PEOPLE.head(20), n=4, rows=400)
    assert not examples.complete
    # No real person is under 30, and nothing but the age matters.
    assert list(examples[0].changed) == ["age"]
    assert examples.rows <= 400 + 2 * len(SPACE.protected) * 3 * 4 * 2


def test_real_people_are_reported_without_findings() -> None:
    run = eh.audit(refuse, SPACE, "themis", eh.Budget(tests=1), seed=1)
    assert not run.found
    young = PEOPLE.head(5).assign(age=[20, 60, 60, 60, 60], hours=20)
    examples = eh.examples(run, data=young)
    assert [example.row for example in examples] == [0]
    assert examples[0].finding is None
    assert (examples.realistic, examples.found, examples.affected) == (None, 0, 1)
    json.dumps(examples.to_dict())


def test_a_row_outside_the_space_is_not_shown_as_recorded() -> None:
    run = eh.audit(lambda f: (f["age"] > 80) & (f["sex"] == "F"), SPACE, "themis", eh.Budget(tests=500))
    data = PEOPLE.head(2).assign(age=[99, 40])
    example = eh.examples(run, data=data, n=1)[0]
    assert example.row == 0
    assert example.person == data.iloc[0].to_dict()
    assert example.changed == {"age": (99, 90)}
    assert example.distance == pytest.approx(9 / 72)
    assert "age 90 instead of 99" in example.sentence
