"""Networks that torch saved as programs: exported ones (.pt2) and TorchScript (.pt).

torch's own readers run what such files say. An exported program is therefore read as data, a list of operations and
their tensors, and its operations are called here. TorchScript has to be run by torch; its text is checked before.
Both may only use `OPERATIONS`, which only compute with tensors.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from evenhand._files import check_limit, open_archive, open_file, parse_json
from evenhand.errors import ModelError
from evenhand.models.base import some
from evenhand.models.formats import require, try_one, unreadable

_NAMES = """
abs add add_ addmm alias all amax amin any arange argmax argmin as_tensor avg_pool1d baddbmm batch_norm bitwise_and
bitwise_not bitwise_or bmm broadcast_tensors bucketize cat ceil celu chunk clamp clamp_ clamp_max clamp_min clone
concat contiguous conv1d convolution cos cumsum detach dim div div_ dropout dropout_ einsum elu elu_ embedding
embedding_bag empty_like eq erf exp expand expand_as eye feature_dropout flatten floor floor_divide full full_like
gather ge gelu glu group_norm gt hardsigmoid hardswish hardtanh hardtanh_ index index_select instance_norm isfinite
isinf isnan item layer_norm le leaky_relu leaky_relu_ lift_fresh_copy linear log log10 log1p log2 log_sigmoid
log_softmax logical_and logical_not logical_or logit lt masked_fill masked_fill_ masked_select matmul max max_pool1d
maximum mean min minimum mish mm mul mul_ mv nan_to_num narrow native_batch_norm native_dropout native_layer_norm ne
neg new_full new_ones new_zeros nonzero norm numel one_hot ones ones_like permute pow prelu prod reciprocal relu relu6
relu_ remainder repeat repeat_interleave reshape reshape_as rms_norm round rrelu rsqrt rsub scalar_tensor
scaled_dot_product_attention select selu selu_ sigmoid sigmoid_ sign silu silu_ sin size slice softmax softplus
softsign split split_with_sizes sqrt square squeeze stack std stride sub sub_ sum sym_numel sym_size sym_stride t tanh
tanh_ tensor tensor_split tile to topk transpose tril triu trunc unbind unflatten unsqueeze var view view_as where
xlogy zeros zeros_like _adaptive_avg_pool2d _assert_scalar _assert_tensor_metadata _log_softmax
_native_batch_norm_legit _native_batch_norm_legit_no_training _safe_softmax _softmax _to_copy _unsafe_view
"""
OPERATIONS = frozenset(_NAMES.split())
"""Operations on tensors that networks for rows of numbers are made of; none of them touches a file."""


def read_exported(path: Path) -> torch.nn.Module:
    """Read an exported program."""
    with (
        open_file(path, ModelError) as file,
        open_archive(file, path, "an exported torch program", "archive_entries", "model_bytes", ModelError) as archive,
    ):
        names = archive.namelist()
        root = next((name.removesuffix("archive_format") for name in names if name.endswith("/archive_format")), None)
        models = [name for name in names if name.startswith(f"{root}models/") and name.endswith(".json")]
        if root is None or len(models) != 1 or f"{root}data/weights/model_weights_config.json" not in names:
            why = "it has no program and weights, as torch 2.8 and newer write them"
            raise unreadable(path, "an exported torch program", why)

        def load(name: str) -> Any:
            check_limit("json_bytes", archive.getinfo(name).file_size, path)
            return parse_json(archive.read(name), path)

        stored = {}
        for kind in ("weights", "constants"):
            config = f"{root}data/{kind}/model_{kind}_config.json"
            for name, about in load(config)["config"].items() if config in names else ():
                require(not about["use_pickle"], f"its tensor {name!r} is a pickle, which runs code")
                stored[name] = _tensor(archive.read(f"{root}data/{kind}/{about['path_name']}"), about["tensor_meta"])
        return Program(load(models[0])["graph_module"], stored)


def try_exported(path: Path) -> None:
    """Read an exported program, and ask about one row."""
    _try(read_exported(path))


def _try(module: torch.nn.Module) -> None:
    wide = next((part for part in module.parameters() if part.ndim == 2), None)
    with torch.inference_mode():
        try_one(lambda: None if wide is None else module(torch.zeros(1, wide.shape[1], dtype=wide.dtype)))


_DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 12: torch.bool, 13: torch.bfloat16,
}  # fmt: skip
_MEMORY = {1: torch.contiguous_format, 2: torch.channels_last, 4: torch.preserve_format}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    f"_operator.{name}": getattr(operator, name)
    for name in ("add", "eq", "floordiv", "ge", "gt", "le", "lt", "mod", "mul", "ne", "neg", "sub", "truediv")
}


def _tensor(content: bytes, about: dict[str, Any]) -> torch.Tensor:
    """Make a tensor of bytes; torch raises if it needs more bytes than there are."""
    sizes, strides = ([int(one["as_int"]) for one in about[name]] for name in ("sizes", "strides"))
    dtype = _DTYPES[about["dtype"]]
    require(math.prod(sizes) * dtype.itemsize <= max(len(content), 1), "a tensor claims more values than it has")
    flat = torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.zeros(0, dtype=dtype)
    return flat.as_strided(sizes, strides, int(about["storage_offset"]["as_int"])).clone()


class Program(torch.nn.Module):  # type: ignore[misc]
    """An exported program, as a list of operations: each is looked up by its name, and called with its arguments."""

    def __init__(self, module: dict[str, Any], stored: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self._inputs: list[str] = []
        self._places: dict[str, str] = {}
        for spec in module["signature"]["input_specs"]:
            ((kind, about),) = spec.items()
            if kind == "user_input":
                self._inputs.append(about["arg"]["as_tensor"]["name"])
                continue
            require(kind in ("parameter", "buffer", "tensor_constant"), f"it takes a {kind}, which is not supported")
            tensor, place = stored[about[f"{kind}_name"]], f"stored_{len(self._places)}"
            self._places[about["arg"]["name"]] = place
            if kind == "parameter":
                self.register_parameter(place, torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point()))
            else:
                self.register_buffer(place, tensor)
        outputs = [spec.get("user_output") for spec in module["signature"]["output_specs"]]
        if len(self._inputs) != 1 or len(outputs) != 1 or outputs[0] is None:
            raise ModelError(
                f"it takes {len(self._inputs)} tensors, returns {len(outputs)} and may change others; one of each is "
                "needed",
                remedy="export a module that takes a batch of rows, and returns one tensor",
            )
        self._output = outputs[0]["arg"]["as_tensor"]["name"]
        self._steps = [
            (_operation(node["target"]), node["inputs"], node["outputs"]) for node in module["graph"]["nodes"]
        ]

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Run the program."""
        known: dict[str, Any] = {name: getattr(self, place) for name, place in self._places.items()}
        known[self._inputs[0]] = rows
        for call, inputs, outputs in self._steps:
            given = [(one["name"], one.get("kind", 1), _value(one["arg"], known)) for one in inputs]
            positional = [value for _, kind, value in given if kind != 2]
            answer = call(*positional, **{name: value for name, kind, value in given if kind == 2})
            known.update(_named(outputs, answer))
        found: torch.Tensor = known[self._output]
        return found


def _operation(target: str) -> Callable[..., Any]:
    """Find the operation that a program names.

    >>> _operation("torch.ops.aten.relu.default")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    >>> _operation("torch.hub.load")
    Traceback (most recent call last):
    evenhand.errors.ModelError: it calls torch.hub.load, which may do more than compute; if you trust it, load the model
    yourself: eh.wrap(module)
    """
    if target in _ARITHMETIC:
        return _ARITHMETIC[target]
    parts = target.split(".")
    if len(parts) != 5 or parts[:3] != ["torch", "ops", "aten"] or parts[3] not in OPERATIONS:
        raise _unknown([target])
    packet = getattr(torch.ops.aten, parts[3])
    if parts[4] not in packet.overloads():
        raise _unknown([target])
    found: Callable[..., Any] = getattr(packet, parts[4])
    return found


def _unknown(names: list[str]) -> ModelError:
    return ModelError(
        f"it calls {some(names)}, which may do more than compute",
        remedy="if you trust it, load the model yourself: eh.wrap(module)",
    )


def _value(argument: dict[str, Any], known: dict[str, Any]) -> Any:
    """Return the value of an argument, which is one of a few kinds."""
    ((kind, value),) = argument.items()
    if kind in ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float", "as_optional_tensor"):
        if "as_none" in value:
            return None
        literal = [one for key, one in value.items() if key in ("as_int", "as_bool", "as_float")]
        return literal[0] if literal else known[value.get("name", value.get("as_name"))]
    if kind in ("as_tensors", "as_sym_ints", "as_optional_tensors"):
        single = kind.removesuffix("s")
        return [_value({single: one.get("as_tensor", one)}, known) for one in value]
    if kind == "as_none":
        return None
    if kind in ("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string"):
        return value
    tables: dict[str, Any] = {
        "as_scalar_type": _DTYPES, "as_memory_format": _MEMORY, "as_layout": {7: torch.strided}
    }  # fmt: skip
    if kind in tables and value in tables[kind]:
        return tables[kind][value]
    if kind == "as_device":
        return torch.device("cpu")
    raise ModelError(f"it has an argument that is not supported ({kind})")


def _named(outputs: list[dict[str, Any]], answer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the results of an operation with their names."""
    answers = [answer] if len(outputs) == 1 else list(answer or [])
    for output, one in zip(outputs, answers, strict=True):
        ((kind, about),) = output.items()
        if kind == "as_tensors":
            yield from zip((part["name"] for part in about), one, strict=True)
        elif kind != "as_none":
            yield about.get("name", about.get("as_name")), one


def read_script(path: Path) -> Any:
    """Read a TorchScript module."""
    _check_script(path)
    with warnings.catch_warnings():
        # TorchScript is no longer developed, but its files are still in use.
        warnings.simplefilter("ignore")
        return torch.jit.load(str(path), map_location="cpu").eval()


def try_script(path: Path) -> None:
    """Read a TorchScript module, and ask about one row."""
    _try(read_script(path))


def _check_script(path: Path) -> None:
    """Raise if the text of a module calls anything that may do more than compute."""
    with (
        open_file(path, ModelError) as file,
        open_archive(file, path, "TorchScript", "archive_entries", "model_bytes", ModelError) as archive,
    ):
        names = archive.namelist()
        first = min((entry.header_offset for entry in archive.infolist()), default=1)
        if not any("/code/" in name for name in names) or not any(name.endswith("/constants.pkl") for name in names):
            why = "there is no code of TorchScript in it: other .pt files are pickles, which run code"
            raise unreadable(path, "TorchScript", why)
        # torch finds the first entry of a name, whether in capitals or not.
        require(
            first == 0 and len({name.lower() for name in names}) == len(names),
            "torch does not write such entries",
        )
        unknown = sorted({name for text in _texts(archive, path) for name in _unknown_names(text, path)})
    if unknown:
        raise _unknown(unknown)


def _texts(archive: zipfile.ZipFile, path: Path) -> Iterator[str]:
    for entry in archive.infolist():
        if "/code/" in entry.filename.lower() and not entry.filename.endswith(".debug_pkl"):
            check_limit("toml_bytes", entry.file_size, path)
            yield archive.read(entry).decode("utf-8")


_PRIMITIVES = "NumToTensor RaiseException data device dtype is_cuda layout max min requires_grad unchecked_cast"
_LANGUAGE = (
    "__contains__ __derive_index __getitem__ __is__ __isnot__ __not__ __range_length append format len list warn"
)
_SCRIPT = OPERATIONS | set(_LANGUAGE.split())


def _unknown_names(text: str, path: Path) -> Iterator[str]:
    """Yield the names in a program of torch functions that may do more than compute.

    >>> list(_unknown_names("def f(x): return torch.relu(x)", Path("m.pt")))
    []
    >>> sorted(_unknown_names("def f(x): x.save('a'); return getattr(x, 'from_file')('b')", Path("m.pt")))
    ['getattr from_file', 'save']
    """
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise unreadable(path, "TorchScript", f"its code cannot be parsed: {error}") from None
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in ("torch", "ops") and id(node) not in inner:
            yield node.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            name = node.args[1] if len(node.args) > 1 else None
            if not isinstance(name, ast.Constant) or _calls(str(name.value)):
                yield f"getattr {getattr(name, 'value', '?')}"
        elif isinstance(node, ast.Attribute):
            base = node.value
            if isinstance(base, ast.Name) and base.id in ("torch", "ops"):
                known = node.attr in _SCRIPT if base.id == "torch" else node.attr == "prim"
            elif isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name) and base.value.id == "ops":
                known = node.attr in _PRIMITIVES.split()
            else:
                known = not _calls(node.attr)
            if not known:
                yield node.attr


def _calls(name: str) -> bool:
    """Whether a name of an attribute is also that of an operation which may do more than compute."""
    return name not in _SCRIPT and bool(torch._C._jit_get_schemas_for_operator(f"aten::{name}"))
