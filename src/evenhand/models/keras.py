"""Keras models: on the torch backend as torch modules, on other backends through ``predict``."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.errors import ModelError
from evenhand.models.base import Array, Codes, Floats, Model, Rows
from evenhand.models.outputs import HIDDEN, Kind, kind_of
from evenhand.models.torch import LOOKED_AT, TorchModel, parts, wrong_width


def is_keras(model: Any) -> bool:
    """Whether a model is a Keras model; Keras is not imported."""
    return any(base.__name__ == "Model" and base.__module__.startswith("keras.") for base in type(model).__mro__)


class KerasModel(TorchModel):
    """A Keras model with one input of rows and columns, and one output of logits, probabilities or labels.

    It must be built: start with ``keras.Input``, or have been called. On the torch backend it is used as a torch
    module. On other backends it is called with ``predict`` and has no gradients; the activation of its last layer
    distinguishes probabilities from logits.
    """

    def __init__(self, model: Any) -> None:
        import keras

        self._torch = keras.backend.backend() == "torch"
        self._width = _width(model)
        self.gradient_source = "autograd" if self._torch else None
        super().__init__(model)

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Differentiate the loss of each row's class by the row's columns, on the torch backend."""
        return super().gradients(X, classes) if self._torch else Model.gradients(self, X, classes)

    def _answer(self, X: Rows) -> Array:
        if self._torch:
            return super()._answer(X)
        self._check_width(X)
        answer: Any = self.source.predict(np.asarray(X), batch_size=max(1, len(X)), verbose=0)
        if not isinstance(answer, np.ndarray) or answer.ndim not in (1, 2):
            got = (
                f"an array of shape {answer.shape}" if isinstance(answer, np.ndarray) else f"a {type(answer).__name__}"
            )
            raise ModelError(
                f"{self.name} returned {got}; one array is needed, (rows,) or (rows, classes)",
                remedy="wrap a Keras model, or a function, that returns the logits alone",
            )
        values: Array = answer[:, 0] if answer.ndim == 2 and answer.shape[1] == 1 else answer
        return values.astype(np.float64) if values.dtype.kind == "f" else values

    def _recognise(self, X: Rows) -> Kind:
        if self._torch:
            return super()._recognise(X)
        values = self._answer(X[:LOOKED_AT])
        if values.dtype.kind != "f":
            return self._remember("labels")
        return self._remember(kind_of(values, _head(self.source), self.name), values)

    def _find_weight(self) -> Any:
        return super()._find_weight() if self._torch else None

    def _parts(self) -> list[Any]:
        # Keras has its own list of layers. One of them may be a torch module, whose mode Keras changes and leaves.
        return [part for layer in self.source._flatten_layers() for part in parts(layer)]

    def _call(self, module: Any, rows: Any) -> Any:
        return module(rows, training=False)

    def _rows(self, X: Any) -> Any:
        self._check_width(X)
        return super()._rows(X)

    def _check_width(self, X: Any) -> None:
        if self._width is not None and X.shape[1] != self._width:
            raise wrong_width(self.name, self._width, X.shape[1])


def _width(model: Any) -> int | None:
    """Return how many columns a model takes, where known; raise where its input is anything else."""
    name = f"the Keras model {model.name!r}"
    if not model.built:
        raise ModelError(f"{name} is not built", remedy="start it with keras.Input((columns,)), or call it on a batch")
    shape = getattr(model, "input_shape", None)
    if shape is None:
        return None
    if len(shape) != 2 or not all(size is None or isinstance(size, int) for size in shape):
        raise ModelError(
            f"{name} takes {shape}; one input of shape (None, columns) is needed",
            remedy="wrap a Keras model, or a function, that converts one array to what this one takes",
        )
    width: int | None = shape[1]
    return width


def _head(model: Any) -> str:
    """Return the activation that a model's output comes from, or HIDDEN."""
    outputs = getattr(model, "outputs", None)
    if not outputs:
        return HIDDEN
    last = outputs[0]._keras_history.operation
    activation = getattr(last, "activation", None)
    if activation is not None:
        return str(getattr(activation, "__name__", activation)).replace("_", "")
    kind = type(last).__name__.lower()
    return kind if kind in ("sigmoid", "softmax", "logsigmoid", "logsoftmax") else HIDDEN
