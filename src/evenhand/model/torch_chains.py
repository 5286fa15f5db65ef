"""Chains of linear layers: gradients by plain matrix products, where autograd costs more than the arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.model.closed_form import Codes, Loss, differentiate
from evenhand.model.protocol import Floats, Rows

_ACTIVATIONS = {"ReLU": "relu", "Sigmoid": "logistic", "Tanh": "tanh"}
# What does nothing to rows of numbers when a network is evaluated.
_TRANSPARENT = frozenset({"AlphaDropout", "Dropout", "Flatten", "Identity"})


@dataclass(frozen=True)
class Chain:
    """A `Sequential` of linear layers with activations between them, on the CPU.

    Its gradients guide a search; what is decided about anyone is always asked of the module itself.
    """

    layers: list[Any]
    activations: list[str]

    def gradients(self, X: Rows, loss: Loss, classes: Codes) -> Floats:
        """Differentiate the loss of each row's class by the row's columns."""
        # The weights as they are now: a module may be trained on between two questions.
        layers = [_arrays(layer._parameters) for layer in self.layers]
        rows = np.asarray(X, dtype=layers[0][0].dtype)
        with np.errstate(all="ignore"):  # what is not finite is found, and said, by those who ask
            return differentiate(rows, layers, self.activations, loss, classes)


def chain_of(module: Any) -> Chain | None:
    """Read a module as a chain; None where it is anything else.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> chain_of(net).activations
    ['relu']
    >>> chain_of(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(dim=1))) is None
    True
    """
    import torch

    parts = _flat(module)
    if parts is None or not parts or type(parts[0]) is not torch.nn.Linear or type(parts[-1]) is not torch.nn.Linear:
        return None
    layers: list[Any] = []
    activations: list[str] = []
    for part in parts:
        if type(part) is torch.nn.Linear:
            if not _plain(part.weight):
                return None
            activations += ["identity"] * (len(layers) > len(activations))
            layers.append(part)
        elif len(activations) == len(layers):
            return None  # one activation of another
        else:
            activations.append(_ACTIVATIONS[type(part).__name__])
    return Chain(layers, activations)


def _flat(module: Any) -> list[Any] | None:
    """List the parts of nested sequences; None where a part is unknown, or does more than its class says."""
    from torch import nn

    if any(getattr(module, f"_{name}_hooks") for name in ("forward", "forward_pre", "backward", "backward_pre")):
        return None
    if type(module) is nn.Sequential:
        inner = [_flat(part) for part in module]
        return None if None in inner else [part for parts in inner if parts for part in parts]
    name = type(module).__name__
    if type(module) is not getattr(nn, name, None):
        return None
    if name in _TRANSPARENT:
        return []
    return [module] if name == "Linear" or name in _ACTIVATIONS else None


def _plain(weight: Any) -> bool:
    import torch

    return bool(weight.is_cpu and weight.layout is torch.strided and weight.dtype in (torch.float32, torch.float64))


def _arrays(parameters: dict[str, Any]) -> tuple[Floats, Floats]:
    weights: Floats = parameters["weight"].detach().numpy().T
    bias = parameters["bias"]
    return weights, np.zeros(1, dtype=weights.dtype) if bias is None else bias.detach().numpy()
