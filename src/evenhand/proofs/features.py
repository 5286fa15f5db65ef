"""The columns that a final estimator receives, as tables over the codes of single attributes.

The tables come from the pipeline's own ``transform``, so every value is the one that the estimator gets, bit for bit.
That is possible where each column depends on one attribute: with the transformers that are listed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import ModelError
from evenhand.models.base import Model, package_of, require_columns
from evenhand.proofs.domain import INSTEAD
from evenhand.spaces.tabular import Space

Values: TypeAlias = npt.NDArray[Any]
MOST = 2**24
"""Maximum cells of the tables."""
BY_COLUMN = frozenset(
    {"Binarizer", "KBinsDiscretizer", "MaxAbsScaler", "MinMaxScaler", "MissingIndicator", "OneHotEncoder"}
    | {"OrdinalEncoder", "RobustScaler", "SelectKBest", "SelectPercentile", "SimpleImputer", "StandardScaler"}
    | {"TargetEncoder", "VarianceThreshold"}
)
"""Transformers of scikit-learn that compute each column from one column."""


@dataclass(frozen=True, eq=False)
class Features:
    """The columns of a final estimator.

    ``attribute`` has, for each column, the column of the space that it depends on, or -1 if it is constant; ``values``
    its value for each code of that attribute, or its only value.
    """

    attribute: list[int]
    values: list[Values]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return len(self.values)


def unreadable(what: str) -> ModelError:
    """Return the error for a model that cannot be read."""
    return ModelError(f"{what}, so nothing can be proved about this model", remedy=INSTEAD)


def unpack(estimator: Any) -> tuple[list[Any], Any]:
    """Split an estimator into the transformers before its final step, and that step."""
    steps: list[Any] = []
    while True:
        if package_of(estimator) == "sklearn" and type(estimator).__name__ == "Pipeline":
            *before, estimator = (step for _, step in estimator.steps)
            steps += before
        elif package_of(estimator) == "sklearn" and hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return [step for step in steps if not _nothing(step)], estimator


def read_features(model: Model, space: Space, steps: list[Any]) -> Features:
    """Read the columns that come out of some steps, from the rows that a model gets.

    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer
    >>> space = Space([Integer("age", 1, 3), Boolean("member")], protected="member")
    >>> pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    >>> pipeline = pipeline.fit(np.array([[1.0, 0.0], [3.0, 1.0]]), [0, 1])
    >>> features = read_features(wrap(pipeline), space, [pipeline[0]])
    >>> features.attribute, [values.tolist() for values in features.values]
    ([0, 1], [[-1.0, 0.0, 1.0], [-1.0, 1.0]])
    """
    for step in steps:
        _check(step)
    sizes = space.coding.sizes
    if sum(sizes) * len(sizes) > MOST:
        raise unreadable(f"the attributes have {sum(sizes):,} values together, too many to list")
    if model.columns is not None:
        require_columns(model.name, model.columns, space.names)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.zeros((edges[-1] + 1, len(sizes)), dtype=np.int32)
    for j, size in enumerate(sizes):
        rows[edges[j] : edges[j + 1], j] = np.arange(size)
    table = _transformed(model, space, steps, rows)
    if table.shape[1] * len(rows) > 4 * MOST:
        raise unreadable(f"the final estimator has {table.shape[1]:,} columns of {len(rows):,} values, too many")
    base = table[-1]
    varies = ~((table == base) | (np.isnan(table) & np.isnan(base)))
    attribute, values = [], []
    for k in range(table.shape[1]):
        depends = [j for j in range(len(sizes)) if varies[edges[j] : edges[j + 1], k].any()]
        if len(depends) > 1:
            raise unreadable(f"column {k} of its final step depends on {[space.names[j] for j in depends]} together")
        attribute.append(depends[0] if depends else -1)
        values.append(table[edges[depends[0]] : edges[depends[0] + 1], k] if depends else base[k : k + 1])
    return Features(attribute, values, table.dtype)


def _transformed(model: Model, space: Space, steps: list[Any], rows: npt.NDArray[np.int32]) -> Values:
    prepare = getattr(model, "_prepare", None)
    try:
        table: Any = model.pick(space.inputs(rows, model.input, model.columns))
        table = table if prepare is None else prepare(table)
        for step in steps:
            table = step.transform(table)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0][:200]
        raise ModelError(
            f"{model.name} cannot read individuals of the space: {type(error).__name__}: {first}",
            remedy="give the space the columns and values that the model was fitted on",
        ) from error
    table = table.toarray() if hasattr(table, "toarray") else table
    try:
        numbers = np.asarray(table)
        numbers = numbers.astype(np.float64) if numbers.dtype.kind not in "f" else numbers
    except (TypeError, ValueError):
        raise unreadable("its final step gets columns that are not numbers") from None
    if np.isinf(numbers).any():
        raise unreadable("a value becomes infinite before its final step")
    return numbers


def _nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step in ("passthrough", "drop"))


def _check(step: Any) -> None:
    """Raise if a step may mix columns."""
    if _nothing(step):
        return
    name = type(step).__name__
    if package_of(step) == "sklearn":
        # "passthrough" is fitted as a function that does nothing.
        if name in BY_COLUMN or (name == "FunctionTransformer" and step.func is None):
            return
        inside = {"Pipeline": "steps", "FeatureUnion": "transformer_list", "ColumnTransformer": "transformers_"}
        if name in inside:
            for part in getattr(step, inside[name]):
                _check(part[1])
            return
    known = ", ".join(sorted(BY_COLUMN))
    raise ModelError(
        f"{name} may mix columns, so nothing can be proved about this model",
        remedy=f"known steps: {known}, in pipelines and ColumnTransformer; otherwise {INSTEAD}",
    )
