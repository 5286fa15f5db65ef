"""The native models of XGBoost, LightGBM and CatBoost; their scikit-learn classes are plain estimators."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from evenhand.models.base import Array, Floats, Input, Model, Rows
from evenhand.models.fitted import fitted_on, package_of

Kind = Literal["probability", "margin", "rows", "labels", "number"]
"""What a native model answers: the probability of class 1, a decision value for it, one score per class,
labels, or a number that is no decision."""

_NATIVE = frozenset({("xgboost", "Booster"), ("lightgbm", "Booster"), ("catboost", "CatBoost")})


@dataclass(frozen=True)
class Native:
    """How a native model is asked, read off its objective."""

    kind: Kind
    predict: Callable[[Any], Any]
    classes: Array | None = None
    label: Callable[[Any], Any] | None = None
    """Asks for labels, where these are more than the class with the highest score."""
    decides: bool = True


def is_native(model: Any) -> bool:
    """Tell native boosters from everything else.

    >>> is_native(print)
    False
    """
    return (package_of(model), type(model).__name__) in _NATIVE


class BoosterModel(Model):
    """A native booster. Its objective says whether its answers are probabilities, labels or numbers.

    Examples
    --------
    >>> import lightgbm
    >>> X, y = np.arange(40.0).reshape(-1, 1), np.arange(40) >= 20
    >>> data = lightgbm.Dataset(X, y)
    >>> booster = lightgbm.train({"objective": "binary", "verbose": -1, "min_data_in_leaf": 1}, data, 5)
    >>> BoosterModel(booster).labels(X[[0, 39]]).tolist()
    [0, 1]
    """

    def __init__(self, booster: Any, *, input: Input | None = None) -> None:
        package = package_of(booster)
        self.source = booster
        self.name = f"{package}.{type(booster).__name__}"
        fitted = fitted_on(booster)
        self.input, self.columns, self._prepare = input or fitted.input, fitted.columns, fitted.prepare
        self._native = _INSPECT[package](booster)
        self.classes = self._native.classes
        self.regression = self._native.kind == "number"
        self.has_scores = self._native.kind != "labels"
        self.decides = self.has_scores and self._native.decides and not self.regression
        self.check()

    def labels(self, X: Rows) -> Array:
        """Decide: by the threshold, else as the booster itself does."""
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
        return Native("labels", predict, label=partial(_whole, predict))
    return Native("number", predict)


def _predict_xgboost(booster: Any, in_place: bool, X: Any) -> Any:
    if in_place:
        # Without a DMatrix in between, which takes longer to build than a small model to answer.
        return booster.inplace_predict(X)
    import xgboost

    return booster.predict(xgboost.DMatrix(X, enable_categorical=True))


def _whole(predict: Callable[[Any], Any], X: Any) -> Array:
    # XGBoost gives its labels 0, 1, 2 as floats.
    return np.asarray(predict(X)).astype(np.int64)


def _inspect_lightgbm(booster: Any) -> Native:
    model = booster.dump_model(num_iteration=1)
    if str(model.get("objective", "")).startswith("binary"):
        return Native("probability", booster.predict, np.arange(2))
    if model["num_class"] > 1:
        return Native("rows", booster.predict, np.arange(model["num_class"]))
    return Native("number", booster.predict)


def _inspect_catboost(model: Any) -> Native:
    if not len(model.classes_):
        return Native("number", model.predict)
    return Native(
        "rows",
        partial(model.predict, prediction_type="Probability"),
        np.asarray(model.classes_),
        partial(model.predict, prediction_type="Class"),
        catboost_decides(model),
    )


def catboost_decides(model: Any) -> bool:
    """Tell whether a CatBoost model decides for the likeliest class; it may hold a threshold of its own."""
    return float(model.get_metadata().get("binclass_probability_threshold", 0.5)) == 0.5


_INSPECT: dict[str, Callable[[Any], Native]] = {
    "xgboost": _inspect_xgboost,
    "lightgbm": _inspect_lightgbm,
    "catboost": _inspect_catboost,
}
