"""XGBoost, LightGBM and CatBoost: their native models, and the columns that models were fitted on.

Their scikit-learn classes are `EstimatorModel`. Nothing here imports a package before it is needed.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from evenhand.errors import ModelError, NotFitted
from evenhand.models.base import Array, Fitted, Floats, Input, Model, Rows, package_of, require_columns, some
from evenhand.spaces.frames import pd

BOOSTERS = frozenset({"xgboost", "lightgbm", "catboost"})
NATIVE = frozenset({("xgboost", "Booster"), ("lightgbm", "Booster"), ("catboost", "CatBoost")})
"""The packages and classes of native models."""
_NUMBERS = "iufb"


@dataclass(frozen=True)
class Native:
    """How a native model is called, and the meaning of its answers, inferred from its objective."""

    kind: Literal["probability", "margin", "rows", "labels", "number"]
    """What it returns: the probability of class 1, a decision value, one score per class, labels, or a number."""
    predict: Callable[[Any], Any]
    classes: Array | None = None
    label: Callable[[Any], Any] | None = None
    """Returns labels, where these are more than the class with the highest score."""
    decides: bool = True


class BoosterModel(Model):
    """A native booster, whose objective says whether it returns probabilities, labels or numbers."""

    def __init__(self, booster: Any, *, input: Input | None = None) -> None:
        package = package_of(booster)
        self.source = booster
        self.name = f"{package}.{type(booster).__name__}"
        fitted = fitted_booster(booster)
        self.input, self.columns, self._prepare = input or fitted.input, fitted.columns, fitted.prepare
        self._native = _INSPECT[package](booster)
        self.classes = self._native.classes
        self.regression = self._native.kind == "number"
        self.has_scores = self._native.kind != "labels"
        self.decides = self.has_scores and self._native.decides and not self.regression
        self.check()

    def labels(self, X: Rows) -> Array:
        """Decide by the threshold, or otherwise as the booster does."""
        if self._native.label is None or self.threshold is not None:
            return self.decide(self.scores(X))
        return np.asarray(self._native.label(self._feed(X))).ravel()

    def scores(self, X: Rows) -> Floats:
        """Return one score per class, or the single number that the booster gives."""
        if not self.has_scores:
            return super().scores(X)
        answer = np.asarray(self._native.predict(self._feed(X)), dtype=np.float64)
        if self._native.kind == "probability":
            return np.column_stack([1 - answer, answer])
        return answer[:, np.newaxis] if answer.ndim == 1 else answer

    def _feed(self, X: Rows) -> Any:
        rows = self.pick(X)
        return rows if self._prepare is None else self._prepare(rows)


def fitted_booster(model: Any) -> Fitted:
    """Return what a booster was fitted on, whether native or in a scikit-learn class."""
    package = package_of(model)
    if package == "xgboost":
        return _fitted_xgboost(model.get_booster() if hasattr(model, "get_booster") else model)
    if package == "lightgbm":
        return _fitted_lightgbm(model.booster_ if hasattr(model, "booster_") else model)
    return _fitted_catboost(model)


def _inspect_xgboost(booster: Any) -> Native:
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    predict = partial(_predict_xgboost, booster, learner["gradient_booster"]["name"] != "gblinear")
    if objective == "binary:logistic":
        return Native("probability", predict, np.arange(2))
    if objective == "binary:logitraw":
        return Native("margin", predict, np.arange(2))
    if objective == "multi:softprob":
        return Native("rows", predict, np.arange(int(learner["learner_model_param"]["num_class"])))
    if objective in ("multi:softmax", "binary:hinge"):
        return Native("labels", predict, label=partial(_as_integers, predict))
    return Native("number", predict)


def _predict_xgboost(booster: Any, in_place: bool, X: Any) -> Any:
    if in_place:
        # For a small model, building a DMatrix takes longer than the answers.
        return booster.inplace_predict(X)
    import xgboost

    return booster.predict(xgboost.DMatrix(X, enable_categorical=True))


def _as_integers(predict: Callable[[Any], Any], X: Any) -> Array:
    # XGBoost returns its labels 0, 1, 2 as floats.
    return np.asarray(predict(X)).astype(np.int64)


def _fitted_xgboost(booster: Any) -> Fitted:
    if booster.feature_names is None:
        return Fitted("array")
    names = tuple(booster.feature_names)
    kinds = booster.feature_types or [""] * len(names)
    nominal = tuple(name for name, kind in zip(names, kinds, strict=True) if kind == "c")
    # Since 3.1, a booster stores its categories and matches new values with them.
    categories = getattr(booster, "get_categories", None)
    known = bool(nominal) and categories is not None and not categories().empty()
    some = _one_of_each(booster) if known else {}
    return Fitted("frame", names, XgboostFrame(nominal, known, some) if nominal else None)


def _one_of_each(booster: Any) -> dict[str, Any]:
    """Return a category of each column that has categories; none without pyarrow, which XGBoost needs for this."""
    if importlib.util.find_spec("pyarrow") is None:
        return {}
    known = booster.get_categories(export_to_arrow=True).to_arrow()
    return {name: categories[0].as_py() for name, categories in known if categories is not None and len(categories)}


@dataclass(frozen=True)
class XgboostFrame:
    """Gives the columns that XGBoost learned as categories the pandas dtype that it requires."""

    nominal: tuple[str, ...]
    known: bool
    some: Mapping[str, Any] = field(default_factory=dict)
    """A category of each column, for rows in which the column has no value: XGBoost rejects a column without any."""

    def __call__(self, frame: Any) -> Any:
        """Return the frame with category columns."""
        dtypes = frame.dtypes
        if self.known:
            lacking = [name for name in self.nominal if dtypes[name].name != "category"]
            frame = frame.astype(dict.fromkeys(lacking, "category")) if lacking else frame
            empty = [name for name in self.some if name in frame and not len(frame[name].cat.categories)]
            return frame.astype({name: pd.CategoricalDtype([self.some[name]]) for name in empty}) if empty else frame
        if texts := [name for name in self.nominal if dtypes[name].kind not in _NUMBERS]:
            raise ModelError(
                f"this XGBoost model does not store the categories of {some(texts)}, so it may mix them up",
                remedy="train it again with XGBoost 3.1 or newer, or encode these columns as numbers",
            )
        return frame


def _inspect_lightgbm(booster: Any) -> Native:
    model = booster.dump_model(num_iteration=1)
    if str(model.get("objective", "")).startswith("binary"):
        return Native("probability", booster.predict, np.arange(2))
    if model["num_class"] > 1:
        return Native("rows", booster.predict, np.arange(model["num_class"]))
    return Native("number", booster.predict)


def _fitted_lightgbm(booster: Any) -> Fitted:
    names = tuple(booster.feature_name())
    if names == tuple(f"Column_{place}" for place in range(len(names))):
        return Fitted("array")
    categories = tuple(tuple(part) for part in booster.pandas_categorical or ())
    # Boosters in memory and loaded ones store the positions of their categories under different names.
    places = booster.params.get("categorical_column", booster.params.get("categorical_feature"))
    if not isinstance(places, list) or len(places) != len(categories):
        places = []
    # LightGBM writes "age_in_years" for "age in years". The space's own name is found when a frame is seen.
    underlined = any("_" in name for name in names)
    if not categories and not underlined:
        return Fitted("frame", names)
    prepare = LightgbmFrame(names, categories, tuple(map(int, places)))
    return Fitted("frame", None if underlined else names, prepare)


@dataclass(frozen=True)
class LightgbmFrame:
    """Finds LightGBM's columns in a frame, and restores the categories of the training."""

    names: tuple[str, ...]
    categories: tuple[tuple[Any, ...], ...]
    places: tuple[int, ...]

    def has(self, name: str) -> bool:
        """Whether LightGBM knows a column, whose spaces it writes as underscores."""
        return name in self.names or name.replace(" ", "_") in self.names

    def __call__(self, frame: Any) -> Any:
        """Return the frame with LightGBM's columns in its order, categories where it expects them."""
        own = {str(column).replace(" ", "_"): column for column in frame.columns}
        own.update((column, column) for column in frame.columns)
        frame = frame[[own[name] for name in require_columns("the LightGBM model", self.names, own)]]
        dtypes = list(frame.dtypes)
        # Positions of ordered categories are not stored; then every non-numeric column is a category.
        places = self.places or [place for place, kind in enumerate(dtypes) if kind.kind not in _NUMBERS]
        if len(places) != len(self.categories):
            return frame
        changes = {
            frame.columns[place]: pd.CategoricalDtype(list(categories))
            for place, categories in zip(places, self.categories, strict=True)
            if dtypes[place].name != "category"
        }
        return frame.astype(changes) if changes else frame


def _inspect_catboost(model: Any) -> Native:
    if not len(model.classes_):
        return Native("number", model.predict)
    probability = partial(model.predict, prediction_type="Probability")
    label = partial(model.predict, prediction_type="Class")
    return Native("rows", probability, np.asarray(model.classes_), label, catboost_decides(model))


def catboost_decides(model: Any) -> bool:
    """Whether a CatBoost model decides for the most probable class; it may have its own threshold."""
    return float(model.get_metadata().get("binclass_probability_threshold", 0.5)) == 0.5


def _fitted_catboost(model: Any) -> Fitted:
    if not model.is_fitted():
        raise NotFitted(f"{type(model).__name__} is not fitted", remedy="call fit or load_model first, then wrap it")
    names = tuple(model.feature_names_)
    if names != tuple(str(place) for place in range(len(names))):
        return Fitted("frame", names)
    nominal = tuple(model.get_cat_feature_indices())
    return Fitted("array", None, CatboostArray(nominal) if nominal else None)


@dataclass(frozen=True)
class CatboostArray:
    """Converts the columns that CatBoost learned as categories to integers, because it accepts no floats there."""

    nominal: tuple[int, ...]

    def __call__(self, X: Any) -> Any:
        """Return rows that CatBoost accepts; frames are left alone."""
        if not isinstance(X, np.ndarray):
            return X
        rows = X.astype(object)
        rows[:, self.nominal] = X[:, self.nominal].astype(np.int64)
        return rows


_INSPECT: dict[str, Callable[[Any], Native]] = {
    "xgboost": _inspect_xgboost,
    "lightgbm": _inspect_lightgbm,
    "catboost": _inspect_catboost,
}
