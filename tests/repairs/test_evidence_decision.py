from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand._format import estimated
from evenhand._intervals import clopper_pearson

from .people import QUICK, SMALL, SPACE, TINY, by_pay, favouring, people, repair, tree


def repaired(estimator: Any, **options: Any) -> eh.Repair:
    X, y = people(300)
    return repair(estimator, X, y, SPACE, "counterfactual", **{**QUICK, **options})


def worse(X: Any, y: Any) -> Any:
    return by_pay({"F": 10, "M": 8} if len(X) == 210 else {"F": 10, "M": 0})


def test_worse_models_are_not_returned() -> None:
    done = repaired(worse)
    assert not done.changed
    assert done.model is done.original
    assert done.after is done.before
    assert done.rejected is not None
    assert done.rejected.uniform.rate > done.before.uniform.rate  # type: ignore[union-attr]
    after = done.rejected.uniform
    assert after is not None
    assert done.verdict.startswith(
        f"made worse: discrimination rose, to {estimated(after.rate, after.low, after.high)}"
    )
    assert done.verdict.endswith("the original model is returned")
    json.dumps(done.to_dict(), allow_nan=False)


@pytest.mark.parametrize("same", [True, False])
def test_uncertain_difference_shows_no_improvement(same: bool) -> None:
    done = repaired(lambda X, y: by_pay({"F": 10, "M": 8} if same or len(X) == 210 else {"F": 10, "M": 10}))
    assert done.changed
    assert ("no improvement is shown" in done.verdict) is same


def test_a_repair_that_used_everybody_says_so() -> None:
    space = eh.Space([eh.Integer("pay", 0, 5), eh.Boolean("s")], protected="s")
    X = np.array([[pay, s] for pay in range(6) for s in (0, 1)] * 5)
    done = repair(DecisionTreeClassifier(), X, (X.sum(axis=1) > 3), space, "counterfactual", **QUICK)
    assert done.before.uniform is None
    assert done.before.data is None
    assert done.before.audit.tests == 0
    assert done.verdict.startswith(
        "not measured: the repair used all tests, so no individual is left to measure the change; "
    )
    assert done.verdict.endswith("the original model is returned")
    assert not done.changed
    assert done.model is done.original
    assert done.rejected is not None


@pytest.mark.parametrize("method", ["counterfactual", eh.repairs.Augment(share=1, repeats=2, samples=100)])
def test_nothing_is_shown_by_the_few_that_a_repair_left(method: Any) -> None:
    X, y = favouring(TINY, 200, 0)
    done = repair(tree(), X, y, TINY, method, **QUICK)
    assert not done.changed
    assert done.model is done.original
    assert done.verdict.startswith("not measured: the repair used all")


def test_remaining_individuals_of_a_small_space_are_sampled() -> None:
    """The repair used half of the tests, so the other half is no exact answer about valid individuals."""
    X, y = favouring(SMALL, 60, 0)
    done = repair(tree(), X, y, SMALL, "counterfactual", held_out=favouring(SMALL, 200, 1), watch=(), **QUICK)
    uniform = done.before.uniform
    assert uniform is not None
    left = 100 - len(done.used)
    assert uniform.counts["left_out"] == len(done.used)
    assert (uniform.samples, uniform.exact) == (2 * left, False)
    # The tests are what is independent: both members of a family share a verdict.
    assert [uniform.low, uniform.high] == pytest.approx(
        [float(end) for end in clopper_pearson(uniform.found / 2, left)]
    )
    assert f"of valid individuals whose tests the repair did not use ({left} of 100)" in done.verdict
    assert f"like the {2 * left} that the repair did not use" in uniform.sentence
    apart = done.differences["uniform"]
    assert apart is not None
    assert apart.low < apart.value < apart.high
    fair = repair(tree(), X, y, SMALL, "marginal", watch=(), **QUICK)
    assert fair.before.uniform.exact  # type: ignore[union-attr]
    assert fair.differences["uniform"].low == fair.differences["uniform"].high  # type: ignore[union-attr]


def test_the_same_few_are_not_asked_time_and_again() -> None:
    """Fewer samples than tests, but more than are left: everybody left is asked once."""
    X, y = favouring(SMALL, 60, 0)
    done = repair(
        tree(), X, y, SMALL, "counterfactual", held_out=favouring(SMALL, 200, 1), watch=(), **{**QUICK, "samples": 90}
    )
    assert done.before.uniform.samples == 2 * (100 - len(done.used))  # type: ignore[union-attr]


def test_models_worse_for_real_people_are_not_returned() -> None:
    """Fewer valid individuals are treated differently, but more of those in the data: the young."""
    X, y = people(300)
    X["age"] %= 5

    def train(X: Any, y: Any) -> Any:
        if len(X) == 210:
            return lambda F: ((F["sex"] == "M") & (F["age"] >= 8)).astype(int)
        return lambda F: ((F["sex"] == "M") & (F["age"] < 2)).astype(int)

    done = repair(train, X, y, SPACE, "counterfactual", **QUICK)
    assert done.rejected is not None
    assert done.rejected.uniform.rate < done.before.uniform.rate  # type: ignore[union-attr]
    assert not done.changed
    assert done.verdict.startswith("made worse: discrimination rose, to ")
    assert "(difference +" in done.verdict
    assert "of people like the held-out rows" in done.verdict
