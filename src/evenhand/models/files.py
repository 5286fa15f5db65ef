"""Models from files, and from ``module:attribute``."""

from __future__ import annotations

import copy
import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._files import (
    FREE,
    check_array,
    check_limit,
    exceeded,
    limit,
    open_archive,
    open_file,
    parse_json,
    read_toml,
    size_of,
)
from evenhand._validate import check_path
from evenhand.errors import TRUST_PICKLE, EvenhandError, MissingExtra, ModelError, trust_types
from evenhand.models.base import Array, Model, some
from evenhand.models.formats import FORMATS, check_nodes, read_format, require, unreadable
from evenhand.models.text.transformers import is_folder, load_folder
from evenhand.plugins import is_spec, look_here_first, named, reason

PICKLES = (".joblib", ".pkl", ".pickle")
"""Endings of files that run code when they are loaded."""
SAFE = (".onnx", ".skops", *FORMATS)
"""Endings of model files that run no code when they are loaded."""
_MLFLOW = "MLmodel"
_MLFLOW_FLAVOURS = ("xgboost", "lightgbm", "catboost", "onnx", "keras", "tensorflow", "pytorch", "sklearn")
_MLFLOW_FILES = ("data", "pickled_model", "model_data")
"""Keys of a flavour that name the model's file, or its folder."""
_MLFLOW_INSIDE = ("model.keras", "model.pt2", "model.pth")
_MLFLOW_ENDINGS = {".xgb": ".ubj", ".lgb": ".txt", ".cb": ".cbm"}
"""Endings that MLflow gives to files which have others elsewhere."""


def load_model(spec: str | Path, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Model:
    """Load a model and wrap it.

    Parameters
    ----------
    spec
        A file (.onnx; .skops; .json, .ubj of XGBoost; .txt of LightGBM; .cbm of CatBoost; .keras; .pt2, .pt of torch;
        .joblib, .pkl, .pickle), the folder of a Hugging Face model with its tokenizer or of an MLflow model, a URL,
        or "module:attribute" for an object in a Python module. Modules are first searched in the current directory,
        which stays on ``sys.path`` so that the model can import modules from it.
    trust_pickle
        Allow pickles, which run code from the file: only for files that you made yourself.
    trust
        Names of types that a .skops file may create, in addition to those known to be harmless (`HARMLESS`, trees).

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If there is no such model, or it is not trusted.

    Examples
    --------
    >>> load_model("operator:not_").name
    'not_'
    >>> load_model("model.pkl")
    Traceback (most recent call last):
    evenhand.errors.ModelError: model.pkl: there is no such file; check the path
    """
    # wrap() also accepts paths, so the two modules need each other.
    from evenhand.models.wrap import wrap

    if is_url(spec):
        from evenhand.models.endpoint import Endpoint

        return Endpoint(str(spec))
    path = check_path("spec", spec, ModelError)
    path, ending = find_model(path) if is_mlflow(path) else (path, path.suffix.lower())
    model: Model
    if ending == ".onnx":
        from evenhand.models.onnx import OnnxModel

        model = OnnxModel(path)
    elif ending in FORMATS and not is_spec(str(spec)):
        model = wrap(read_format(check_file(path), FORMATS[ending]))
    elif is_folder(path):
        model = load_folder(path)
    else:
        model = wrap(load_object(spec if path == Path(spec) else path, trust_pickle, trust))
    if path.is_file():
        with path.open("rb") as file:
            model = copy.copy(model)
            model.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return model


def is_url(spec: str | Path) -> bool:
    """Whether a model is an endpoint.

    >>> is_url("https://models.example/v2/models/credit"), is_url("model.onnx")
    (True, False)
    """
    return isinstance(spec, str) and spec.lower().startswith(("http://", "https://"))


def load_object(spec: str | Path, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Any:
    """Load the object in a file or a module unchanged: an estimator, which may not be fitted, or a training function.

    >>> load_object("operator:not_")
    <built-in function not_>
    """
    path, ending = Path(spec), Path(spec).suffix.lower()
    if ending == ".onnx" or ending in FORMATS:
        kind = "ONNX" if ending == ".onnx" else FORMATS[ending].framework
        raise ModelError(f"{spec}: models from {kind} files cannot be trained", remedy="give the estimator itself")
    if ending == ".skops":
        return _load_skops(check_file(path), trust)
    if ending in PICKLES:
        return _load_pickle(check_file(path), trust_pickle)
    if isinstance(spec, Path) or not is_spec(spec):
        raise ModelError(
            f"{spec}: this is not a model",
            remedy=f"give a file ({', '.join((*SAFE, *PICKLES))}), the folder of a Hugging Face or MLflow model, a "
            "URL, or module:attribute for an object in a Python module",
        )
    return named(spec, ModelError)


def check_file(path: Path) -> Path:
    """Return the path of a file that exists, is not empty and is not too large.

    >>> check_file(Path("nowhere.onnx"))
    Traceback (most recent call last):
    evenhand.errors.ModelError: nowhere.onnx: there is no such file; check the path
    """
    size = size_of(path, ModelError, "name a model file")
    if size == 0:
        raise ModelError(f"{path}: the file is empty", remedy="save the model again")
    check_limit("model_bytes", size, path, "load the model yourself and wrap it")
    return path


def _load_pickle(path: Path, trusted: bool) -> Any:
    if not trusted:
        raise ModelError(
            f"{path}: unpickling runs code from the file, so it is refused",
            remedy=("if you made the file yourself: ", TRUST_PICKLE, "; better: save the model with skops"),
        )
    import joblib

    look_here_first()
    try:
        return joblib.load(path)
    except Exception as error:
        raise unreadable(path, "a pickle", reason(error)) from error


def _load_skops(path: Path, trust: Sequence[str]) -> Any:
    check_skops(path)
    skops_io = import_skops(f"reading {path.name}")
    try:
        unknown = set(skops_io.get_untrusted_types(file=path))
        if untrusted := sorted(unknown - {*trust, *OWN, *HARMLESS, *TREES}):
            raise ModelError(
                f"{path}: it would create {some(untrusted)}, which may be unsafe",
                remedy=("if you trust them: ", trust_types(untrusted)),
            )
        if trust:
            look_here_first()
        loaded = skops_io.load(path, trusted=sorted(unknown))
    except EvenhandError:
        raise
    except Exception as error:
        raise unreadable(path, "skops", reason(error)) from error
    if trees := sorted(unknown.intersection(TREES) - {*trust}):
        try:
            check_trees(loaded)
        except ModelError as error:
            raise ModelError(
                f"{path}: {error}; calling such a model could crash Python",
                remedy=("if you trust the file's author: ", trust_types(trees)),
            ) from None
        except Exception as error:
            raise unreadable(path, "skops", reason(error)) from error
    return loaded


def import_skops(purpose: str) -> Any:
    """Import skops.io, without importing torch if it is installed.

    To list the estimators that may be loaded, skops makes scikit-learn import all of its packages. One of them, an
    adapter for tensors, imports torch, which takes half of the time and memory. That package is hidden while skops is
    imported, as if torch were not installed.
    """
    hidden = _WALKED not in sys.modules and "skops.io" not in sys.modules
    if hidden:
        sys.modules[_WALKED] = None  # type: ignore[assignment]
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtra("skops", "skops", purpose) from error
    finally:
        if hidden:
            del sys.modules[_WALKED]
    return skops.io


_SCHEMA = "schema.json"
_VALUES = 20
"""Values in the schema for each object of a model; files that skops writes have about five."""
_WALKED = "sklearn.externals.array_api_compat.torch"


def check_skops(path: Path) -> None:
    """Raise if reading a file with skops could take more time or memory than a file of its size should.

    skops reads the schema at once, makes an object of a few kilobytes for each of its nodes, follows shared nodes as
    often as they are used, and reads an array as often as it is named. All of this can be counted from the schema and
    the archive's directory, so no separate process is needed to limit it.
    """
    if find_spec("skops") is None:
        raise MissingExtra("skops", "skops", f"reading {path.name}")
    with (
        open_file(path, ModelError) as file,
        open_archive(file, path, "skops", "archive_entries", "model_bytes", ModelError) as archive,
    ):
        entries = {entry.filename: entry.file_size for entry in archive.infolist()}
        if _SCHEMA not in entries:
            raise unreadable(path, "skops", f"there is no {_SCHEMA} in it")
        check_limit("json_bytes", entries[_SCHEMA], path)
        try:
            schema = parse_json(archive.read(_SCHEMA), path, _VALUES * limit("model_nodes"))
        except ValueError as error:
            raise unreadable(path, "skops", str(error)) from None
        counted = _Counter(schema, entries, path)
        check_limit("model_nodes", counted.nodes, path)
        most = max(FREE, limit("unpack_ratio") * path.stat().st_size)
        check_limit("unpack_ratio", counted.bytes, path, most=most)
        for name in counted.files & entries.keys():
            _check_content(archive, name, path)


class _Counter:
    """Counts the nodes that skops will visit, and the bytes of the entries that it will read.

    skops makes one node for each id, from the first that it reads, and follows it wherever that id is mentioned. Which
    parts of the schema it follows, and in which order, depends on the kind of node; so each mention counts as the
    largest node with that id anywhere.
    """

    def __init__(self, schema: Any, entries: dict[str, int], path: Path) -> None:
        self.entries, self.path, self.bytes = entries, path, 0
        self.files: set[str] = set()
        self._same: dict[Any, list[dict[str, Any]]] = {}
        self._counted: dict[Any, int | None] = {}
        self._look(schema)
        try:
            self.nodes = self._count(schema)
        except RecursionError:
            raise exceeded("nesting", "more than Python can parse", path) from None

    def _look(self, value: Any) -> None:
        """Find the nodes of each id, and what is read from the archive."""
        if isinstance(value, list):
            for part in value:
                self._look(part)
        elif isinstance(value, dict):
            if _has_id(value):
                self._same.setdefault(value["__id__"], []).append(value)
            file = value.get("file")
            if isinstance(file, str):
                self.files.add(file)
                self.bytes += self.entries.get(file, 0)
            self._look(list(value.values()))

    def _count(self, value: Any) -> int:
        """Count a value and all of its contents; a repeated node counts again with all of its contents."""
        if isinstance(value, list):
            return sum(map(self._count, value))
        if not isinstance(value, dict):
            return 0
        if not _has_id(value):
            return self._inside(value)
        name = value["__id__"]
        if name not in self._counted:
            self._counted[name] = None
            self._counted[name] = max(map(self._inside, self._same[name]))
        count = self._counted[name]
        if count is None:
            raise unreadable(self.path, "skops", "it contains an object that is part of itself")
        return count

    def _inside(self, node: dict[str, Any]) -> int:
        return ("__loader__" in node) + self._count(list(node.values()))


def _has_id(node: dict[str, Any]) -> bool:
    return isinstance(node.get("__id__"), int | str | float)


def _check_content(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Raise if an array claims more values than it has; sparse matrices are archives of arrays."""
    where, size = f"{path}: {name[:60]}", archive.getinfo(name).file_size
    if name.lower().endswith(".npy"):
        with archive.open(name) as stream:
            check_array(stream, size, where, ModelError)
        return
    with archive.open(name) as stream:
        if stream.read(4) != b"PK\3\4":
            return
    inner = io.BytesIO(archive.read(name))
    with open_archive(inner, where, "a sparse matrix", "archive_entries", "model_bytes", ModelError) as arrays:
        for entry in arrays.infolist():
            with arrays.open(entry) as stream:
                check_array(stream, entry.file_size, where, ModelError)


TREE = "sklearn.tree._tree.Tree"
HISTOGRAM_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
TREES = (TREE, HISTOGRAM_TREE)
"""Allowed because `check_trees` checks their contents."""
OWN = ("evenhand.repairs.marginal.MarginalModel",)
"""evenhand's own types: they contain a model, whose types are checked, and texts and numbers."""
_HARMLESS = {
    "builtins": "object",
    "numpy": "dtype floating integer number",
    "sklearn._loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.compose._column_transformer": "make_column_selector",
    "sklearn.feature_selection._univariate_selection": "chi2 f_classif f_regression",
    "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels": "CompoundKernel ConstantKernel DotProduct ExpSineSquared Exponentiation "
    "Matern Product RBF RationalQuadratic Sum WhiteKernel",
    "sklearn.metrics._classification": "balanced_accuracy_score",
    "sklearn.metrics._scorer": "_CurveScorer _PassthroughScorer _Scorer",
    "sklearn.model_selection._split": "KFold StratifiedKFold",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.utils._bunch": "Bunch",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}
HARMLESS = tuple(f"{module}.{name}" for module, names in _HARMLESS.items() for name in names.split())
"""Types and functions of scikit-learn and NumPy that contain or compute numbers and do nothing else.

Types such as ``object`` and ``numpy.number`` select the columns of a ``make_column_selector``.

Excluded on purpose: neighbour trees, which contain memory positions like other trees but are not checked; partial calls
and bound methods, which call whatever they are given.
"""


def check_trees(loaded: Any) -> None:
    """Raise if following the nodes of a tree in a loaded model could read outside its memory, or never end.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> check_trees(DecisionTreeClassifier().fit([[0], [1]], [0, 1]))
    """
    for node, ensembles in _walk(loaded):
        kind = f"{type(node).__module__}.{type(node).__qualname__}"
        holder = ensembles[-1] if ensembles else None
        if kind == TREE:
            # The estimator that contains a tree checks the width of its rows; a tree alone does not.
            require(getattr(holder, "tree_", None) is node, "a tree is outside an estimator")
            _check_tree(node, _width(ensembles))
        elif kind == HISTOGRAM_TREE:
            require(getattr(holder, "_preprocessor", 0) is None, "a histogram tree follows a preprocessor")
            nominal = np.any(vars(holder)["_bin_mapper"].is_categorical_)
            require(not nominal, "histogram trees split by categories, which are not checked")
            _check_histogram_tree(node, _width(ensembles))


def _check_tree(tree: Any, width: int) -> None:
    # Checked first, because otherwise nodes would be read outside their memory.
    require(0 < tree.node_count <= tree.capacity, f"a tree claims to have {tree.node_count} nodes")
    left, right = tree.children_left, tree.children_right
    inner = np.flatnonzero(left != -1)
    check_nodes("tree", inner, left[inner], right[inner], tree.feature[inner], tree.node_count, width)
    require(_depth(left, right) <= tree.max_depth, "a tree is deeper than it claims")


def _check_histogram_tree(tree: Any, width: int) -> None:
    nodes = tree.nodes
    names = {"left", "right", "feature_idx", "is_leaf", "is_categorical"}
    whole = isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) and names <= set(nodes.dtype.names or ())
    require(bool(whole), "a histogram tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    left, right = (nodes[side][inner].astype(np.int64) for side in ("left", "right"))
    check_nodes("histogram tree", inner, left, right, nodes["feature_idx"][inner], len(nodes), width)
    require(not nodes["is_categorical"].any(), "histogram trees split by categories, which are not checked")


def _depth(left: Array, right: Array) -> int:
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while True:
        level = level[left[level] != -1]
        if not len(level):
            return depth
        level = np.unique(np.concatenate([left[level], right[level]]))
        depth += 1


def _width(holders: tuple[Any, ...]) -> int:
    """Return the number of columns that certainly exist: forests and boosting pass rows to their trees unchecked."""
    from sklearn.ensemble import IsolationForest

    require(not any(isinstance(holder, IsolationForest) for holder in holders), "an isolation forest is not checked")
    widths = [getattr(holder, "n_features_in_", None) for holder in holders]
    require(bool(widths) and all(type(width) is int for width in widths), "the width of a tree's rows is unknown")
    return min(int(width) for width in widths if width is not None)


def _walk(loaded: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield everything that a loaded object contains, with the surrounding estimators that do not check its rows."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.tree import BaseDecisionTree

    passing = (BaseForest, BaseGradientBoosting)
    seen: dict[tuple[int, ...], Any] = {}
    left: list[tuple[Any, tuple[Any, ...]]] = [(loaded, ())]
    while left:
        thing, around = left.pop()
        key = (id(thing), *map(id, around))
        if key in seen or isinstance(thing, str | bytes | int | float | type(None)):
            continue
        # Kept alive, so that no other object gets its id.
        seen[key] = thing
        yield thing, around
        inner = around
        if isinstance(thing, BaseDecisionTree):
            inner = (*(holder for holder in around if isinstance(holder, passing)), thing)
        elif isinstance(thing, (*passing, BaseHistGradientBoosting)):
            inner = (thing,)
        elif hasattr(thing, "predict"):
            inner = ()
        left += [(part, inner) for part in _parts(thing)]


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, np.ndarray):
        return list(thing.ravel()) if thing.dtype == object else []
    parts: list[Any] = list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    if isinstance(thing, dict):
        parts += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts += thing
    return parts


def is_mlflow(path: Path) -> bool:
    """Whether a path is the folder of an MLflow model.

    >>> is_mlflow(Path("nowhere"))
    False
    """
    try:
        return (path / _MLFLOW).is_file()
    except (OSError, ValueError):  # the name is too long, or no name
        return False


def find_model(folder: Path) -> tuple[Path, str]:
    """Return the file of the model in a folder, and the ending that such files have elsewhere."""
    flavours = read_flavours(folder)
    name = next((name for name in _MLFLOW_FLAVOURS if name in flavours), None)
    files = [] if name is None else [flavours[name][key] for key in _MLFLOW_FILES if key in flavours[name]]
    if not files:
        raise ModelError(
            f"{folder}: none of its flavours is supported; it has {some(sorted(flavours)) or 'none'}",
            remedy="wrap a function that calls it: eh.wrap(mlflow.pyfunc.load_model(path).predict)",
        )
    file = folder / files[0]
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"{folder}: its model is outside the folder", remedy="save it again")
    if file.is_dir():
        file = next((file / inner for inner in _MLFLOW_INSIDE if (file / inner).exists()), file)
    ending = file.suffix.lower()
    return file, _MLFLOW_ENDINGS.get(ending, ending)


def read_flavours(folder: Path) -> dict[str, dict[str, str]]:
    r"""Read the flavours of a model, which its description lists in a small part of YAML.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "MLmodel").write_text("flavors:\n  xgboost:\n    data: model.ubj\n    code: null\n")
    ...     read_flavours(Path(folder))
    {'xgboost': {'data': 'model.ubj', 'code': 'null'}}
    """
    found: dict[str, dict[str, str]] = {}
    inside = False
    for line in read_toml(folder / _MLFLOW, ModelError).splitlines():
        if not line.startswith(" "):
            inside = line.rstrip() == "flavors:"
        elif inside and (flavour := re.fullmatch(r"  ([\w.-]+): *", line)):
            found[flavour[1]] = {}
        elif found and inside and (setting := re.fullmatch(r"    ([\w.-]+): *(.*?) *", line)):
            found[list(found)[-1]][setting[1]] = setting[2].strip("'\"")
    return found
