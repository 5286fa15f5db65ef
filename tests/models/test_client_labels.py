"""Labels are never compared as scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import ModelError
from tests.helpers import optional

SPACE = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
ARRAYS = eh.Space([eh.Integer("a", 0, 4), eh.Integer("b", 0, 1)], protected="b")


class Unsaid:
    """Has ``predict``, and does not say what it is."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def predict(self, X: Any) -> Any:
        return (np.asarray(X)[:, 1] * 2 + 1).astype(self.kind)


LABELS = {
    "integers": lambda f: (f["age"] * f["member"]).to_numpy(),
    "small integers": lambda f: (f["age"] * f["member"]).to_numpy().astype(np.uint8),
    "booleans": lambda f: f["member"] & (f["age"] > 3),
    "a list": lambda f: [int(m) for m in f["member"]],
    "a column": lambda f: f[["age"]].to_numpy() * f[["member"]].to_numpy(),
    "objects": lambda f: f["member"].astype(int).to_numpy().astype(object),
    "nullable": lambda f: f["member"].astype("Int64"),
    "text": lambda f: np.where(f["member"], "yes", "no"),
}


def ask(model: Any, space: eh.Space = SPACE) -> list[Any]:
    return [
        lambda: eh.audit(model, space, "themis", criterion=eh.Gap(0.5)),
        lambda: eh.audit(model, space, "themis", criterion=eh.Flip() | eh.Gap(0.5)),
        lambda: eh.estimate(model, space, criterion=eh.Gap(0.5)),
    ]


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_a_function_are_refused(kind: str) -> None:
    for call in ask(LABELS[kind]):
        with pytest.raises(ModelError, match=r"eh\.Flip\(\)"):
            call()


@pytest.mark.parametrize("kind", [np.int64, np.int8, bool])
def test_labels_of_an_object_of_unknown_type_are_refused(kind: Any) -> None:
    for call in ask(Unsaid(kind), ARRAYS):
        with pytest.raises(ModelError, match="(?s)labels.*regression=True"):
            call()
    assert eh.audit(Unsaid(np.float64), ARRAYS, "themis", criterion=eh.Gap(0.5)).found == 5


@pytest.mark.parametrize("kind", ["integers", "small integers", "a list", "a column", "objects", "nullable"])
def test_integers_with_regression_are_compared(kind: str) -> None:
    model = eh.wrap(LABELS[kind], regression=True)
    assert eh.audit(model, SPACE, "themis", criterion=eh.Gap(0.5)).found == 9
    with pytest.raises(ModelError, match="numbers"):
        eh.audit(model, SPACE, "themis")
    assert eh.audit(eh.wrap(Unsaid(int), regression=True), ARRAYS, "themis", criterion=eh.Gap(1.5)).found == 5


def test_floats_several_columns_and_cut_numbers_are_scores() -> None:
    for model in (
        lambda f: f["member"] * 1.0,
        lambda f: np.column_stack([~f["member"], f["member"]]).astype(int),
        eh.wrap(lambda f: f["member"].astype(int), threshold=1),
    ):
        assert eh.audit(model, SPACE, "themis", criterion=eh.Gap(0.5)).found == 9


def test_classifiers_without_scores_are_refused() -> None:
    from sklearn.cluster import KMeans
    from sklearn.ensemble import VotingClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, y = np.array([[0, 0], [1, 1], [2, 0], [3, 1], [4, 0]]), [0, 1, 2, 1, 0]
    for model in (VotingClassifier([("tree", DecisionTreeClassifier())]).fit(X, y), KMeans(2, n_init=1).fit(X)):
        for call in ask(model, ARRAYS):
            with pytest.raises(ModelError, match="labels only"):
                call()


def test_labels_of_a_booster_are_refused() -> None:
    xgboost = optional("xgboost")
    X, y = np.array([[0, 0], [1, 1], [2, 0], [3, 1], [4, 0]] * 4), np.array([0, 1, 2, 1, 0] * 4)
    given = {"objective": "multi:softmax", "num_class": 3, "nthread": 1}
    booster = xgboost.train(given, xgboost.DMatrix(X, y), 2)
    for call in ask(booster, ARRAYS):
        with pytest.raises(ModelError, match="labels only"):
            call()


def test_gradient_searches_refuse_models_with_labels() -> None:
    rows = pd.DataFrame({"age": [1, 5, 9], "member": [True, False, True]})
    with pytest.raises(ModelError, match="labels"):
        eh.audit(LABELS["integers"], SPACE, eh.Adf(), data=rows)


def test_regression_is_refused_for_classifiers() -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    X, y = np.array([[0, 0], [1, 1], [2, 0], [3, 1]]), [0, 1, 0, 1]
    with pytest.raises(ModelError, match="regression.*LogisticRegression returns decisions"):
        eh.wrap(LogisticRegression().fit(X, y), regression=True)
    with pytest.raises(ModelError, match="threshold .*0.5; leave one"):
        eh.wrap(lambda X: X, regression=True, threshold=0.5)
    assert eh.wrap(LinearRegression().fit(X, y), regression=True).regression
