"""The door: whatever the user has becomes a `Model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenhand.errors import ModelError
from evenhand.model.boosters import BoosterModel, is_native
from evenhand.model.callables import CallableModel
from evenhand.model.estimators import EstimatorModel
from evenhand.model.keras_models import KerasModel, is_keras
from evenhand.model.protocol import Input, Model
from evenhand.model.torch_modules import TorchModel, is_torch

ALLOWED = (
    "a function on a batch, a fitted scikit-learn estimator or pipeline, an XGBoost, LightGBM or CatBoost "
    "model, a torch module, a Keras model, the path of an .onnx or .skops file"
)
_METHODS = ("predict", "predict_proba", "decision_function")


def wrap(
    model: Any,
    *,
    threshold: float | None = None,
    input: Input | None = None,
    timeout: float | None = None,
    name: str | None = None,
) -> Model:
    """Make anything that decides about a batch of rows a model that can be audited.

    Parameters
    ----------
    model
        A callable on a batch; a fitted estimator or pipeline; a native XGBoost, LightGBM or CatBoost model;
        a torch module; a Keras 3 model; the path of an .onnx or .skops file; "module:attribute"; or a `Model`,
        which is returned with the options put in.
    threshold
        The decision threshold that is really in use: decide for the second class where its probability, its
        decision value or the single score is at least this.
    input
        "frame" for a pandas frame with the space's columns and the user's values, "array" for float64 in the
        space's column order. By default what the model was fitted on; a frame for a callable, an array for a
        network.
    timeout
        Seconds that one call may take.
    name
        For reports, instead of the name that the model has.

    Returns
    -------
    Model

    Examples
    --------
    >>> import numpy as np
    >>> model = wrap(lambda X: X[:, 0] / 10, input="array", threshold=0.3, name="rule")
    >>> model.labels(np.array([[2.0], [3.0]]))
    array([0, 1])
    """
    return _adapt(model, input).with_options(threshold=threshold, input=input, timeout=timeout, name=name)


def _adapt(model: Any, input: Input | None) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, Path)):
        # Files hold objects that come back here, so the two modules need each other.
        from evenhand.model.files import load_model

        return load_model(model)
    if isinstance(model, type):
        raise ModelError(f"Got the class {model.__name__}, not an object of it. Make one, fit it, then wrap it.")
    if is_native(model):
        return BoosterModel(model, input=input)
    if is_keras(model):
        # Before torch: on its backend Keras models are modules too.
        return KerasModel(model)
    if is_torch(model):
        return TorchModel(model)
    if callable(getattr(model, "predict", None)):
        return EstimatorModel(model, input=input)
    if callable(model):
        return _adapt_callable(model, input)
    raise ModelError(
        f"Got a {type(model).__module__}.{type(model).__name__}, which cannot be asked for decisions.\n"
        f"Allowed: {ALLOWED}. For anything else, wrap a function that calls it."
    )


def _adapt_callable(function: Any, input: Input | None) -> Model:
    owner, method = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if method not in _METHODS or not callable(getattr(owner, "predict", None)):
        return CallableModel(function, input=input or "frame")
    # A method of an estimator needs what the estimator was fitted on, not the default for functions.
    model = _adapt(owner, input)
    if method == "predict":
        return model
    return CallableModel(function, input=model.input, columns=model.columns)
