"""Random small spaces and fitted models, and what enumeration says about them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from xgboost import XGBClassifier

import evenhand as eh
from evenhand.criteria import Flip
from evenhand.engine.judge import Judge, ModelProbe

RULES = ("x <= 3 or y >= 1", "if kind == 'a' then x >= 1", "x + y <= 5", "not (kind == 'b' and y == 0)")
VARYING = ("if sex == 'F' then x <= 3", "group >= 1 or y <= 1", "not (sex == 'M' and kind == 'c')", "x >= group")


@st.composite
def spaces(draw: st.DrawFn, missing: bool = False) -> eh.Space:
    """Draw a space of a few hundred individuals, with nominal, linked and protected attributes and constraints."""
    attributes: list[Any] = [
        eh.Integer("x", 0, draw(st.integers(2, 6)), missing=missing),
        eh.Real("y", -1, 1, step=draw(st.sampled_from([0.5, 1 / 3, 0.7]))),
        eh.Nominal("kind", ["a", "b", "c"][: draw(st.integers(2, 3))]),
        eh.Nominal("sex", ["F", "M"]),
        eh.Integer("group", 0, draw(st.integers(1, 2))),
    ]
    protected = draw(st.sampled_from([["sex"], ["group"], ["sex", "group"]]))
    links: dict[str, Any] = {}
    if "sex" in protected and draw(st.booleans()):
        ways = [{"F": {"a": "b"}, "M": {"b": "a"}}, {"F": {"a": "b"}}, {"M": {"b": "a"}}]
        links = {"sex": {"kind": draw(st.sampled_from(ways))}}
    rules = [] if missing else draw(st.lists(st.sampled_from([*RULES, *VARYING]), max_size=2, unique=True))
    rules = [rule for rule in rules if "'c'" not in rule or "c" in attributes[2].values]
    return eh.Space(draw(st.permutations(attributes)), protected, rules, links)


def everyone(space: eh.Space) -> npt.NDArray[np.int32]:
    """List all valid individuals."""
    rows = np.array(list(itertools.product(*map(range, space.coding.sizes))), dtype=np.int32)
    return rows[space.valid(rows)]


def pipeline(space: eh.Space, final: Any, seed: int, missing: bool = False) -> Any:
    """Fit a pipeline on random rows of a space, with random labels that depend on all columns."""
    rng = np.random.default_rng(seed)
    rows = everyone(space)
    rows = rows[rng.integers(len(rows), size=60)]
    frame = space.frame(rows)
    scores = rng.normal(size=len(space.names)) @ (rows - rows.mean(axis=0)).T + rng.normal(size=len(rows))
    labels = (scores > np.median(scores)).astype(int)
    encode = OneHotEncoder(handle_unknown="ignore") if seed % 2 else OrdinalEncoder(
        categories=[space.attributes[space.column(name)].values for name in ("kind", "sex")]
    )  # fmt: skip
    numbers: list[Any] = [StandardScaler() if seed % 3 else MinMaxScaler()]
    if missing:
        numbers.insert(0, SimpleImputer())
    columns = make_column_transformer(
        (encode, ["kind", "sex"]), (make_pipeline(*numbers), ["x", "y"]), remainder="passthrough"
    )
    return make_pipeline(columns, final).fit(frame, labels)


def trees(seed: int) -> Any:
    """Return a tree to be fitted."""
    kinds = [DecisionTreeClassifier, ExtraTreeClassifier]
    return kinds[seed % 2](random_state=seed, max_depth=[None, 3, 5][seed % 3])


def sums(seed: int) -> Any:
    """Return a linear model, or a booster of stumps, to be fitted."""
    options = [
        LogisticRegression(C=[1.0, 100.0][seed % 2]),
        LinearSVC(),
        RidgeClassifier(),
        SGDClassifier(random_state=seed),
        GradientBoostingClassifier(n_estimators=5, max_depth=1, random_state=seed),
        HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=2, min_samples_leaf=2),
    ]
    return options[seed % len(options)]


def ensembles(seed: int) -> Any:
    """Return a forest or a booster to be fitted."""
    options = [
        RandomForestClassifier(4, max_depth=3, random_state=seed),
        ExtraTreesClassifier(5, random_state=seed),
        GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=seed),
        HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2),
        XGBClassifier(n_estimators=5, max_depth=3),
        LGBMClassifier(n_estimators=5, min_child_samples=2, verbosity=-1),
    ]
    return options[seed % len(options)]


def truth(model: Any, space: eh.Space) -> tuple[int, int, int]:
    """Return how many individuals are treated alike and differently, and how many are untestable, by asking."""
    judge = Judge(ModelProbe(eh.wrap(model), space, Flip()), 0)
    rows = everyone(space)
    testable = unfair = 0
    for start in range(0, len(rows), 4096):
        able, different = judge.judged(space.individuals(rows[start : start + 4096]))
        testable += int(able.sum())
        unfair += int(different.sum())
    return testable - unfair, unfair, len(rows) - testable
