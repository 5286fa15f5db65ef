"""What a model was fitted on: a frame with which columns, or an array; and what it insists on in a frame.

Nothing here imports a package: it is told from the name of the model's class where the model comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.errors import ModelError, NotFitted
from evenhand.models.base import Input, some

BOOSTERS = frozenset({"xgboost", "lightgbm", "catboost"})
_NUMBERS = "iufb"


class Fitted(NamedTuple):
    """What a model takes."""

    input: Input
    columns: tuple[str, ...] | None
    prepare: Callable[[Any], Any] | None
    """Makes rows with these columns acceptable to the model; None where they are as they come."""


def package_of(model: Any) -> str:
    """Name the top-level package that a model's class comes from.

    >>> package_of([1])
    'builtins'
    """
    return type(model).__module__.partition(".")[0]


def fitted_on(model: Any) -> Fitted:
    """Find out what a model was fitted on.

    >>> from sklearn.dummy import DummyClassifier
    >>> fitted_on(DummyClassifier().fit([[0], [1]], [0, 1])).input
    'array'
    """
    package = package_of(model)
    if package == "xgboost":
        return _xgboost(model.get_booster() if hasattr(model, "get_booster") else model)
    if package == "lightgbm":
        return _lightgbm(model.booster_ if hasattr(model, "booster_") else model)
    if package == "catboost":
        return _catboost(model)
    if reads_text(model):
        return Fitted("text", None, None)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return Fitted("array", None, None)
    return Fitted("frame", tuple(map(str, names)), None)


def reads_text(model: Any) -> bool:
    """Tell pipelines that begin with a text vectoriser, or with several side by side, also inside a search.

    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import Pipeline
    >>> reads_text(Pipeline([("words", TfidfVectorizer())]))
    True
    """
    if hasattr(model, "best_estimator_"):
        return reads_text(model.best_estimator_)
    side = getattr(model, "transformer_list", None)
    if isinstance(side, list) and side:
        return all(reads_text(part) for _, part in side)
    steps = getattr(model, "steps", None)
    if isinstance(steps, list) and steps:
        return reads_text(next((step for _, step in steps if step not in (None, "passthrough")), None))
    # A vectoriser may also be told to read files; what it is given then are paths.
    return callable(getattr(model, "build_analyzer", None)) and getattr(model, "input", None) == "content"


def dropped(model: Any, names: Sequence[str]) -> set[str]:
    """Name the columns that a model drops at once: its first step is scikit-learn's ColumnTransformer, without them.

    Parameters
    ----------
    model
        A fitted pipeline, also inside a search or a classifier with a threshold.
    names
        The columns that it is given, for one that was fitted on an array.

    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> pipe = make_pipeline(make_column_transformer(("passthrough", [0])), DummyClassifier())
    >>> dropped(pipe.fit([[1, 2], [3, 4]], [0, 1]), ["age", "sex"])
    {'sex'}
    """
    while True:
        steps = getattr(model, "steps", None)
        if isinstance(steps, list) and steps:
            model = next((step for _, step in steps if step not in (None, "passthrough")), None)
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif type(model).__name__ in ("FixedThresholdClassifier", "TunedThresholdClassifierCV"):
            model = model.estimator_
        else:
            break
    if package_of(model) != "sklearn" or type(model).__name__ != "ColumnTransformer":
        return set()
    columns = list(getattr(model, "feature_names_in_", names))
    if len(columns) != model.n_features_in_:
        return set()
    kept: set[str] = set()
    for _, transformer, chosen in model.transformers_:
        # An object may be compared with a text in its own way.
        if isinstance(transformer, str) and transformer == "drop":
            continue
        taken = _chosen(chosen, columns)
        if taken is None:
            return set()
        kept.update(taken)
    return set(columns) - kept


def _chosen(chosen: Any, columns: list[str]) -> list[str] | None:
    """Name the columns that a ColumnTransformer was told to take, in any of its ways; None where that is unclear."""
    if isinstance(chosen, slice):
        ends = [columns.index(end) if isinstance(end, str) else end for end in (chosen.start, chosen.stop)]
        # By names, the last one is taken as well.
        return columns[ends[0] : ends[1] + 1 if isinstance(chosen.stop, str) else ends[1] : chosen.step]
    listed = np.atleast_1d(np.asarray(chosen, dtype=object if isinstance(chosen, str) else None))
    if not listed.size:
        return []
    if listed.dtype.kind == "b":
        return [name for name, taken in zip(columns, listed, strict=True) if taken]
    if listed.dtype.kind in "iu":
        return [columns[place] for place in listed]
    return [str(name) for name in listed] if all(isinstance(name, str) for name in listed) else None


def _xgboost(booster: Any) -> Fitted:
    if booster.feature_names is None:
        return Fitted("array", None, None)
    names = tuple(booster.feature_names)
    kinds = booster.feature_types or [""] * len(names)
    nominal = tuple(name for name, kind in zip(names, kinds, strict=True) if kind == "c")
    if not nominal:
        return Fitted("frame", names, None)
    # Since 3.1 a booster holds its categories and matches new ones with them by value.
    categories = getattr(booster, "get_categories", None)
    known = categories is not None and not categories().empty()
    return Fitted("frame", names, XgboostFrame(nominal, known))


@dataclass(frozen=True)
class XgboostFrame:
    """Gives the columns that XGBoost learned as categories the pandas dtype that it insists on."""

    nominal: tuple[str, ...]
    known: bool

    def __call__(self, frame: Any) -> Any:
        """Return the frame with category columns."""
        dtypes = frame.dtypes
        if self.known:
            lacking = [name for name in self.nominal if dtypes[name].name != "category"]
            return frame.astype(dict.fromkeys(lacking, "category")) if lacking else frame
        texts = [name for name in self.nominal if dtypes[name].kind not in _NUMBERS]
        if texts:
            raise ModelError(
                f"This XGBoost model does not hold the categories of {some(texts)}, and would mix them up.\n"
                "Train it again with XGBoost 3.1 or newer, or encode these columns as numbers."
            )
        return frame


def _lightgbm(booster: Any) -> Fitted:
    names = tuple(booster.feature_name())
    if names == tuple(f"Column_{place}" for place in range(len(names))):
        return Fitted("array", None, None)
    categories = tuple(tuple(part) for part in booster.pandas_categorical or ())
    # In-process and loaded boosters keep the places of their categories under different names.
    places = booster.params.get("categorical_column", booster.params.get("categorical_feature"))
    if not isinstance(places, list) or len(places) != len(categories):
        places = []
    # LightGBM writes "age_in_years" for "age in years". The space's own name is found when a frame is seen.
    underlined = any("_" in name for name in names)
    if not categories and not underlined:
        return Fitted("frame", names, None)
    prepare = LightgbmFrame(names, categories, tuple(map(int, places)))
    return Fitted("frame", None if underlined else names, prepare)


@dataclass(frozen=True)
class LightgbmFrame:
    """Finds LightGBM's columns in a frame, and makes those categories that were so in the training."""

    names: tuple[str, ...]
    categories: tuple[tuple[Any, ...], ...]
    places: tuple[int, ...]

    def has(self, name: str) -> bool:
        """Tell whether LightGBM knows a column, which it writes with underscores for spaces."""
        return name in self.names or name.replace(" ", "_") in self.names

    def __call__(self, frame: Any) -> Any:
        """Return the frame with LightGBM's columns in its order, categories where it expects them."""
        import pandas as pd

        own = {str(column).replace(" ", "_"): column for column in frame.columns}
        own.update((column, column) for column in frame.columns)
        missing = [name for name in self.names if name not in own]
        if missing:
            raise ModelError(
                f"The LightGBM model was fitted on columns that it is not given: {some(missing)}.\n"
                f"It is given {some(list(frame.columns))}. Add the missing ones to the space."
            )
        frame = frame[[own[name] for name in self.names]]
        dtypes = list(frame.dtypes)
        # Ordered categories are not among the places; then whatever is no number has to be a category.
        places = self.places or [place for place, kind in enumerate(dtypes) if kind.kind not in _NUMBERS]
        if len(places) != len(self.categories):
            return frame
        changes = {
            frame.columns[place]: pd.CategoricalDtype(list(categories))
            for place, categories in zip(places, self.categories, strict=True)
            if dtypes[place].name != "category"
        }
        return frame.astype(changes) if changes else frame


def _catboost(model: Any) -> Fitted:
    if not model.is_fitted():
        raise NotFitted(f"{type(model).__name__} is not fitted. Call fit or load_model first, then wrap it.")
    names = tuple(model.feature_names_)
    if names != tuple(str(place) for place in range(len(names))):
        return Fitted("frame", names, None)
    nominal = tuple(model.get_cat_feature_indices())
    return Fitted("array", None, CatboostArray(nominal) if nominal else None)


@dataclass(frozen=True)
class CatboostArray:
    """Gives CatBoost whole numbers in the columns that it learned as categories: it takes no floats there."""

    nominal: tuple[int, ...]

    def __call__(self, X: Any) -> Any:
        """Return rows that CatBoost accepts; frames are left alone."""
        if not isinstance(X, np.ndarray):
            return X
        rows = X.astype(object)
        rows[:, self.nominal] = X[:, self.nominal].astype(np.int64)
        return rows
