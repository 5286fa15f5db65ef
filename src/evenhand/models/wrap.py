"""``eh.wrap`` adapts the user's model to `Model`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenhand import plugins
from evenhand._validate import check_bool
from evenhand.errors import EvenhandError, ModelError
from evenhand.models.base import Array, Floats, Input, Model, Rows, derives, is_torch, package_of, some
from evenhand.models.boosters import BOOSTERS, NATIVE, BoosterModel
from evenhand.models.client import as_scores, refuse_labels, to_array, wrong_kind
from evenhand.models.endpoint import Endpoint
from evenhand.models.sklearn import EstimatorModel, SensitiveModel, takes_sensitive
from evenhand.models.text.module import TextModule
from evenhand.models.text.transformers import TransformersModel, is_tokenizer, parts_of
from evenhand.models.torch import KerasModel, TorchModel

ALLOWED = (
    "a function on a batch, a fitted scikit-learn estimator or pipeline, an XGBoost, LightGBM or CatBoost "
    "model, a torch module, a Keras model, a Hugging Face pipeline, the path of a model file, a URL"
)
_METHODS = ("predict", "predict_proba", "decision_function")
_OWN = {"builtins", "evenhand", "torch", "keras", "transformers", "fairlearn", "sklearn", *BOOSTERS}
"""Packages whose objects evenhand adapts itself."""


def wrap(
    model: Any,
    *,
    threshold: float | None = None,
    input: Input | None = None,
    timeout: float | None = None,
    batch_size: int | None = None,
    chunk: int | None = None,
    name: str | None = None,
    regression: bool = False,
    encode: Callable[[list[str]], Any] | None = None,
    embedding: str | None = None,
    words: Sequence[str | None] | Mapping[str, int] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
) -> Model:
    """Wrap anything that decides about a batch of rows as a model that can be audited.

    Parameters
    ----------
    model
        A function on a batch; a fitted estimator or pipeline; a native XGBoost, LightGBM or CatBoost model; a torch
        module; a Keras 3 model; a Hugging Face pipeline, or its model and tokenizer as a pair; the path of a file or
        folder, a URL, or "module:attribute", as for `load_model`; an object that an installed package adapts (entry
        points ``evenhand.models``); or a `Model`.
    threshold
        The decision threshold used in production: decide for the second class if its probability, its decision value or
        the single score is at least this.
    input
        "frame" for a pandas frame with the space's columns and the user's values, "array" for float64 in the
        space's column order, "text" for a list of texts. By default what the model was fitted on; a frame for a
        function, an array for a network without ``encode``, and texts if the space has texts.
    timeout
        Seconds that one call may take.
    batch_size
        Maximum rows in one call. By default a suitable number, if it is known for the model; otherwise calls grow from
        16 rows (64, 256 ...) to a whole block, as long as a call takes less than about half a second.
    chunk
        Maximum rows of a block of an audit, which is judged and logged as a unit; by default 32,768. The model receives
        a block in one or more calls.
    name
        A name for reports, instead of the model's own.
    regression
        Treat the whole numbers that a function, or an object with ``predict``, returns as amounts or scores. Otherwise
        they are labels, which ``Gap`` rejects. Not needed for floats.
    encode
        For a torch module that classifies texts: converts a list of strings to the padded token ids that it takes.
    embedding
        The name of its embedding layer; by default the only one, or the one that receives the ids.
    words
        The words of the rows of that layer, in order, with None for rows without a word; or a mapping from words to
        rows. By default taken from an attribute ``words``, ``vocab``, ``vocabulary`` or ``word_index`` of ``encode``,
        or from its ``get_vocab()`` or ``get_vocabulary()``. Similar words are chosen from these.
    sensitive_features
        For a model whose ``predict`` takes ``sensitive_features`` in addition to the rows, such as fairlearn's
        ThresholdOptimizer: the columns of the space to pass. By default all protected ones.

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
    if encode is not None or embedding is not None or words is not None:
        adapted = _adapt_encoded(model, encode, embedding, words)
    else:
        adapted = _adapt(model, input)
    if check_bool("regression", regression, ModelError):
        adapted = _numbers(adapted, threshold)
    if sensitive_features is not None:
        if not isinstance(adapted, SensitiveModel):
            problem = f"is for models whose predict takes it, and that of {adapted.name} does not"
            raise ModelError(problem, parameter="sensitive_features", remedy="leave it out")
        adapted = adapted.with_sensitive(
            [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
        )
    return adapted.with_options(
        threshold=threshold, input=input, timeout=timeout, name=name, batch_size=batch_size, chunk=chunk
    )


def for_space(model: Model, texts: bool) -> Model:
    """Return a model that takes texts, or one that takes rows of attributes; raise if that is impossible.

    >>> for_space(wrap(lambda texts: [len(text) for text in texts]), texts=True).input
    'text'
    """
    if texts == (model.input == "text"):
        return model
    if not texts:
        raise wrong_kind(model)
    if model.columns is None and isinstance(model, CallableModel | EstimatorModel | Endpoint):
        return model.with_options(input="text")
    takes = "an array" if model.columns is None else f"the columns {some(list(model.columns))}"
    raise ModelError(
        f"{model.name} takes {takes}, but the space has texts",
        remedy="wrap a function that converts a list of texts to the input of the model, and calls it",
    )


class CallableModel(Model):
    """A function that takes a batch and returns labels, one score per row, or one row of scores per row.

    Two dimensions are rows of scores, of which the highest decides. One dimension is labels if it contains text, whole
    numbers or booleans, and single scores if it contains floats.
    """

    has_scores = True
    decides = True

    def __init__(
        self, function: Callable[[Any], Any], *, input: Input = "frame", columns: tuple[str, ...] | None = None
    ) -> None:
        self.source, self.input, self.columns = function, input, columns
        while isinstance(function, functools.partial):
            function = function.func
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.check()

    def labels(self, X: Rows) -> Array:
        """Return the function's labels, or decide from its scores."""
        answer = to_array(self._call(X), self.name)
        if self.threshold is None and (answer.ndim != 2 or answer.shape[1] == 1):
            return answer
        return self.decide(as_scores(answer, len(answer), self.name))

    def scores(self, X: Rows) -> Floats:
        """Return the function's numbers as score rows; whole numbers are labels unless ``regression`` is set."""
        answer = to_array(self._call(X), self.name)
        if self.threshold is None and not self.regression:
            refuse_labels(answer, self.name)
        return as_scores(answer, len(answer), self.name)

    def _call(self, X: Any) -> Any:
        # A shallow copy, so that a function may add columns to its frame without changing the caller's.
        if self.input == "frame":
            return self.source(self.pick(X).copy(deep=False))
        return self.source(list(X) if self.input == "text" else X)


def _numbers(model: Model, threshold: float | None) -> Model:
    """Return a model whose answers are amounts."""
    if threshold is not None:
        raise ModelError(
            "cannot be combined with regression=True",
            parameter="threshold",
            value=threshold,
            remedy="leave one of the two out",
        )
    if model.regression:
        return model
    if not isinstance(model, CallableModel) and not (isinstance(model, EstimatorModel) and model.untyped):
        raise ModelError(
            f"is for a function, or an object with predict, that returns amounts, but {model.name} returns decisions",
            parameter="regression",
            value=True,
            remedy="leave it out, or wrap a function that returns the amounts: eh.wrap(f, regression=True)",
        )
    numbers = copy.copy(model)
    numbers.regression = True
    return numbers


def _adapt_encoded(model: Any, encode: Any, embedding: str | None, words: Any) -> Model:
    if isinstance(model, Model) or not is_torch(model):
        raise ModelError(
            f"is for torch modules, not for a {type(model).__name__}",
            parameter="encode" if encode is not None else "embedding" if embedding is not None else "words",
            remedy='leave it out; a function on a list of strings is eh.wrap(f, input="text")',
        )
    if is_tokenizer(encode):
        return TransformersModel(model, encode, embedding, words)
    if not callable(encode):
        raise ModelError(
            "must be a function on a list of strings",
            parameter="encode",
            value=encode,
            remedy="embedding and words are only for modules with encode",
        )
    return TextModule(model, encode, embedding, words)


def _adapt(model: Any, input: Input | None) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, Path)):
        # Loaded objects are wrapped here, so the two modules need each other.
        from evenhand.models.files import load_model

        return load_model(model)
    if isinstance(model, type):
        remedy = f"make an object of {model.__name__}, fit it, then wrap it"
        raise ModelError("must be an object, not a class", parameter="model", value=model, remedy=remedy)
    if hasattr(type(model), "__evenhand_model__"):
        # An object made from another model knows that model's scores, classes and threshold.
        own: Model = model.__evenhand_model__()
        return own
    whole = model if isinstance(model, (tuple, list)) else [model]
    if any(derives(part, "transformers.") for part in whole) and (pair := parts_of(model)) is not None:
        return TransformersModel(*pair)
    if (package_of(model), type(model).__name__) in NATIVE:
        return BoosterModel(model, input=input)
    if derives(model, "keras.", "Model"):
        # Before torch, because Keras models on its backend are also torch modules.
        return KerasModel(model)
    if is_torch(model):
        return TorchModel(model)
    adapted = _adapt_by_plugin(model)
    if adapted is not None:
        return adapted
    if callable(getattr(model, "predict", None)):
        return SensitiveModel(model, input=input) if takes_sensitive(model) else EstimatorModel(model, input=input)
    if callable(model):
        return _adapt_callable(model, input)
    raise ModelError(
        f"must be {ALLOWED}", parameter="model", value=model, remedy="wrap a function that returns the decisions"
    )


def _adapt_by_plugin(model: Any) -> Model | None:
    """Adapt an object with the package installed for it; None if there is none or it declines."""
    package = package_of(model)
    point = None if package in _OWN else plugins.installed(plugins.MODELS).get(package)
    if point is None:
        return None
    adapt = plugins.load(point, ModelError)
    try:
        adapted = adapt(model)
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(
            f"{point.value}, which adapts models of {package}, failed: {plugins.reason(error)}",
            remedy="wrap a function that calls the model: eh.wrap(f)",
        ) from error
    if adapted is not None and not isinstance(adapted, Model):
        raise ModelError(
            f"{point.value}, which adapts models of {package}, returned a {type(adapted).__name__}",
            remedy="return an eh.Model, or None",
        )
    if adapted is not None:
        adapted.check()
    return adapted


def _adapt_callable(function: Any, input: Input | None) -> Model:
    owner, method = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if method not in _METHODS or not callable(getattr(owner, "predict", None)):
        return CallableModel(function, input=input or "frame")
    # A method of an estimator needs the input that the estimator was fitted on, not the default for functions.
    model = _adapt(owner, input)
    if method == "predict":
        return model
    return CallableModel(function, input=model.input, columns=model.columns)
