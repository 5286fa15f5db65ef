"""Networks in one form: layers with ReLU, tanh or sigmoid between them, and one output that is compared with a number.

Read are scikit-learn's `MLPClassifier`, chains of torch layers, and Keras models of `Dense` layers. Two outputs become
one, their difference. Weights are kept in 64 bits, which hold those of 32 bits exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.models.base import Model, is_torch, package_of
from evenhand.models.torch import KerasModel, TorchModel, parts
from evenhand.proofs.features import Features, read_features, unpack, unreadable
from evenhand.proofs.trees import logit
from evenhand.spaces.tabular import Space

Floats: TypeAlias = npt.NDArray[np.float64]
CALLS = {"relu": "relu", "tanh": "tanh", "sigmoid": "logistic", "logistic": "logistic", "linear": "", "identity": ""}
"""Activations by their names in Keras, torch (in lower case) and scikit-learn."""
LAST = frozenset({"sigmoid", "softmax", "logistic", "logsoftmax"})
"""Activations that may end a network: they keep the order of scores."""
IDLE = frozenset({"AlphaDropout", "Dropout", "Flatten", "Identity", "InputLayer", "GaussianNoise", "GaussianDropout"})
"""Layers without an effect on rows of numbers, once trained."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights, inputs by outputs, and biases; ``spread`` has the absolute values of the weights that the model adds."""

    weights: Floats
    bias: Floats
    spread: tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class Network:
    """A network: it decides for the second class where its one output is above ``cut``.

    ``unit`` is the largest relative error of one of the model's own operations; ``loose`` bounds how far rounding in a
    final sigmoid or softmax may move the decision.
    """

    features: Features
    layers: tuple[Layer, ...]
    activations: tuple[str, ...]
    cut: float
    loose: float
    unit: float

    def scores(self, rows: npt.NDArray[Any]) -> Floats:
        """Return the output for rows of codes of all columns.

        >>> from sklearn.neural_network import MLPClassifier
        >>> from evenhand.models.wrap import wrap
        >>> from evenhand.spaces.attributes import Boolean, Integer
        >>> space = Space([Integer("age", 1, 4), Boolean("member")], protected="member")
        >>> X = np.array([[1, 0], [2, 1], [3, 0], [4, 1]])
        >>> model = MLPClassifier(5, solver="lbfgs", random_state=0).fit(X, [0, 0, 1, 1])
        >>> network = read_network(wrap(model), space)
        >>> bool(((network.scores(X - [1, 0]) > network.cut) == model.predict(X)).all())
        True
        """
        features = self.features
        values: Floats = np.stack(
            [table[rows[:, j]] if j >= 0 else np.full(len(rows), table[0])
             for j, table in zip(features.attribute, features.values, strict=True)], axis=1,
        ).astype(np.float64)  # fmt: skip
        for layer, name in zip(self.layers, (*self.activations, ""), strict=True):
            values = activate(name, values @ layer.weights + layer.bias)
        return values[:, 0]


def activate(name: str, values: Floats) -> Floats:
    """Apply an activation: relu, tanh, logistic, or none."""
    if name == "relu":
        return np.maximum(values, 0.0)
    if name == "tanh":
        return np.tanh(values)
    # By tanh, so that nothing overflows.
    return 0.5 + 0.5 * np.tanh(0.5 * values) if name == "logistic" else values


def read_network(model: Model, space: Space) -> Network | None:
    """Read a network; None if the model is of another kind."""
    if isinstance(model, KerasModel):
        (chain, last), steps = _keras(model.source), list[Any]()
    elif isinstance(model, TorchModel) and is_torch(model.source):
        (chain, last), steps = _torch(model.source), []
    else:
        steps, final = unpack(model.source)
        if package_of(final) != "sklearn" or type(final).__name__ != "MLPClassifier":
            return None
        if model.classes is None or len(model.classes) != 2 or len(final.coefs_[-1][0]) != 1:
            raise unreadable(f"the network has {len(final.classes_)} classes, and only networks with two can be read")
        chain = [
            part for pair in zip(final.coefs_, final.intercepts_, strict=True) for part in (pair, final.activation)
        ]
        chain, last = _without_last([*chain[:-1], "sigmoid"])
    features = read_features(model, space, steps)
    return _network(model, chain, last, features)


def _torch(module: Any) -> tuple[list[Any], str]:
    """List the layers of a chain, weights and biases or the name of an activation, and the last activation."""
    chain: list[Any] = []
    for part in _flat(module):
        name = type(part).__name__
        if name == "Linear":
            bias = part.bias
            weights = part.weight.detach().cpu().numpy().T
            shift = np.zeros(weights.shape[1], weights.dtype) if bias is None else bias.detach().cpu().numpy()
            chain.append((weights, shift))
        elif name not in IDLE:
            if name == "Softmax" and part.dim not in (1, -1):
                raise unreadable("its softmax runs over the rows")
            chain.append(name.lower())
    return _without_last(chain)


def _flat(module: Any) -> list[Any]:
    """List the parts of nested sequences of torch's own layers."""
    from torch import nn

    name = type(module).__name__
    own = type(module) is getattr(nn, name, None)
    if not own or any(
        getattr(part, f"_{at}_hooks", None) for part in parts(module) for at in ("forward", "forward_pre")
    ):
        raise unreadable(f"{name} is not a chain of torch's own layers (nn.Sequential)")
    if name == "Sequential":
        return [inner for part in module for inner in _flat(part)]
    return [module]


def _keras(model: Any) -> tuple[list[Any], str]:
    """List the layers of a Keras model whose layers follow each other."""
    chain: list[Any] = []
    for at, layer in enumerate(model.layers):
        name = type(layer).__name__
        nodes = getattr(layer, "_inbound_nodes", [])
        if len(nodes) > 1 or any(len(node.input_tensors) > 1 for node in nodes):
            raise unreadable(f"layer {at} of the network ({name}) has several inputs")
        if name == "Dense":
            weights = [np.asarray(one) for one in layer.get_weights()]
            chain.append((weights[0], weights[1] if len(weights) > 1 else np.zeros(weights[0].shape[1], np.float32)))
        if name in ("Dense", "Activation"):
            chain.append(str(getattr(layer.activation, "__name__", layer.activation)).replace("_", ""))
        elif name in ("ReLU", "Softmax"):
            plain = not any(getattr(layer, option, None) for option in ("max_value", "negative_slope", "threshold"))
            chain.append(name.lower() if plain else f"{name} with options")
        elif name not in IDLE:
            chain.append(name)
    return _without_last(chain)


def _without_last(chain: list[Any]) -> tuple[list[Any], str]:
    """Remove activations that do nothing, and the last one if scores keep their order."""
    chain = [part for part in chain if not (isinstance(part, str) and CALLS.get(part) == "")]
    if chain and isinstance(chain[-1], str) and chain[-1] in LAST:
        return chain[:-1], chain[-1]
    return chain, ""


def _network(model: Model, chain: list[Any], last: str, features: Features) -> Network:
    layers: list[tuple[Any, Any]] = []
    activations: list[str] = []
    for part in chain:
        if isinstance(part, str):
            if not CALLS.get(part) or len(activations) == len(layers):
                raise unreadable(f"the network has {part!r} where a layer, ReLU, tanh or sigmoid can be read")
            activations.append(CALLS[part])
            continue
        if len(layers) > len(activations):
            # Two layers without an activation between them; an identity that is bounded as ReLU is.
            activations.append("identity")
        layers.append(part)
    if not layers or len(activations) != len(layers) - 1:
        raise unreadable("the network ends with an activation other than sigmoid and softmax")
    if any(not (np.isfinite(weights).all() and np.isfinite(bias).all()) for weights, bias in layers):
        raise unreadable("the network has a weight that is not a finite number")
    if any(np.isnan(values).any() for values in features.values):
        raise unreadable("a value is missing before the network, which takes no missing values")
    if len(layers[0][0]) != len(features):
        raise unreadable(f"the network takes {len(layers[0][0])} columns, but gets {len(features)}")
    kind = np.result_type(*(part.dtype for layer in layers for part in layer))
    if isinstance(model, TorchModel):
        # Rows are converted to the type of the weights.
        values = [one.astype(kind).astype(np.float64) for one in features.values]
        features = Features(features.attribute, values, features.dtype)
    else:
        kind = np.result_type(kind, features.dtype)
    if np.finfo(kind).bits < 32:
        raise unreadable(f"the network computes in {kind}")
    outputs = layers[-1][0].shape[1]
    read = tuple(_layer(weights, bias) for weights, bias in layers)
    cut, loose = 0.0, 0.0
    # Half the distance between numbers near one, and a little for the squares of errors.
    unit = float(np.finfo(kind).eps) * 0.501
    if outputs == 2:
        if last in ("sigmoid", "logistic"):
            raise unreadable("the network has two outputs behind a sigmoid")
        read = (*read[:-1], _difference(read[-1]))
    elif outputs > 2:
        raise unreadable(f"the network has {outputs} outputs, and only networks with two classes can be read")
    elif last in ("softmax", "logsoftmax"):
        raise unreadable("the network has a softmax of one output")
    if model.threshold is not None:
        cut, loose = logit(model.threshold)
    chance = 0.5 if model.threshold is None else model.threshold
    loose = 16 * loose + (16 * unit / (chance * (1 - chance)))
    return Network(features, read, tuple(activations), cut, loose, unit)


def _layer(weights: Any, bias: Any) -> Layer:
    weights, bias = np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64)
    return Layer(weights, bias, (np.abs(weights), np.abs(bias)))


def _difference(layer: Layer) -> Layer:
    weights, bias = layer.weights, layer.bias
    spread = layer.spread[0].sum(axis=1, keepdims=True), layer.spread[1].sum(keepdims=True)
    return Layer(weights[:, 1:] - weights[:, :1], bias[1:] - bias[:1], spread)
