"""Torch modules and Keras models: labels, probabilities and gradients of networks that take a matrix of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evenhand.errors import FLIP, KOSEI, SCORE_DIFFERENCES, ModelError, Use, Words
from evenhand.models.base import Array, Codes, Floats, Input, Model, Rows, is_torch, package_of
from evenhand.models.client import as_scores
from evenhand.models.closed_form import Kind, Loss, differentiate, probabilities, slopes

HIDDEN = "hidden"
"""Stands for an unknown operation."""
LINEAR = ("addmm", "mm", "linear", "baddbmm", "bmm", "mv", "addmv", "dot", "convolution", "mkldnnlinear")
"""Operations whose output at the end of a network is logits."""
LOOKED_AT = 256
"""Number of rows that show what a network returns."""
_WRAP = "wrap a small module, or a function, that calls it and returns the logits alone, as (rows,) or (rows, classes)"


class TorchModel(Model):
    """A torch module that takes a batch of rows and returns logits, probabilities or labels.

    The first call shows which of these it returns: by the operation that produced the output (a sigmoid, a softmax) or,
    for one column per class, by the numbers. A single number from a linear layer, or outside the range from 0 to 1, is
    a logit; any other could be either, and is rejected. Integers and booleans are labels.

    It is always called in evaluation mode; afterwards, all parts return to their previous modes.

    It takes a tensor of shape (rows, columns) with the type and on the device of its parameters, and returns one of
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
    _on_labels: Use = KOSEI
    """The search for a module without scores."""

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
        kind = self._scored(X)
        return probabilities(self._answer(X), kind)

    def gradients(self, X: Rows, classes: Codes) -> Floats:
        """Differentiate minus the logarithm of the probability of each row's class by the row's columns."""
        import torch

        if self._chain is not None and self._weight.is_cpu:
            loss = partial(_chain_slopes, kind=self._scored(X))
            return self._chain.gradients(X, loss, classes).astype(np.float64)
        # inference_mode(False) enables gradients, whatever the caller has set.
        with Evaluation(self._parts()), torch.inference_mode(False):
            rows = self._rows(X).requires_grad_()
            # A module may change its input in place; autograd would not let it change the leaf.
            output = self._output(rows.clone())
            if output.is_floating_point() and not output.requires_grad:
                raise self._not_differentiable()
            seed = loss_slopes(output, classes, self._scored(X))
            (gradients,) = torch.autograd.grad(output, rows, seed, allow_unused=True)
        if gradients is None:
            raise self._not_differentiable()
        return as_floats(gradients)

    def check(self) -> None:
        """Reject a frame, and a threshold that is not a probability."""
        super().check()
        if self.input == "text":
            raise self._wrong_input(
                'must be "array": {} takes numbers',
                "give the function that encodes texts: eh.wrap(module, encode=encode)",
            )
        if self.input != "array":
            raise self._wrong_input(
                'must be "array": {} takes numbers',
                "wrap a function that encodes: eh.wrap(lambda frame: net(encode(frame)))",
            )
        self._check_probability()

    def _scored(self, X: Rows) -> Kind:
        kind = self._kind or self._recognise(X)
        if kind == "labels":
            raise ModelError(
                f"{self.name} returns labels: it has no scores and no gradients",
                remedy=("use ", FLIP, " and ", self._on_labels, ", or wrap a network that returns the logits"),
            )
        return kind

    def _answer(self, X: Rows) -> Array:
        import torch

        with Evaluation(self._parts()), torch.inference_mode():
            return as_answer(self._output(self._rows(X)))

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
        """Call the module so that the operations that produced its output are known, if possible."""
        import torch

        rows = self._rows(X)
        try:
            with torch.inference_mode(False):
                return self._tracked(rows)
        except ModelError:
            raise
        except Exception:
            # Code that leaves torch works only without gradients. Other errors are raised again here.
            with torch.inference_mode():
                return self._output(rows, plain=True)

    def _tracked(self, rows: Any) -> Any:
        return self._output(rows.clone().requires_grad_().clone(), plain=True)

    def _remember(self, kind: Kind, values: Array | None = None) -> Kind:
        # Empty output or NaN does not show it; the caller reports such output.
        if values is None or (len(values) and np.isfinite(values).all()):
            self._kind = kind
        return kind

    def _find_weight(self) -> Any:
        return _first_weight(self.source, self.name)

    def _parts(self) -> list[Any]:
        """List every part that has a mode."""
        return parts(self.source)

    def _rows(self, X: Any) -> Any:
        import torch

        weight = self._weight
        single = weight is None or weight.dtype is torch.float32
        # Always a copy, which the module may change and which is never read-only.
        rows = torch.from_numpy(np.asarray(X).astype(np.float32 if single else np.float64))
        return rows if weight is None or (single and weight.is_cpu) else rows.to(weight.device, weight.dtype)

    def _call(self, module: Any, rows: Any) -> Any:
        try:
            return module(rows)
        except RuntimeError as error:
            first = next((part for part in self.source.modules() if hasattr(part, "in_features")), None)
            if first is not None and f"x{rows.shape[1]} and {first.in_features}x" in str(error):
                raise wrong_width(self.name, first.in_features, rows.shape[1]) from error
            raise

    def _output(self, rows: Any, plain: bool = False) -> Any:
        """Call the module; return a tensor of one number per row, or of one row per row."""
        import torch

        # A compiled module also contains the original module, whose operations are visible.
        output = self._call(getattr(self.source, "_orig_mod", self.source) if plain else self.source, rows)
        if not isinstance(output, torch.Tensor) or output.is_complex():
            got = f"a tensor of {output.dtype}" if isinstance(output, torch.Tensor) else f"a {type(output).__name__}"
            problem = f"{self.name} returned {got}; one tensor of logits, probabilities or labels is needed"
            raise ModelError(problem, remedy=_WRAP)
        if len(rows) == 1 and output.ndim < 2:
            # squeeze() also removes the dimension of rows if there is only one.
            output = output.reshape(1, -1)
        if output.ndim == 2 and output.shape[1] == 1:
            output = output[:, 0]
        if output.ndim not in (1, 2) or 0 in output.shape[1:]:
            problem = (
                f"{self.name} returned a tensor of shape {tuple(output.shape)}; (rows,) or (rows, classes) is needed"
            )
            raise ModelError(problem, remedy=_WRAP)
        if len(output) != len(rows):
            problem = f"{self.name}: got {len(output)} answers for {len(rows)} rows"
            raise ModelError(problem, remedy="return one answer per row")
        return output

    def _not_differentiable(
        self, by: str = "input", remedy: Words = ("use ", SCORE_DIFFERENCES, ", on its scores, or ", KOSEI)
    ) -> ModelError:
        problem = f"the output of {self.name} does not depend on its {by} in a way that can be differentiated"
        return ModelError(problem, remedy=remedy)


def wrong_width(name: str, takes: int, given: int) -> ModelError:
    """Make the error for a network that takes another number of columns."""
    return ModelError(
        f"{name} takes {takes} columns, but is given {given}",
        remedy="give the space the columns that it was trained on, in the same order",
    )


class Evaluation:
    """Puts modules into evaluation mode for a while.

    Only the flags change, because a module may override ``eval()`` and ``train()``, and change its weights in them.
    """

    def __init__(self, modules: Iterable[Any]) -> None:
        # Modules from torch.jit.freeze have no mode.
        self._training = [module for module in modules if getattr(module, "training", False)]

    def __enter__(self) -> None:
        for module in self._training:
            module.training = False

    def __exit__(self, *_: object) -> None:
        for module in self._training:
            module.training = True


def parts(module: Any) -> list[Any]:
    """List a module and all its parts; much faster than ``modules()``, because every call needs it."""
    found, seen = [module], {module}
    for part in found:
        for child in part._modules.values():
            if child is not None and child not in seen:
                seen.add(child)
                found.append(child)
    return found


def _first_weight(module: Any, name: str) -> Any:
    """Return the first floating parameter, whose type and device the module takes, or None."""
    from torch.nn.parameter import is_lazy

    weights = list(module.parameters())
    if any(map(is_lazy, weights)):
        remedy = "call it once on a batch, or load its weights"
        raise ModelError(f"{name} has parameters without values", remedy=remedy)
    devices = sorted({str(weight.device) for weight in weights})
    if any("meta" in device for device in devices):
        problem = f"{name} has parameters on {' and '.join(devices)}; meta holds no values"
        raise ModelError(problem, remedy="load the weights: module.load_state_dict(state, assign=True)")
    if len(devices) > 1:
        problem = f"{name} has parameters on {' and '.join(devices)}; all must be on one device"
        raise ModelError(problem, remedy='move it: module.to("cpu")')
    return next((tensor for tensor in [*weights, *module.buffers()] if tensor.is_floating_point()), None)


def as_answer(output: Any) -> Array:
    """Return the output of a module as an array: float64 for floats, otherwise its own type."""
    answer: Array = as_floats(output) if output.is_floating_point() else output.cpu().numpy()
    return answer


def as_floats(tensor: Any) -> Floats:
    """Return a tensor as an array of float64 that shares no memory with it, because the module may reuse the tensor."""
    # With NumPy, which is faster and always copies.
    floats: Floats = in_numpy(tensor).astype(np.float64)
    return floats


def in_numpy(tensor: Any) -> Array:
    """Return a tensor as an array of its own type, or of the closest type in NumPy."""
    import torch

    tensor = tensor.detach().cpu()
    array: Array = tensor.float().numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()
    return array


def kind_of(values: Floats, head: str | None, name: str, rounding: float = 1e-5) -> Kind:
    """Infer the meaning of floating output from the operation that produced it and from its values."""
    bounded = bool(((values >= 0) & (values <= 1)).all())
    if values.ndim == 1:
        if head in ("sigmoid", "softmax"):
            return "probabilities"
        if head in ("logsigmoid", "logsoftmax"):
            return "logs"
        if head is None and (values >= 0).all() and (values == np.rint(values)).all():
            # Whole numbers without gradients: an argmax or a comparison, cast to floats.
            return "labels"
        if head in LINEAR or not bounded:
            return "logits"
        raise ModelError(
            f"{name} returns one number from 0 to 1 per row, which may be a probability or a logit",
            remedy="return the probabilities of both classes, 1 - p and p, in two columns",
        )
    if bounded and np.allclose(values.sum(axis=1), 1, rtol=0, atol=rounding):
        return "shares"
    if head == "softmax" and len(values) > 1 and np.allclose(values.sum(axis=0), 1, rtol=0, atol=rounding):
        raise ModelError(
            f"the softmax of {name} runs over the rows, so that a prediction depends on the other rows in the batch",
            remedy="set dim=1 in the softmax",
        )
    return "probabilities" if head in ("sigmoid", "softmax") else "logits"


def loss_slopes(output: Any, classes: Codes, kind: Kind) -> Any:
    """Return the derivative of the loss by an output, as a tensor like it."""
    import torch

    found = slopes(as_floats(output), classes, kind, torch.finfo(output.dtype).tiny)
    return torch.from_numpy(found).to(output.device, output.dtype)


# Operations that move, select or clip values, which does not change their meaning.
_PASSING = frozenset(
    {"Alias", "Clamp", "Clone", "Expand", "Index", "IndexSelect", "Permute", "Reshape", "ReshapeAlias", "Select"}
    | {"Slice", "Split", "Squeeze", "T", "ToCopy", "Transpose", "Unbind", "UnsafeView", "Unsqueeze", "View"}
)
# One node for all compiled operations.
_OPAQUE = ("CompiledFunction", "DifferentiableGraph")


def _head(node: Any) -> str | None:
    """Return the operation that produced the values, such as "sigmoid"; None if there is none, HIDDEN if unknown."""
    while node is not None:
        name = _operation(node)
        if name == "Add" and any(
            part is not None and _operation(part).lower() in LINEAR for part, _ in node.next_functions
        ):
            # A layer that adds its bias separately.
            return LINEAR[0]
        if name not in _PASSING:
            return HIDDEN if name.endswith(_OPAQUE) else name.lower()
        node = node.next_functions[0][0]
    return None


def _operation(node: Any) -> str:
    return str(node.name()).rpartition("Backward")[0] or str(node.name())


_ACTIVATIONS = {"ReLU": "relu", "Sigmoid": "logistic", "Tanh": "tanh"}
# Layers without an effect on rows of numbers in evaluation mode.
_TRANSPARENT = frozenset({"AlphaDropout", "Dropout", "Flatten", "Identity"})


@dataclass(frozen=True)
class Chain:
    """A `Sequential` of linear layers with activations between them, on the CPU.

    Its gradients guide a search; decisions always come from the module itself.
    """

    layers: list[Any]
    activations: list[str]

    def gradients(self, X: Rows, loss: Loss, classes: Codes) -> Floats:
        """Differentiate the loss of each row's class by the row's columns."""
        # The current weights, because a module may be trained between two calls.
        layers = [_arrays(layer._parameters) for layer in self.layers]
        rows = np.asarray(X, dtype=layers[0][0].dtype)
        with np.errstate(all="ignore"):  # the caller reports values that are not finite
            return differentiate(rows, layers, self.activations, loss, classes)


def chain_of(module: Any) -> Chain | None:
    """Read a module as a chain; None if it is anything else.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> chain_of(net).activations
    ['relu']
    >>> chain_of(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(dim=1))) is None
    True
    """
    import torch

    layers: list[Any] = []
    activations: list[str] = []
    for part in _flat(module) or []:
        if type(part) is torch.nn.Linear:
            weight = part.weight
            plain = weight.is_cpu and weight.layout is torch.strided and weight.dtype in (torch.float32, torch.float64)
            if not plain:
                return None
            activations += ["identity"] * (len(layers) > len(activations))
            layers.append(part)
        elif len(activations) == len(layers):
            return None  # an activation at the beginning, or after another activation
        else:
            activations.append(_ACTIVATIONS[type(part).__name__])
    return Chain(layers, activations) if len(layers) > len(activations) else None


def _flat(module: Any) -> list[Any] | None:
    """List the parts of nested sequences; None if a part is unknown or overrides its class."""
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


def _arrays(parameters: dict[str, Any]) -> tuple[Floats, Floats]:
    weights: Floats = parameters["weight"].detach().numpy().T
    bias = parameters["bias"]
    return weights, np.zeros(1, dtype=weights.dtype) if bias is None else bias.detach().numpy()


def _chain_slopes(outputs: Floats, classes: Codes, kind: Kind) -> Floats:
    """Differentiate the loss by a chain's outputs, in their precision."""
    values = outputs.astype(np.float64)
    found = slopes(values[:, 0] if values.shape[1] == 1 else values, classes, kind, np.finfo(outputs.dtype).tiny)
    return found.reshape(outputs.shape).astype(outputs.dtype)


class KerasModel(TorchModel):
    """A Keras model with one input of rows and columns, and one output of logits, probabilities or labels.

    It must be built: either start with ``keras.Input``, or have been called. On the torch backend it is used as a torch
    module. On other backends it is called with ``predict`` and has no gradients; the activation of its last layer
    distinguishes probabilities from logits.
    """

    def __init__(self, model: Any) -> None:
        import keras

        self._torch = keras.backend.backend() == "torch"
        self._keras_width = _keras_width(model)
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
        return self._remember(kind_of(values, _keras_head(self.source), self.name), values)

    def _find_weight(self) -> Any:
        return super()._find_weight() if self._torch else None

    def _parts(self) -> list[Any]:
        # Keras has its own list of layers. One of them may be a torch module, whose mode Keras changes and does not
        # restore.
        return [part for layer in self.source._flatten_layers() for part in parts(layer)]

    def _call(self, module: Any, rows: Any) -> Any:
        return module(rows, training=False)

    def _rows(self, X: Any) -> Any:
        self._check_width(X)
        return super()._rows(X)

    def _check_width(self, X: Any) -> None:
        if self._keras_width is not None and X.shape[1] != self._keras_width:
            raise wrong_width(self.name, self._keras_width, X.shape[1])


def _keras_width(model: Any) -> int | None:
    """Return how many columns a model takes, if known; raise if its input is anything else."""
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


def _keras_head(model: Any) -> str:
    """Return the activation of a model's output, or HIDDEN."""
    outputs = getattr(model, "outputs", None)
    if not outputs:
        return HIDDEN
    last = outputs[0]._keras_history.operation
    activation = getattr(last, "activation", None)
    if activation is not None:
        return str(getattr(activation, "__name__", activation)).replace("_", "")
    kind = type(last).__name__.lower()
    return kind if kind in ("sigmoid", "softmax", "logsigmoid", "logsoftmax") else HIDDEN
