"""ONNX files, run by onnxruntime on the CPU."""

from __future__ import annotations

import importlib.util
import operator
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._sandbox import attempt, short_of_memory
from evenhand.errors import LimitExceeded, MissingExtra, ModelError
from evenhand.models.base import Array, Floats, Model, Rows, some
from evenhand.models.files import check_file
from evenhand.models.formats import unreadable
from evenhand.models.torch import wrong_width

_DTYPES: dict[str, type] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": object,
}
_FLOATS = ("tensor(float)", "tensor(double)", "tensor(float16)")


class OnnxModel(Model):
    """An ONNX graph that takes one matrix, or one input per column.

    It may return labels, one score per class (a matrix, or the list of dicts that skl2onnx makes by default),
    or both. A graph that returns scores alone decides for the highest, as 0, 1, 2. With a threshold the
    decisions are 0 and 1 if the graph does not name its classes.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = check_file(Path(path)).absolute()
        self.name = self.path.stem
        self.source = _open(self.path, tried=False)
        inputs = self.source.get_inputs()
        for part in inputs:
            _check_input(part, alone=len(inputs) == 1, name=self.name)
        self._inputs = [(part.name, _DTYPES[part.type], len(part.shape)) for part in inputs]
        self._matrix = len(inputs) == 1
        self._width = inputs[0].shape[-1] if self._matrix else None
        text = self._matrix and self._inputs[0][1] is object
        self.input = "array" if self._matrix and not text else "frame"
        self.columns = None if self._matrix else tuple(part.name for part in inputs)
        self._label, self._score = _find_outputs(self.source.get_outputs(), self.name)
        self.has_scores = self._score is not None
        # The label output may follow a different rule than the highest score, and names the classes.
        self.decides = self._label is None

    def labels(self, X: Rows) -> Array:
        """Return the graph's labels; without any, or with a threshold, decide from its scores."""
        if self._label is None or self.threshold is not None:
            return self.decide(self.scores(X))
        return np.asarray(self._run(self._label, X)).ravel()

    def scores(self, X: Rows) -> Floats:
        """Return the graph's scores, one column per class."""
        if self._score is None:
            return super().scores(X)
        answer = self._run(self._score, X)
        if isinstance(answer, list):
            # One dict per row, all with the same keys in the same order.
            classes = tuple(answer[0])
            answer = np.asarray(list(map(operator.itemgetter(*classes), answer))).reshape(-1, len(classes))
            self.classes = np.asarray(classes)
        scores = np.asarray(answer, dtype=np.float64)
        return scores[:, np.newaxis] if scores.ndim == 1 else scores

    def _run(self, output: str, X: Any) -> Any:
        return self.source.run([output], self._feed(self.pick(X)))[0]

    def _feed(self, X: Any) -> dict[str, Array]:
        if not self._matrix:
            feeds = {name: _cast(X[name], dtype, f"column {name!r}") for name, dtype, _ in self._inputs}
            return {name: feeds[name].reshape((-1, 1)[:rank]) for name, _, rank in self._inputs}
        name, dtype, _ = self._inputs[0]
        if isinstance(self._width, int) and X.shape[1] != self._width:
            raise wrong_width(self.name, self._width, X.shape[1])
        return {name: _cast(X, dtype, "its input")}

    def __getstate__(self) -> dict[str, Any]:
        # Sessions cannot be pickled; the file is opened again.
        return {**self.__dict__, "source": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, source=_open(state["path"]))


def prepare() -> None:
    """Import the reader, before the limits of a trial count."""
    import onnxruntime  # noqa: F401


def trial(path: Path) -> None:
    """Open a file with one thread, and run it on one row of zeros or empty texts."""
    session = _session(path, threads=1)
    row = {}
    for part in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in part.shape]
        row[part.name] = np.full(shape, "" if _DTYPES.get(part.type) is object else 0, _DTYPES.get(part.type))
    try:
        session.run(None, row)
    except Exception as error:
        # A model may reject such a row; only the memory that it needs matters.
        if short_of_memory(error):
            raise MemoryError from None


def _session(path: Path, threads: int = 0) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # onnxruntime also prints the errors that it raises.
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    # CPUs give the same answers on every machine, while graphics cards round differently.
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _open(path: Path, tried: bool = True) -> Any:
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra("onnxruntime", "onnx", f"reading {path.name}")
    try:
        if not tried:
            # A graph of a few bytes may contain constants of any size, made when it is opened or run.
            attempt("evenhand.models.onnx:trial", path, path.stat().st_size)
        return _session(path)
    except LimitExceeded:
        raise
    except Exception as error:
        raise unreadable(path, "ONNX", str(error).splitlines()[0].rpartition("failed:")[2].strip()) from error


def _check_input(part: Any, *, alone: bool, name: str) -> None:
    remedy = ""
    if part.type not in _DTYPES:
        remedy = "export it with tensors of numbers or text"
    elif part.shape and isinstance(part.shape[0], int):
        remedy = f"that always has {part.shape[0]} rows: export it with a free first dimension"
    elif alone and len(part.shape) != 2:
        remedy = "a single input must have two dimensions, rows and columns"
    elif not alone and (len(part.shape) not in (1, 2) or part.shape[1:] not in ([], [1])):
        remedy = "each of several inputs must be one column, of shape [rows, 1]"
    if remedy:
        raise ModelError(f"{name} takes {part.name!r} as {part.type} of shape {part.shape}", remedy=remedy)


def _find_outputs(outputs: list[Any], name: str) -> tuple[str | None, str | None]:
    """Return the names of the outputs with the labels and with the scores."""
    labels = [out.name for out in outputs if out.type in _DTYPES and out.type not in _FLOATS]
    scores = [out.name for out in outputs if out.type in _FLOATS or out.type.startswith("seq(map(")]
    if len(scores) > 1:
        likely = [score for score in scores if "prob" in score.lower()]
        scores = likely if len(likely) == 1 else []
    if len(labels) > 1 or not (labels or scores):
        listed = some([f"{out.name} ({out.type})" for out in outputs])
        raise ModelError(
            f"{name} returns {listed}; it is unclear which one is the prediction",
            remedy="export it with one label output, one probability output, or both",
        )
    return labels[0] if labels else None, scores[0] if scores else None


def _cast(values: Any, dtype: type, what: str) -> Array:
    """Convert to the type that the graph declares; raise if that would change a value."""
    if dtype is object:
        array = np.array(values, dtype=object)
        if not all(issubclass(kind, str) for kind in set(map(type, array.ravel().tolist()))):
            raise _cannot_hold(what, "text", "missing values or numbers", "convert them to texts in the space")
        return array
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _cannot_hold(what, dtype.__name__, "texts", "encode them as numbers in the space") from error
    with np.errstate(invalid="ignore"):
        cast: Array = array.astype(dtype)
    if not issubclass(dtype, np.floating) and not (cast == array).all():
        remedy = "make it an integer attribute in the space"
        raise _cannot_hold(what, dtype.__name__, "fractions or missing values", remedy)
    return cast


def _cannot_hold(what: str, kind: str, found: str, remedy: str) -> ModelError:
    return ModelError(
        f"the ONNX model takes {kind} in {what}, which has {found}",
        remedy=f"{remedy}, or export the model with another type for it",
    )
