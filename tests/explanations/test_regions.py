"""Regions equal the planted rules, fair models have none, and their figures are correct."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.regions import KINDS, fair, planted, regions_of, right, support_of

import evenhand as eh
from evenhand.errors import EvenhandError, ModelError, RunError, StrategyError

SPACE = eh.Space(
    [eh.Integer("hours", 0, 60), eh.Nominal("work", ["clerk", "nurse", "cook"]), eh.Boolean("sex")], protected="sex"
)


def refuse(frame: pd.DataFrame) -> Any:
    return (frame["hours"] >= 45) & (frame["work"] == "nurse") & frame["sex"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_planted_rule_is_the_first_region(kind: str) -> None:
    model = planted(kind, 1)
    found = regions_of(model, 1)
    assert right(model, found), (found, [rule.words for rule in model.rules])
    for region in found[: len(model.rules)]:
        assert region.support == pytest.approx(support_of(region.rule))
        assert region.inside.low <= model.inside <= region.inside.high or model.inside == 1 == region.rate
        assert region.p_value < 0.01


@pytest.mark.parametrize("number", range(6))
def test_without_a_rule_there_is_no_region(number: int) -> None:
    found = regions_of(fair(number), number, tests=500)
    assert not len(found)
    assert "no region" in found.sentence


def test_regions_side_by_side_are_two() -> None:
    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Boolean("sex")], protected="sex")

    def model(frame: pd.DataFrame) -> Any:
        return frame["sex"] & (frame["b"] < 50) & ((frame["a"] < 40) | (frame["a"] >= 50))

    found = eh.regions(eh.audit(model, space, "themis", eh.Budget(tests=100)))
    assert {region.words for region in found} == {"a <= 39 and b <= 49", "a >= 50 and b <= 49"}


@pytest.mark.parametrize("seed", range(3))
def test_every_region_is_treated_differently_more_often_than_the_rest(seed: int) -> None:
    """Also one that is worse than what no region covers, but better than the average."""
    space = eh.Space(
        [eh.Integer("x", 0, 99), eh.Integer("y", 0, 99), eh.Integer("z", 0, 99), eh.Boolean("sex")], protected="sex"
    )

    def refuse(frame: Any) -> Any:
        often, here = (frame["x"] >= 60) & (frame["y"] >= 10), frame["y"] < 10
        seldom = (frame["x"] * 31 + frame["y"] * 17 + frame["z"] * 7) % 23 == 0
        return (often | (here & seldom)) & frame["sex"]

    found = eh.regions(eh.audit(refuse, space, "themis", eh.Budget(tests=2_000)), seed=seed)
    assert found[0].words == "x >= 60 and y >= 10"
    assert all(region.inside.low > region.outside.high for region in found)
    assert found.beyond.rate > 0


def test_a_rule_that_only_findings_show() -> None:
    """One in a million: uniform individuals never meet it, a run that started near it does."""
    space = eh.Space([*(eh.Integer(n, 0, 99) for n in "abc"), eh.Boolean("sex")], protected="sex")

    def model(frame: pd.DataFrame) -> Any:
        return frame["sex"] & (frame["a"] >= 99) & (frame["b"] >= 98) & (frame["c"] >= 98)

    run = eh.audit(model, space, "kosei", eh.Budget(tests=2_000))
    assert not len(eh.regions(run))
    data = pd.DataFrame({"a": [99] * 4, "b": [98, 99, 98, 99], "c": [98, 98, 99, 99], "sex": [True] * 4})
    run = eh.audit(model, space, eh.Symbolic(), eh.Budget(tests=300), data=data)
    assert run.found
    assert eh.regions(run)[0].words == "a = 99 and b >= 98 and c >= 98"


def test_constraints_and_missing_values() -> None:
    space = eh.Space(
        [eh.Integer("hours", 0, 60, missing=True), eh.Integer("age", 15, 80), eh.Boolean("sex")],
        protected="sex",
        constraints=["hours <= age or hours is missing"],
    )

    def model(frame: pd.DataFrame) -> Any:
        return frame["sex"] & (frame["age"] >= 70) & (frame["hours"].isna() | (frame["hours"] >= 20))

    run = eh.audit(model, space, "themis", eh.Budget(tests=500))
    region = eh.regions(run)[0]
    assert region.words == "hours >= 20 or missing and age >= 70"
    rows = space.coding.rows(np.arange(space.coding.total))
    rows = rows[space.valid(rows)]
    assert region.support == pytest.approx(region.rule.inside(rows).mean())


def test_everybody_alike() -> None:
    found = eh.regions(eh.audit(lambda frame: frame["sex"], SPACE, "themis"))
    assert not len(found)
    assert found.everybody.rate == 1
    assert "100%" in found.sentence


def test_interactions_find_the_attributes_that_matter() -> None:
    space = eh.Space([*SPACE.attributes[:2], eh.Integer("idle", 0, 9), SPACE.attributes[2]], protected="sex")
    found = eh.regions(eh.audit(refuse, space, "themis"))
    shares = {it.name: it.ends.rate for it in found.interactions}
    assert shares["idle"] == 0
    # The chance to leave the rule: 45 of 61 hours, 2 of 3 kinds of work.
    assert shares["hours"] == pytest.approx(45 / 61, abs=0.1)
    assert shares["work"] == pytest.approx(2 / 3, abs=0.1)


def test_data_support_and_rows_of_a_frame() -> None:
    frame = pd.DataFrame({"hours": [50, 10, 50, 99], "work": ["nurse", "nurse", "cook", "pilot"], "sex": [True] * 4})
    region = eh.regions(eh.audit(refuse, SPACE, "themis"), data=frame)[0]
    assert region.data_support == pytest.approx(1 / 3)
    assert region.contains(frame).tolist() == [True, False, False, False]
    assert region.sentence.startswith("hours >= 45 and work = nurse: 100% (")
    assert "33.3% of the data" in region.sentence


def test_same_seed_same_regions_also_from_a_directory(tmp_path: Path) -> None:
    run = eh.audit(refuse, SPACE, "themis", directory=tmp_path)
    done = eh.regions(run, seed=3)
    assert json.loads(json.dumps(done.to_dict())) == eh.regions(eh.Run.load(tmp_path), refuse, seed=3).to_dict()
    assert list(done.frame["rule"]) == ["hours >= 45 and work = nurse"]
    with pytest.raises(ModelError, match=r"eh\.regions\(run, model\)"):
        eh.regions(eh.Run.load(tmp_path))
    with pytest.raises(ModelError, match="not the run.s model"):
        eh.regions(eh.Run.load(tmp_path), lambda frame: ~refuse(frame))


def test_rows_are_counted_and_bounded() -> None:
    model = planted("two rules", 0)
    asked = 0

    class Counted(eh.Model):
        name, input = "counted", "array"

        def labels(self, X: Any) -> Any:
            nonlocal asked
            asked += len(X)
            return model.labels(X)

    run = eh.audit(Counted(), model.space, "themis", eh.Budget(tests=500))
    for limit in (40_000, 2_000_000):
        asked = 0
        found = eh.regions(run, rows=limit)
        assert asked == found.rows
        # The report itself, of 4,000 individuals, is always made.
        assert found.rows <= limit + 2 * 4_000
        assert found.complete == (limit == 2_000_000)
    with pytest.raises(StrategyError, match="too small"):
        eh.regions(run, rows=500)


@pytest.mark.parametrize(
    "given", [{"seed": -1}, {"confidence": 1}, {"max_regions": 0}, {"samples": 99}, {"samples": 1e4}, {"rows": True}]
)
def test_wrong_settings(given: dict[str, Any]) -> None:
    with pytest.raises(StrategyError, match=next(iter(given))):
        eh.regions(eh.audit(refuse, SPACE, "themis"), **given)


def test_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"eh\.Run\.load"):
        eh.regions(tmp_path)  # type: ignore[arg-type]
    with pytest.raises(EvenhandError, match="lacks"):
        eh.regions(eh.audit(refuse, SPACE, "themis"), data=pd.DataFrame({"hours": [1]}))


def either(frame: pd.DataFrame) -> Any:
    """Either married or from the north, but not both: no condition by itself says anything."""
    return np.where(frame["married"].astype(bool) ^ frame["region"].isin(["N", "S"]), frame["sex"] == "M", True)


def split(frame: pd.DataFrame) -> Any:
    return np.where((frame["age"] < 45) ^ (frame["hours"] < 30), frame["sex"] == "M", True)


@pytest.mark.parametrize(
    ("model", "rules"),
    [
        (either, {"married and region is not N or S", "not married and region is N or S"}),
        (split, {"age >= 45 and hours <= 29", "age <= 44 and hours >= 30"}),
    ],
)
def test_conditions_informative_only_together_are_found(model: Any, rules: set[str]) -> None:
    space = eh.Space(
        [
            eh.Integer("age", 18, 80),
            eh.Integer("hours", 0, 60),
            eh.Boolean("married"),
            eh.Nominal("region", list("NSEWX")),
            eh.Nominal("job", list("abcdefgh")),
            eh.Nominal("sex", ["F", "M"]),
        ],
        protected="sex",
    )
    found = eh.regions(eh.audit(model, space, "themis", eh.Budget(tests=500)), samples=4_000)
    assert {region.words for region in found} == rules
    assert found.beyond.rate == 0
