"""A small world to repair: pay decides, and so does sex, a little."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand._rng import Stream

SPACE = eh.Space(
    [
        eh.Integer("age", 0, 19),
        eh.Integer("pay", 0, 19),
        eh.Nominal("sex", ["F", "M"]),
        eh.Nominal("work", ["a", "b", "c"]),
    ],
    protected="sex",
)
QUICK: dict[str, Any] = {"samples": 1000, "budget": eh.Budget(tests=400)}
VOTERS = (DecisionTreeClassifier(max_depth=3), DecisionTreeClassifier(max_depth=5), DecisionTreeClassifier())


def repair(*args: Any, **options: Any) -> eh.Repair:
    """`eh.repair`, with the fields of its options among the keywords."""
    names = {one.name for one in dataclasses.fields(eh.repairs.RepairOptions)} & options.keys()
    evidence = eh.repairs.RepairOptions(**{name: options.pop(name) for name in names})
    return eh.repair(*args, options=evidence, **options)


def people(n: int = 300, seed: int = 0, space: eh.Space = SPACE) -> tuple[pd.DataFrame, npt.NDArray[np.int64]]:
    """Rows and labels."""
    X = space.frame(space.sampler.draw(Stream(seed), 0, n, repeats=True)[0].rows)
    noise = np.random.default_rng(seed).normal(size=n)
    return X, (X["pay"] + 4 * (X["sex"] == "M") + noise > 12).to_numpy().astype(np.int64)


def by_pay(level: dict[str, int]) -> Any:
    """A rule that wants other pay of each sex."""
    return lambda frame: (frame["pay"] >= frame["sex"].map(level).astype(int)).to_numpy().astype(int)


class Coded:
    """A classifier on frames that codes its texts itself; in the manner of scikit-learn, without being it."""

    def __init__(self, depth: int = 6, random_state: int | None = None) -> None:
        self.depth, self.random_state = depth, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"depth": self.depth, "random_state": self.random_state}

    def set_params(self, **given: Any) -> Coded:
        vars(self).update(given)
        return self

    def fit(self, X: pd.DataFrame, y: Any) -> Coded:
        self.tree_ = DecisionTreeClassifier(max_depth=self.depth, random_state=self.random_state).fit(codes(X), y)
        self.classes_ = self.tree_.classes_
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        return self.tree_.predict(codes(X))

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.tree_.predict_proba(codes(X))


def codes(X: pd.DataFrame) -> Any:
    return SPACE.encode(X).individuals.rows


CODED = (Coded(3), Coded(5), Coded(9))


TINY = eh.Space([eh.Integer("a", 1, 4), eh.Nominal("sex", ["F", "M"])], protected="sex")
SMALL = eh.Space([eh.Integer("a", 1, 10), eh.Integer("b", 1, 10), eh.Nominal("sex", ["F", "M"])], protected="sex")


def favouring(space: eh.Space, n: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Rows and labels of a small space, where men need less."""
    X = space.frame(space.sampler.draw(Stream(seed), 0, n, repeats=True)[0].rows)
    return X, (X.drop(columns="sex").sum(axis=1) + 2 * (X["sex"] == "M") > len(X.columns) + 1).to_numpy().astype(int)


def tree() -> Any:
    """A tree for such rows."""
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(encode, DecisionTreeClassifier())
