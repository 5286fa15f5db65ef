from __future__ import annotations

import sys
from typing import Any

import pytest

import evenhand as eh
from evenhand.repairs.evidence import movable

from .people import QUICK, SMALL, SPACE, Coded, by_pay, favouring, people, repair, tree


def repaired(estimator: Any, **options: Any) -> eh.Repair:
    X, y = people(300)
    return repair(estimator, X, y, SPACE, "counterfactual", **{**QUICK, **options})


def test_discrimination_that_moved_is_reported() -> None:
    def train(X: Any, y: Any) -> Any:
        if len(X) == 210:
            return by_pay({"F": 12, "M": 8})
        return lambda frame: (frame["pay"] >= frame["work"].map({"a": 5, "b": 10, "c": 15}).astype(int)).astype(int)

    for samples in (500, 5000):
        done = repaired(train, samples=samples)
        assert done.changed
        assert done.moved == ("work",)
        assert "more people than before depend on work (difference +" in done.verdict
        assert all(shift.rose == (shift.difference.low > 0) for shift in done.shifts)
    assert repaired(train, watch=()).moved == ()
    assert repaired(train, watch="age").moved == ()


def test_no_false_alarms_about_other_attributes() -> None:
    """Two equal models, asked alike: nothing moved, however many attributes are watched."""
    done = repaired(lambda X, y: by_pay({"F": 12, "M": 8}), samples=400, watch=("age", "work", "pay"))
    assert [shift.attribute for shift in done.shifts] == ["age", "work", "pay"]
    assert done.moved == ()
    assert "discrimination stayed at" in done.verdict


def test_ordered_attributes_are_watched_and_others_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(X: Any, y: Any) -> Any:
        if len(X) == 210:
            return by_pay({"F": 12, "M": 8})
        return lambda F: (F["pay"] >= 12 - 4 * (F["age"] > 9)).astype(int)

    done = repaired(train)
    assert done.moved == ("age",)
    assert (done.settings["watched"], done.settings["not_watched"]) == (["work", "age", "pay"], [])
    assert done.notes == []
    monkeypatch.setattr("evenhand.repairs.repair.MOST_WATCHED", 1)
    done = repaired(train)
    assert (done.settings["watched"], done.settings["not_watched"]) == (["work"], ["age", "pay"])
    assert done.notes == ["not checked: whether more people depend on age, pay"]
    paper = eh.datasets.load("adult").paper_space(protected=["sex"])
    assert movable(paper) == [name for name in paper.names if name != "sex"]


def test_attributes_without_unused_counterparts_are_skipped() -> None:
    X, y = favouring(SMALL, 60, 0)
    done = repair(tree(), X, y, SMALL, "counterfactual", held_out=favouring(SMALL, 200, 1), **QUICK)
    assert set(done.settings["watched"]) | set(done.settings["not_watched"]) == {"a", "b"}
    assert set(done.before.others) == set(done.settings["watched"])


def test_held_out_rows_that_look_like_added_ones_are_counted() -> None:
    X, y = people(300)
    held, seen = people(150, 9), []

    def train(X: Any, y: Any) -> Any:
        seen.append(X)
        return eh.wrap(Coded(random_state=0).fit(X, y), input="frame")

    done = repair(train, X, y, SPACE, "counterfactual", held_out=held, **QUICK)
    added = set(seen[1].iloc[300:].itertuples(index=False, name=None))
    by_hand = sum(row in added for row in held[0].itertuples(index=False, name=None))
    assert done.settings["held_out_rows_added"] == by_hand > 0


def test_missing_extra_is_noted_instead_of_group_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fairlearn.metrics", None)
    done = repaired(Coded(), favourable=1)
    assert done.before.groups is None
    assert done.notes == [
        "the comparison of groups needs fairlearn, which is not installed; pip install 'evenhand[fairness]'"
    ]
