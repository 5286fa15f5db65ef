"""Torch modules: labels, probabilities and gradients of a network that takes a matrix of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.errors import FLIP, KOSEI, SCORE_DIFFERENCES, ModelError
from evenhand.models.base import Array, Floats, Input, Model, Rows
from evenhand.models.closed_form import Codes, Loss, differentiate
from evenhand.models.fitted import package_of
from evenhand.models.outputs import HIDDEN, LINEAR, Kind, as_scores, kind_of, probabilities, slopes

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


LOOKED_AT = 256
"""Rows that are enough to see what a network returns."""

# Operations that move or pick values, or keep them in a range: they leave the meaning of what they pass on.
_PASSING = frozenset(
    {"Alias", "Clamp", "Clone", "Expand", "Index", "IndexSelect", "Permute", "Reshape", "ReshapeAlias", "Select"}
    | {"Slice", "Split", "Squeeze", "T", "ToCopy", "Transpose", "Unbind", "UnsafeView", "Unsqueeze", "View"}
)
# One node for all that was compiled.
_OPAQUE = ("CompiledFunction", "DifferentiableGraph")


def is_torch(model: Any) -> bool:
    """Tell torch modules from everything else, without importing torch.

    >>> is_torch(print)
    False
    """
    return any(base.__module__.startswith("torch.nn.modules") for base in type(model).__mro__)


class TorchModel(Model):
    """A torch module that takes a batch of rows and returns logits, probabilities or labels.

    Which of these it returns is seen when it is first asked: from the operation that its output comes from (a
    sigmoid, a softmax), else, for one column per class, from the numbers. A single number that a linear layer made,
    or that leaves the range from 0 to 1, is a logit; another one could be either, and is refused.
    Integers and booleans are labels.

    It is always asked in evaluation mode; afterwards every part of it has the mode that it had before.

    Parameters
    ----------
    module
        Takes a tensor of shape (rows, columns) with the type and on the device of its parameters; returns one of
        shape (rows,), (rows, 1) or (rows, classes).

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Linear(2, 1)
    >>> _ = net.load_state_dict({"weight": torch.tensor([[1.0, -1.0]]), "bias": torch.zeros(1)})
    >>> model = TorchModel(net)
    >>> model.labels(np.array([[3.0, 1.0], [1.0, 3.0]]))
    array([1, 0])
    >>> model.gradients(np.array([[0.0, 0.0]]), np.array([1]))
    array([[-0.5,  0.5]])
    """

    input: Input = "array"
    has_scores = True
    decides = True
    gradient_source: str | None = "autograd"

    def __init__(self, module: Any) -> None:
        package, kind = package_of(module), type(module).__name__
        self.source = module
        self.name = f"{package}.{kind}" if package in ("torch", "keras") else kind
        self._weight = self._find_weight()
        self._kind: Kind | None = None
        self._chain = chain_of(module) if is_torch(module) else None
        if self._chain is not None:
            self.gradient_source = "closed form"
        self.check()

    def labels(self, X: Rows) -> Array:
        """Return the module's labels, or the number of the class with the highest probability."""
        if (self._kind or self._recognise(X)) == "labels" and self.threshold is None:
            return self._answer(X)
        return self.decide(as_scores(self.scores(X), len(X), self.name))

    def scores(self, X: Rows) -> Floats:
        """Return the probability of every class; of one output, that of 0 and that of 1."""
        kind = self._kind or self._recognise(X)
        if kind == "labels":
            raise self._only_labels()
        return probabilities(self._answer(X), kind)

    def gradients(self, X: Rows, classes: npt.NDArray[np.int64]) -> Floats:
        """Differentiate minus the logarithm of the probability of each row's class by the row's columns."""
        import torch

        if self._chain is not None and self._weight.is_cpu:
            kind = self._kind or self._recognise(X)
            loss = partial(_seed, kind=kind)
            return self._chain.gradients(X, loss, classes).astype(np.float64)
        # Off means that gradients are on, whatever the caller has set.
        with Evaluation(self._parts()), torch.inference_mode(False):
            rows = self._rows(X).requires_grad_()
            # A module may change its input in place; autograd would not let it change the leaf.
            output = self._output(rows.clone())
            if output.is_floating_point() and not output.requires_grad:
                raise self._not_differentiable()
            kind = self._kind or self._recognise(X)
            if kind == "labels":
                raise self._only_labels()
            least = torch.finfo(output.dtype).tiny
            seed = torch.from_numpy(slopes(as_floats(output), classes, kind, least)).to(output.device, output.dtype)
            (gradients,) = torch.autograd.grad(output, rows, seed, allow_unused=True)
        if gradients is None:
            raise self._not_differentiable()
        return as_floats(gradients)

    def check(self) -> None:
        """Refuse a frame, and a threshold that no probability can be on either side of."""
        super().check()
        if self.input == "text":
            raise ModelError(f"{self.name} takes numbers. Say how texts become ids: eh.wrap(module, encode=encode).")
        if self.input != "array":
            raise ModelError(
                f'{self.name} takes numbers: leave out input="frame". To encode the rows first, wrap a function that '
                "does:\neh.wrap(lambda frame: net(encode(frame)))."
            )
        self._check_threshold()

    def _check_threshold(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ModelError(f"threshold={self.threshold:g} on the probabilities of {self.name}: choose from 0 to 1.")

    def _answer(self, X: Rows) -> Array:
        import torch

        with Evaluation(self._parts()), torch.inference_mode():
            output = self._output(self._rows(X))
            answer: Array = as_floats(output) if output.is_floating_point() else output.cpu().numpy()
            return answer

    def _recognise(self, X: Rows) -> Kind:
        """Find out what the module returns, and remember it."""
        import torch

        with Evaluation(self._parts()):
            output = self._traced(X[:LOOKED_AT])
        if not output.is_floating_point():
            return self._remember("labels")
        rounding = max(1e-5, 16 * torch.finfo(output.dtype).eps)
        values = as_floats(output)
        return self._remember(kind_of(values, _head(output.grad_fn), self.name, rounding), values)

    def _traced(self, X: Rows) -> Any:
        """Call the module so that, where it can be, the operations behind its output are known."""
        import torch

        rows = self._rows(X)
        try:
            with torch.inference_mode(False):
                return self._output(rows.clone().requires_grad_().clone(), plain=True)
        except Exception:
            # Code that leaves torch on the way works only without gradients. Other errors come again here.
            with torch.inference_mode():
                return self._output(rows, plain=True)

    def _remember(self, kind: Kind, values: Array | None = None) -> Kind:
        # Of no rows, or of NaN, it cannot be told; what is wrong with them is said where they are asked for.
        if values is None or (len(values) and np.isfinite(values).all()):
            self._kind = kind
        return kind

    def _find_weight(self) -> Any:
        return _first_weight(self.source, self.name)

    def _parts(self) -> list[Any]:
        """List every part that has a mode."""
        return parts(self.source)

    def _call(self, module: Any, rows: Any) -> Any:
        return module(rows)

    def _rows(self, X: Any) -> Any:
        import torch

        weight = self._weight
        single = weight is None or weight.dtype is torch.float32
        # A copy in any case, which the module may change and which is never read-only.
        rows = torch.from_numpy(np.asarray(X).astype(np.float32 if single else np.float64))
        return rows if weight is None or (single and weight.is_cpu) else rows.to(weight.device, weight.dtype)

    def _output(self, rows: Any, plain: bool = False) -> Any:
        """Call the module; return a tensor of one number per row, or of one row per row."""
        import torch

        # What torch.compile made keeps the module itself, whose operations can be told, beside the compiled code.
        module = getattr(self.source, "_orig_mod", self.source) if plain else self.source
        try:
            output = self._call(module, rows)
        except RuntimeError as error:
            self._explain(error, rows)
            raise
        if not isinstance(output, torch.Tensor) or output.is_complex():
            got = f"a tensor of {output.dtype}" if isinstance(output, torch.Tensor) else f"a {type(output).__name__}"
            raise ModelError(
                f"{self.name} returned {got}; one tensor of logits, probabilities or labels is needed.\n{_OTHERWISE}."
            )
        if len(rows) == 1 and output.ndim < 2:
            # squeeze() also takes away the rows where there is only one.
            output = output.reshape(1, -1)
        if output.ndim == 2 and output.shape[1] == 1:
            output = output[:, 0]
        if output.ndim not in (1, 2) or 0 in output.shape[1:]:
            raise ModelError(
                f"{self.name} returned a tensor of shape {tuple(output.shape)}; (rows,) or (rows, classes) is needed.\n"
                f"{_OTHERWISE}, in one of these shapes."
            )
        if len(output) != len(rows):
            raise ModelError(f"{self.name}: got {len(output)} answers for {len(rows)} rows. Return one answer per row.")
        return output

    def _explain(self, error: RuntimeError, rows: Any) -> None:
        """Raise a clearer error where the module takes another number of columns."""
        given = rows.shape[1]
        first = next((part for part in self.source.modules() if hasattr(part, "in_features")), None)
        if first is not None and f"x{given} and {first.in_features}x" in str(error):
            raise wrong_width(self.name, first.in_features, given) from error

    def _only_labels(self) -> ModelError:
        return ModelError(
            f"{self.name} returns labels: it has no scores and no gradients",
            remedy=("use ", FLIP, " and ", KOSEI, ", or wrap a network that returns the logits"),
        )

    def _not_differentiable(self) -> ModelError:
        return ModelError(
            f"the output of {self.name} does not depend on its input in a way that can be differentiated",
            remedy=("use ", SCORE_DIFFERENCES, ", which takes differences of its scores, or ", KOSEI),
        )


_OTHERWISE = "Wrap a small module, or a function, that calls it and returns the logits alone"


def wrong_width(name: str, takes: int, given: int) -> ModelError:
    """Say that a network takes another number of columns."""
    return ModelError(
        f"{name} takes {takes} columns, but is given {given}. The space must have the columns that it was\n"
        "trained on, in the same order."
    )


class Evaluation:
    """Puts modules into evaluation mode for a while.

    Only the flags change. ``eval()`` and ``train()`` can do more in a module that overrides them, and change its
    weights.
    """

    def __init__(self, modules: Iterable[Any]) -> None:
        # What torch.jit.freeze made has no mode left.
        self._training = [module for module in modules if getattr(module, "training", False)]

    def __enter__(self) -> None:
        for module in self._training:
            module.training = False

    def __exit__(self, *_: object) -> None:
        for module in self._training:
            module.training = True


def parts(module: Any) -> list[Any]:
    """List a module and all that are in it; several times faster than ``modules()``, and done in every call."""
    found, seen = [module], {module}
    for part in found:
        for child in part._modules.values():
            if child is not None and child not in seen:
                seen.add(child)
                found.append(child)
    return found


def _first_weight(module: Any, name: str) -> Any:
    """Return the first floating parameter, which says what the module takes, or None."""
    from torch.nn.parameter import is_lazy

    weights = list(module.parameters())
    if any(map(is_lazy, weights)):
        raise ModelError(f"{name} has parameters without values: call it once on a batch, or load its weights.")
    devices = " and ".join(sorted({str(weight.device) for weight in weights}))
    if "meta" in devices:
        raise ModelError(
            f"{name} has parameters on {devices}; meta holds no values. Load the weights:\n"
            "module.load_state_dict(state, assign=True)."
        )
    if " and " in devices:
        raise ModelError(f'{name} has parameters on {devices}; all must be on one device. Move it: module.to("cpu").')
    return next((tensor for tensor in [*weights, *module.buffers()] if tensor.is_floating_point()), None)


def as_floats(tensor: Any) -> Floats:
    """Return a tensor as an array of float64, which shares no memory with it: the module may go on using its tensor."""
    # By numpy, which is faster and always copies.
    floats: Floats = in_numpy(tensor).astype(np.float64)
    return floats


def in_numpy(tensor: Any) -> Array:
    """Return a tensor as an array of its own type, or of the next that NumPy has."""
    import torch

    tensor = tensor.detach().cpu()
    array: Array = tensor.float().numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()
    return array


def _seed(outputs: Floats, classes: npt.NDArray[np.int64], kind: Kind) -> Floats:
    """Differentiate the loss by a chain's outputs, in their precision."""
    values = outputs.astype(np.float64)
    seed = slopes(values[:, 0] if values.shape[1] == 1 else values, classes, kind, np.finfo(outputs.dtype).tiny)
    return seed.reshape(outputs.shape).astype(outputs.dtype)


def _linear(node: Any) -> bool:
    return node is not None and str(node.name()).rpartition("Backward")[0].lower() in LINEAR


def _head(node: Any) -> str | None:
    """Name the operation that made the values, such as "sigmoid"; None where there is none, HIDDEN where it is."""
    while node is not None:
        name = str(node.name()).rpartition("Backward")[0] or str(node.name())
        if name == "Add" and any(_linear(part) for part, _ in node.next_functions):
            # A layer that adds its bias by itself.
            return LINEAR[0]
        if name not in _PASSING:
            return HIDDEN if name.endswith(_OPAQUE) else name.lower()
        node = node.next_functions[0][0]
    return None
