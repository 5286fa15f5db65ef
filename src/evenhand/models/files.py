"""Models from files, and from ``module:attribute`` as the command line writes it."""

from __future__ import annotations

import copy
import hashlib
import io
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._files import (
    FREE,
    check_array,
    check_limit,
    exceeded,
    limit,
    open_archive,
    open_file,
    parse_json,
    size_of,
)
from evenhand.errors import TRUST_PICKLE, EvenhandError, MissingExtra, ModelError, trust_types
from evenhand.models.base import Model, some
from evenhand.models.text.transformers import is_folder, load_folder
from evenhand.plugins import is_spec, look_here_first, named, reason

_SCHEMA = "schema.json"
_VALUES = 20
"""Values in the schema for each object of a model; files that skops writes have about five."""
_WALKED = "sklearn.externals.array_api_compat.torch"


def import_skops(purpose: str) -> Any:
    """Import skops.io; where torch is installed, without it.

    To list the estimators that may be loaded, skops has scikit-learn import each of its packages. One of them, an
    adapter that scikit-learn needs for tensors only, imports torch: half of the time and the memory. While skops is
    imported that package is passed over, as it is where there is no torch.
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


def check_skops(path: Path) -> None:
    """Raise where reading a file with skops could take more time or memory than a file of its size should.

    skops reads the schema at once, makes an object of a few kilobytes for each of its nodes, follows shared nodes as
    often as they are used, and reads an array as often as it is named. All of that can be counted from the schema and
    the archive's directory, so that no process of its own is needed to bound it.
    """
    if find_spec("skops") is None:
        raise MissingExtra("skops", "skops", f"reading {path.name}")
    with (
        open_file(path, ModelError) as file,
        open_archive(file, path, "skops", "archive_entries", "model_bytes", ModelError) as archive,
    ):
        entries = {entry.filename: entry.file_size for entry in archive.infolist()}
        if _SCHEMA not in entries:
            raise ModelError(f"{path}: it cannot be read as skops (there is no {_SCHEMA} in it). Save the model again.")
        check_limit("json_bytes", entries[_SCHEMA], path)
        try:
            schema = parse_json(archive.read(_SCHEMA), path, _VALUES * limit("model_nodes"))
        except ValueError as error:
            raise ModelError(
                f"{path}: it cannot be read as skops ({str(error)[:200]}). Save the model again."
            ) from None
        counted = _Counter(schema, entries, path)
        check_limit("model_nodes", counted.nodes, path)
        most = max(FREE, limit("unpack_ratio") * path.stat().st_size)
        check_limit("unpack_ratio", counted.bytes, path, most=most)
        for name in counted.files & entries.keys():
            _check_content(archive, name, path)


class _Counter:
    """Counts the nodes that skops will visit, and the bytes of the entries that it will read.

    skops makes one node for each id, from whichever it meets first, and follows it wherever that id is mentioned. Which
    parts of the schema it follows, and in which order, differs between its kinds of nodes; so each mention counts as
    the largest node that has the id, wherever that stands.
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
            raise exceeded("nesting", "more than Python can follow", path) from None

    def _look(self, value: Any) -> None:
        """Find the nodes of each id, and what is read of the archive."""
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
        """Count a value and all in it; a node that was met before counts with all in it once more."""
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
            raise ModelError(f"{self.path}: it holds an object that is part of itself. Save the model again.")
        return count

    def _inside(self, node: dict[str, Any]) -> int:
        return ("__loader__" in node) + self._count(list(node.values()))


def _has_id(node: dict[str, Any]) -> bool:
    return isinstance(node.get("__id__"), int | str | float)


def _check_content(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Raise where an array claims more values than it has; sparse matrices are archives of arrays."""
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
"""Allowed because `check_trees` looks at what is in them."""
OWN = ("evenhand.repairs.marginal.Marginal",)
"""Our own types: they hold a model, whose types are looked at, and texts and numbers."""
HARMLESS = (
    "numpy.dtype",
    "sklearn._loss.loss.HalfTweedieLoss",
    "sklearn._loss.loss.HalfTweedieLossIdentity",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.CompoundKernel",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.metrics._classification.balanced_accuracy_score",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)
"""Types and functions of scikit-learn and NumPy that hold or compute numbers and do nothing else.

Left out on purpose: neighbour trees, which hold places in memory as other trees do and are not checked; partial calls
and bound methods, which call whatever they are given.
"""


def check_trees(loaded: Any) -> None:
    """Raise where following the nodes of a tree in a loaded model could lead out of its memory, or never end.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> check_trees(DecisionTreeClassifier().fit([[0], [1]], [0, 1]))
    """
    for node, ensembles in _walk(loaded):
        kind = _name(node)
        if kind == TREE:
            # The estimator that holds a tree makes sure that rows are as wide as it says; a tree alone cannot.
            holder = ensembles[-1] if ensembles else None
            _require(getattr(holder, "tree_", None) is node, "a tree stands outside of an estimator")
            _check_tree(node, _width(ensembles))
        elif kind == HISTOGRAM_TREE:
            holder = ensembles[-1] if ensembles else None
            _require(getattr(holder, "_preprocessor", 0) is None, "a histogram tree stands behind other columns")
            nominal = np.any(vars(holder)["_bin_mapper"].is_categorical_)
            _require(not nominal, "histogram trees split by categories, which are not checked")
            _check_histogram_tree(node, _width(ensembles))


def _check_tree(tree: Any, width: int) -> None:
    # Before the nodes are looked at: more of them than there is memory for cannot be.
    _require(0 < tree.node_count <= tree.capacity, f"a tree says it has {tree.node_count} nodes")
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    inner = np.flatnonzero(left != -1)
    _require(_follow(inner, left[inner], right[inner], tree.node_count), "the nodes of a tree lead out of it")
    _require(_within(feature[inner], width), "a tree reads columns that there are not")
    _require(_depth(left, right) <= tree.max_depth, "a tree is deeper than it says")


def _check_histogram_tree(tree: Any, width: int) -> None:
    nodes = tree.nodes
    names = {"left", "right", "feature_idx", "is_leaf", "is_categorical"}
    whole = isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) and names <= set(nodes.dtype.names or ())
    _require(bool(whole), "a histogram tree has no nodes")
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    left, right = (nodes[side][inner].astype(np.int64) for side in ("left", "right"))
    _require(_follow(inner, left, right, len(nodes)), "the nodes of a histogram tree lead out of it")
    _require(_within(nodes["feature_idx"][inner], width), "a histogram tree reads columns that there are not")
    _require(not nodes["is_categorical"].any(), "histogram trees split by categories, which are not checked")


def _follow(inner: npt.NDArray[Any], left: npt.NDArray[Any], right: npt.NDArray[Any], count: int) -> bool:
    """Tell whether all children are there, and behind their parents, so that following them comes to an end."""
    return all(bool(((inner < child) & (child < count)).all()) for child in (left, right))


def _within(features: npt.NDArray[Any], width: int) -> bool:
    return bool(((features >= 0) & (features < width)).all())


def _depth(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> int:
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while True:
        level = level[left[level] != -1]
        if not len(level):
            return depth
        level = np.unique(np.concatenate([left[level], right[level]]))
        depth += 1


def _width(holders: tuple[Any, ...]) -> int:
    """How many columns are sure to be there: forests and boosting hand their rows to their trees unchecked."""
    from sklearn.ensemble import IsolationForest

    _require(not any(isinstance(holder, IsolationForest) for holder in holders), "an isolation forest is not checked")
    widths = [getattr(holder, "n_features_in_", None) for holder in holders]
    _require(bool(widths) and all(type(width) is int for width in widths), "a tree does not say how wide its rows are")
    return min(int(width) for width in widths if width is not None)


def _walk(loaded: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Go through everything that a loaded object holds; with the estimators around it that do not check its rows."""
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
        # Kept, so that no other object gets its number.
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


def _name(thing: Any) -> str:
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise ModelError(fault)


_PICKLES = (".joblib", ".pkl", ".pickle")


def load_model(spec: str | Path, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Model:
    """Load a model and wrap it.

    Parameters
    ----------
    spec
        A file (.onnx, .skops, .joblib, .pkl, .pickle), the folder of a Hugging Face model with its tokenizer, or
        "module:attribute" for an object in a Python module. Modules are looked for in the current directory
        first, which stays on ``sys.path`` so that the model can import its neighbours.
    trust_pickle
        Unpickling runs code from the file. Say True only for files that you made yourself.
    trust
        Names of types in a .skops file that it may create beyond those known to be harmless (`HARMLESS`, trees).

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If there is no such model, or it may not be trusted.

    Examples
    --------
    >>> load_model("operator:not_").name
    'not_'
    >>> load_model("model.pkl")
    Traceback (most recent call last):
    evenhand.errors.ModelError: model.pkl: there is no such file; check the path
    """
    model = _load(spec, trust_pickle, trust)
    if Path(spec).is_file():
        with Path(spec).open("rb") as file:
            model = copy.copy(model)
            model.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return model


def _load(spec: str | Path, trust_pickle: bool, trust: Sequence[str]) -> Model:
    # wrap() takes paths too, so the two modules need each other.
    from evenhand.models.wrap import wrap

    if Path(spec).suffix.lower() == ".onnx":
        from evenhand.models.onnx import OnnxModel

        return OnnxModel(Path(spec))
    if is_folder(Path(spec)):
        return load_folder(Path(spec))
    return wrap(load_object(spec, trust_pickle, trust))


def load_object(spec: str | Path, trust_pickle: bool = False, trust: Sequence[str] = ()) -> Any:
    """Load what a file or a module holds, as it is: an estimator that may have to be fitted, a training function.

    >>> load_object("operator:not_")
    <built-in function not_>
    """
    path, ending = Path(spec), Path(spec).suffix.lower()
    if ending == ".onnx":
        raise ModelError(f"{spec}: an ONNX file holds a model that cannot be trained. Give the estimator it came from.")
    if ending == ".skops":
        return _load_skops(check_file(path), trust)
    if ending in _PICKLES:
        return _load_pickle(check_file(path), trust_pickle)
    if isinstance(spec, Path) or not is_spec(spec):
        raise ModelError(
            f"{spec}: no model can be loaded from this. Allowed: an .onnx, .skops, .joblib, .pkl or .pickle\n"
            "file, the folder of a Hugging Face model, or module:attribute for an object in a Python module."
        )
    return named(spec, ModelError)


def check_file(path: Path) -> Path:
    """Return the path of a file that is there, not empty, and not absurdly large.

    >>> check_file(Path("nowhere.onnx"))
    Traceback (most recent call last):
    evenhand.errors.ModelError: nowhere.onnx: there is no such file; check the path
    """
    size = size_of(path, ModelError, "it is a directory or a device. Name a model file.")
    if size == 0:
        raise ModelError(f"{path}: the file is empty. Save the model again.")
    check_limit("model_bytes", size, path, "load the model yourself and wrap it")
    return path


def _load_skops(path: Path, trust: Sequence[str]) -> Any:
    check_skops(path)
    skops_io = import_skops(f"reading {path.name}")
    try:
        unknown = set(skops_io.get_untrusted_types(file=path))
        if untrusted := sorted(unknown - {*trust, *OWN, *HARMLESS, *TREES}):
            raise ModelError(
                f"{path}: it would create {some(untrusted)}, not known to be harmless",
                remedy=("if you trust them: ", trust_types(untrusted)),
            )
        if trust:
            look_here_first()
        loaded = skops_io.load(path, trusted=sorted(unknown))
        if trees := sorted(unknown.intersection(TREES) - {*trust}):
            _check_trees(path, loaded, trees)
        return loaded
    except EvenhandError:
        raise
    except Exception as error:
        raise ModelError(f"{path}: it cannot be read as skops ({reason(error)}). Save the model again.") from error


def _check_trees(path: Path, loaded: Any, trees: list[str]) -> None:
    try:
        check_trees(loaded)
    except ModelError as error:
        raise ModelError(
            f"{path}: {error}; asking such a model could crash Python",
            remedy=("if you trust the file's author: ", trust_types(trees)),
        ) from None


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
        raise ModelError(f"{path}: it cannot be unpickled ({reason(error)}).") from error
